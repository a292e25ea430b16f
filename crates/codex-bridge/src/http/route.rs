//! One route: its path, who may use it, its body and its reply. The router and the OpenAPI document are made from the same
//! list of routes, so they cannot differ.

use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::routing::{self, MethodRouter};
use axum::{Extension, Router};
use codex_bridge_core::desk::{Caller, Verb};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{App, Refusal};

/// Generates a schema for the OpenAPI document.
pub type MakeSchema = fn(&mut SchemaGenerator) -> Schema;

/// The reply of a successful call.
#[derive(Clone, Copy)]
pub enum ReplyKind {
    /// One JSON value.
    Json(MakeSchema),
    /// One JSON value, or text of this media type.
    JsonOrText(MakeSchema, &'static str),
    /// JSON lines or server-sent events, with the same content.
    Stream(MakeSchema),
    /// Server-sent events only.
    Events,
    /// Text of this media type.
    Text(&'static str),
}

/// One route.
pub struct Route {
    /// `get` or `post`.
    pub method: &'static str,
    /// The path, with `{names}` for its variable parts.
    pub path: &'static str,
    /// What the route does, in one line.
    pub summary: &'static str,
    /// The verb that the caller must be allowed. `None`: anyone may call the route, without a token.
    pub verb: Option<Verb>,
    /// The fields of the query.
    pub query: Option<MakeSchema>,
    /// A request header, with its meaning.
    pub header: Option<(&'static str, &'static str)>,
    /// The body.
    pub body: Option<MakeSchema>,
    /// The reply.
    pub reply: ReplyKind,
    handler: MethodRouter<App>,
}

/// A `GET` route.
pub fn get<H: Handler<T, App>, T: 'static>(path: &'static str, handler: H, summary: &'static str) -> Route {
    Route::new("get", path, routing::get(handler), summary)
}

/// A `POST` route.
pub fn post<H: Handler<T, App>, T: 'static>(path: &'static str, handler: H, summary: &'static str) -> Route {
    Route::new("post", path, routing::post(handler), summary)
}

impl Route {
    fn new(
        method: &'static str,
        path: &'static str,
        handler: MethodRouter<App>,
        summary: &'static str,
    ) -> Self {
        let reply = ReplyKind::Json(|_| Schema::default());
        let verb = Some(Verb::Read);
        Self { method, path, summary, verb, query: None, header: None, body: None, reply, handler }
    }

    /// For callers with this verb.
    pub fn by(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// For anyone, without a token.
    pub fn for_anyone(mut self) -> Self {
        self.verb = None;
        self
    }

    /// With these fields in the query.
    pub fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// With a request header.
    pub fn header(mut self, name: &'static str, meaning: &'static str) -> Self {
        self.header = Some((name, meaning));
        self
    }

    /// With a JSON body.
    pub fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// Replies with JSON.
    pub fn gives<T: JsonSchema>(mut self) -> Self {
        self.reply = ReplyKind::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// Replies with JSON, or with text if the caller asks for this media type.
    pub fn gives_or_text<T: JsonSchema>(mut self, media_type: &'static str) -> Self {
        self.reply = ReplyKind::JsonOrText(SchemaGenerator::subschema_for::<T>, media_type);
        self
    }

    /// Replies with a stream.
    pub fn streams<T: JsonSchema>(mut self) -> Self {
        self.reply = ReplyKind::Stream(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// Replies in another way.
    pub fn gives_other(mut self, reply: ReplyKind) -> Self {
        self.reply = reply;
        self
    }
}

/// A router for the routes. Each checks that the caller is allowed its verb.
pub fn mounted(routes: Vec<Route>) -> Router<App> {
    routes.into_iter().fold(Router::new(), |router, route| {
        let guarded = match route.verb {
            None => route.handler,
            Some(verb) => {
                let guard = move |Extension(caller): Extension<Caller>, request: Request, next: Next| async move {
                    caller.may(verb)?;
                    Ok::<_, Refusal>(next.run(request).await)
                };
                route.handler.route_layer(middleware::from_fn(guard))
            }
        };
        router.route(route.path, guarded)
    })
}
