//! One route: its way in, who may use it, and what it takes and gives. The router and the OpenAPI document are made from
//! the same list of these, so that neither can know something that the other does not.

use axum::extract::Request;
use axum::handler::Handler;
use axum::middleware::{self, Next};
use axum::routing::{self, MethodRouter};
use axum::{Extension, Router};
use codex_bridge_core::desk::{Caller, Verb};
use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::{App, Refusal};

/// Makes a schema when the document is made.
pub type Make = fn(&mut SchemaGenerator) -> Schema;

/// What a route gives when it goes well.
#[derive(Clone, Copy)]
pub enum Gives {
    /// One JSON value.
    Json(Make),
    /// The same, or plain text of this media type.
    JsonOrText(Make, &'static str),
    /// JSON lines, or server-sent events with the same content.
    Stream(Make),
    /// Server-sent events only.
    Events,
    /// Text of this media type.
    Text(&'static str),
}

/// One route.
pub struct Route {
    /// `get` or `post`.
    pub method: &'static str,
    /// Its path, with `{names}` for what varies.
    pub path: &'static str,
    /// What it does, in a line.
    pub summary: &'static str,
    /// What its caller does, which says who may; none is for anyone, without a token.
    pub verb: Option<Verb>,
    /// The fields of its query.
    pub query: Option<Make>,
    /// A header that it understands, with what it means.
    pub header: Option<(&'static str, &'static str)>,
    /// Its body.
    pub body: Option<Make>,
    /// What it gives.
    pub gives: Gives,
    handler: MethodRouter<App>,
}

/// A route that is read.
pub fn get<H: Handler<T, App>, T: 'static>(path: &'static str, handler: H, summary: &'static str) -> Route {
    Route::new("get", path, routing::get(handler), summary)
}

/// A route that does something.
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
        let gives = Gives::Json(|_| Schema::default());
        let verb = Some(Verb::Read);
        Self { method, path, summary, verb, query: None, header: None, body: None, gives, handler }
    }

    /// For callers who may do this.
    pub fn by(mut self, verb: Verb) -> Self {
        self.verb = Some(verb);
        self
    }

    /// For anyone, without a token.
    pub fn for_anyone(mut self) -> Self {
        self.verb = None;
        self
    }

    /// With these fields in its query.
    pub fn query<T: JsonSchema>(mut self) -> Self {
        self.query = Some(T::json_schema);
        self
    }

    /// With a header.
    pub fn header(mut self, name: &'static str, meaning: &'static str) -> Self {
        self.header = Some((name, meaning));
        self
    }

    /// With a body.
    pub fn takes<T: JsonSchema>(mut self) -> Self {
        self.body = Some(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// Gives JSON.
    pub fn gives<T: JsonSchema>(mut self) -> Self {
        self.gives = Gives::Json(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// Gives JSON, or text for who asks for it.
    pub fn gives_or_text<T: JsonSchema>(mut self, media_type: &'static str) -> Self {
        self.gives = Gives::JsonOrText(SchemaGenerator::subschema_for::<T>, media_type);
        self
    }

    /// Gives a stream of these.
    pub fn streams<T: JsonSchema>(mut self) -> Self {
        self.gives = Gives::Stream(SchemaGenerator::subschema_for::<T>);
        self
    }

    /// Gives something else.
    pub fn gives_other(mut self, gives: Gives) -> Self {
        self.gives = gives;
        self
    }
}

/// The routes, each behind the desk's rule for its verb.
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
