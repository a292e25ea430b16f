//! The daemon's HTTP API: the routes, who may use them, and how failures are reported. This module translates between
//! JSON and the desk. It decides nothing.

mod audit;
pub mod channels;
pub mod connection_slots;
mod cookie;
pub mod deliveries;
mod events;
pub mod gate;
mod hooks;
mod hosts;
mod inbox;
mod metrics;
mod news;
mod openapi;
pub mod origin;
pub mod problem;
mod readiness;
pub mod requests;
mod route;
mod routes;
mod store;
mod stream;
mod tab;
pub mod tasks;
mod token_attempts;
mod tokens;
mod tool;
mod trust;

use std::sync::Arc;
use std::time::Instant;

use axum::extract::rejection::ExtensionRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequestParts, MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::http::request::Parts;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json, Router};
use codex_bridge_core::desk::{Caller, Desk};
use codex_bridge_core::token::Role;
use codex_bridge_core::trust::TrustedRoots;
use codex_bridge_core::{Bridge, Chats};
use tokio::sync::{Mutex, watch};
use tracing::level_filters::LevelFilter;
use tracing::{debug, warn};

use crate::calls::{DELEGATE_HEADER, HOME_HEADER};
use crate::channel::registry::Registry;
use crate::config::File;
use crate::failure::Failure;
use crate::paths::Paths;
use crate::socket_access::{self, Provenance, SocketCaller};
use crate::view;
use connection_slots::CallLimits;
use metrics::Meter;
use news::TaskFeed;
use readiness::Readiness;

pub use problem::{Body, Path, Query, Refusal};

/// The largest accepted body. A prompt may quote whole files.
pub const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Whether and how the daemon shuts down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shutdown {
    /// The daemon keeps running.
    No,
    /// The daemon stops. Its hosts keep running.
    LeaveHosts,
    /// The daemon stops, and its hosts with it.
    StopHosts,
}

/// The state that every route can use.
#[derive(Clone)]
pub struct App {
    /// Handles everything that callers ask for.
    pub desk: Desk,
    /// The messages of channels.
    pub chats: Chats,
    /// The bridge behind the desk: for reading, and for work without a caller.
    pub bridge: Bridge,
    /// The operator's configuration file, as it was when the daemon started.
    pub file: Arc<File>,
    /// The directories that have a trust level.
    pub trusted_roots: TrustedRoots,
    /// The answer of `GET /v1/about`.
    pub about: Arc<view::About>,
    /// The channels that are served.
    pub channels: Arc<Registry>,
    /// The daemon's paths. Running a channel reads the configuration file again.
    pub paths: Arc<Paths>,
    /// Tells the daemon, and everyone who waits, to stop.
    pub shutdown: Arc<watch::Sender<Shutdown>>,
    /// Held while a trust level is changed.
    trust_changes: Arc<Mutex<()>>,
    task_feed: TaskFeed,
    meter: Arc<Meter>,
    readiness: Arc<Readiness>,
}

impl App {
    /// Builds the state, and starts to watch tasks and hosts for the feed.
    pub fn new(
        bridge: Bridge,
        file: File,
        trusted_roots: TrustedRoots,
        about: view::About,
        shutdown: watch::Sender<Shutdown>,
        channels: Arc<Registry>,
        paths: Paths,
    ) -> Self {
        let desk = Desk::new(bridge.clone());
        let app = Self {
            channels,
            paths: Arc::new(paths),
            chats: Chats::open(desk.clone()),
            desk,
            bridge,
            file: Arc::new(file),
            trusted_roots,
            about: Arc::new(about),
            shutdown: Arc::new(shutdown),
            trust_changes: Arc::default(),
            task_feed: TaskFeed::new(),
            meter: Arc::new(Meter::new()),
            readiness: Arc::default(),
        };
        let observer = news::observe(app.bridge.clone(), app.task_feed.clone(), Arc::clone(&app.meter));
        let host_observer = news::observe_hosts(app.bridge.clone(), app.task_feed.clone());
        let stopping = app.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = observer => {}
                () = host_observer => {}
                () = stopping.shutting_down() => stopping.bridge.stop_waiting(),
            }
        });
        app
    }

    /// Returns when the daemon shuts down.
    pub async fn shutting_down(&self) {
        // An error is impossible: `self` holds the sender.
        self.shutdown.subscribe().wait_for(|shutdown| *shutdown != Shutdown::No).await.ok();
    }
}

/// The state, and the caller that a layer outside has authenticated.
pub struct Call {
    app: App,
    caller: Caller,
}

impl FromRequestParts<App> for Call {
    type Rejection = ExtensionRejection;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ExtensionRejection> {
        let Extension(caller) = Extension::from_request_parts(parts, app).await?;
        Ok(Self { app: app.clone(), caller })
    }
}

/// All routes, with `pages` from the web and MCP doors. A layer outside must have authenticated each request and put its
/// [`Caller`] into it.
pub fn router(app: App, pages: Router<App>) -> Router {
    Router::new()
        .merge(route::mounted(routes::all()))
        .merge(hooks::routes())
        .merge(pages)
        .fallback(problem::unknown_route)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .layer(middleware::map_response(problem::as_problem))
        .layer(middleware::from_fn(log_request))
        .with_state(app)
}

/// Logs each request at debug level. The log has the route, not the path, because a path may hold a secret.
async fn log_request(request: Request, next: Next) -> Response {
    // `enabled!` would lose the next event: the filters of layers take it for the event itself.
    if LevelFilter::current() < LevelFilter::DEBUG {
        return next.run(request).await;
    }
    let (extensions, method) = (request.extensions(), request.method().clone());
    let caller = extensions.get::<Caller>().map(|caller| caller.name.clone());
    let route = extensions.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    debug!(%method, route, caller, status, ms, "a request was answered");
    response
}

/// The result of a route.
pub type Reply<T> = Result<Json<T>, Refusal>;

/// The routes on the unix socket, for the user's own processes.
pub fn on_socket(router: Router, app: App) -> Router {
    let call_limits = Arc::<CallLimits>::default();
    router.layer(middleware::from_fn_with_state((app, call_limits), authenticate_process))
}

/// The caller with every role that the request delegates. An unknown role counts as viewer.
fn delegated(caller: Caller, request: &Request) -> Caller {
    let headers = request.headers().get_all(DELEGATE_HEADER);
    let role = |header: &HeaderValue| header.to_str().ok()?.parse().ok();
    headers.iter().fold(caller, |caller, header| caller.delegate(role(header).unwrap_or(Role::Viewer)))
}

fn refused(failure: Failure) -> Response {
    warn!(why = failure.message, "a process was refused at the socket");
    Refusal::from(failure).into_response()
}

/// Refuses processes that may not use the socket. Every response has the `CODEX_HOME` of the tasks in a header.
async fn authenticate_process(
    State((app, call_limits)): State<(App, Arc<CallLimits>)>,
    ConnectInfo(process): ConnectInfo<SocketCaller>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match process.provenance() {
        Ok(Provenance::Outside) => delegated(Caller::owner(), &request),
        Ok(Provenance::FromHost) if app.file.allow_nested_mcp => delegated(Caller::nested(), &request),
        Ok(Provenance::FromHost) => return refused(socket_access::started_by_codex()),
        Ok(Provenance::Unknown) => return refused(socket_access::of_unknown_origin()),
        Err(failure) => return refused(failure),
    };
    let active_call = match call_limits.begin(&caller, &request) {
        Ok(active_call) => active_call,
        Err(failure) => return Refusal::from(failure).into_response(),
    };
    request.extensions_mut().insert(caller);
    let mut response = active_call.until_sent(next.run(request).await);
    let home = app.about.codex_home.as_deref().unwrap_or_default();
    if let Ok(home) = HeaderValue::from_str(home) {
        response.headers_mut().insert(HOME_HEADER, home);
    }
    response
}
