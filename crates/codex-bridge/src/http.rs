//! The daemon's HTTP: routes, who may use them, and how a failure is answered. Everything in it translates between JSON
//! and the bridge; nothing is decided here.

mod audit;
pub mod channels;
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
mod page;
pub mod problem;
mod readiness;
pub mod requests;
mod route;
mod routes;
pub mod seats;
mod store;
mod stream;
mod tab;
pub mod tasks;
mod tokens;
mod tool;
mod tries;
mod trust;

use std::sync::Arc;
use std::time::Instant;

use axum::Json;
use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::HeaderValue;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
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
use crate::peer::{self, Peer, Provenance};
use crate::view;
use metrics::Meter;
use news::Digest;
use readiness::Readiness;
use seats::Shares;

pub use problem::{Body, Path, Query, Refusal};

/// The largest body that is taken. A prompt may quote whole files.
pub const BODY_MAX_BYTES: usize = 4 * 1024 * 1024;

/// How the daemon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It does not.
    Never,
    /// Its hosts go on.
    LeaveHosts,
    /// Its hosts end too.
    WithHosts,
}

/// What every route can reach.
#[derive(Clone)]
pub struct App {
    /// What callers ask for goes by the desk.
    pub desk: Desk,
    /// Messages of channels.
    pub chats: Chats,
    /// What is behind the desk: for reading, and for what no caller asks for.
    pub bridge: Bridge,
    /// The operator's file, as it was when the daemon started.
    pub file: Arc<File>,
    /// The directories that the operator has decided to trust, or not to.
    pub trusted_roots: TrustedRoots,
    /// The daemon about itself.
    pub about: Arc<view::About>,
    /// The channels that are served.
    pub channels: Arc<Registry>,
    /// Where things are: the operator's file is read anew when a channel is run.
    pub paths: Arc<Paths>,
    /// Tells the daemon to end, and everyone who waits that it does.
    pub ending: Arc<watch::Sender<End>>,
    /// Held while a decision about a directory is made: one at a time.
    trust_changes: Arc<Mutex<()>>,
    digest: Digest,
    meter: Arc<Meter>,
    readiness: Arc<Readiness>,
}

impl App {
    /// What routes can reach from now on. Begins to watch the tasks, for those who list them.
    pub fn new(
        bridge: Bridge,
        file: File,
        trusted_roots: TrustedRoots,
        about: view::About,
        ending: watch::Sender<End>,
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
            ending: Arc::new(ending),
            trust_changes: Arc::default(),
            digest: Digest::new(),
            meter: Arc::new(Meter::new()),
            readiness: Arc::default(),
        };
        let observer = news::observe(app.bridge.clone(), app.digest.clone(), Arc::clone(&app.meter));
        let host_observer = news::observe_hosts(app.bridge.clone(), app.digest.clone());
        let end = app.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = observer => {}
                () = host_observer => {}
                () = end.ended() => end.bridge.stop_waiting(),
            }
        });
        app
    }

    /// Comes back when the daemon ends.
    pub async fn ended(&self) {
        // An error would mean that the sender, which we hold, has gone.
        self.ending.subscribe().wait_for(|end| *end != End::Never).await.ok();
    }
}

/// All routes, with the pages of other doors, for callers that somebody else has let in: every request must carry its
/// [`Caller`].
pub fn router(app: App, pages: Router<App>) -> Router {
    Router::new()
        .merge(route::mounted(routes::all()))
        .merge(hooks::routes())
        .merge(pages)
        .fallback(problem::nothing_here)
        .method_not_allowed_fallback(problem::wrong_method)
        .layer(DefaultBodyLimit::max(BODY_MAX_BYTES))
        .layer(middleware::map_response(problem::in_our_words))
        .layer(middleware::from_fn(logged))
        .with_state(app)
}

/// Logs requests, at debug level. By their route: a path may hold a secret.
async fn logged(request: Request, next: Next) -> Response {
    // Not by `enabled!`: filters of layers take its answer for that to the next event, which is lost then.
    if LevelFilter::current() < LevelFilter::DEBUG {
        return next.run(request).await;
    }
    let (about, method) = (request.extensions(), request.method().clone());
    let caller = about.get::<Caller>().map(|caller| caller.name.clone());
    let route = about.get::<MatchedPath>().map(|path| path.as_str().to_owned());
    let began = Instant::now();
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    debug!(%method, route, caller, status, ms, "a request was answered");
    response
}

/// What a route gives back.
pub type Reply<T> = Result<Json<T>, Refusal>;

/// The routes on the unix socket, whose callers are the user's own processes.
pub fn on_socket(router: Router, app: App) -> Router {
    let shares = Arc::<Shares>::default();
    router.layer(middleware::from_fn_with_state((app, shares), only_people))
}

/// The caller at the other end of the socket, or somebody for whom that caller acts. A word that is no role allows the
/// least.
fn delegated(caller: Caller, request: &Request) -> Caller {
    let words = request.headers().get_all(DELEGATE_HEADER);
    let role = |word: &HeaderValue| word.to_str().ok()?.parse().ok();
    words.iter().fold(caller, |caller, word| caller.delegate(role(word).unwrap_or(Role::Viewer)))
}

fn refused(failure: Failure) -> Response {
    warn!(why = failure.message, "a process was refused at the socket");
    Refusal::from(failure).into_response()
}

/// Lets in whom the socket is for, and says in every answer which home the tasks use.
async fn only_people(
    State((app, shares)): State<(App, Arc<Shares>)>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match peer.standing() {
        Ok(Provenance::Outside) => delegated(Caller::owner(), &request),
        Ok(Provenance::FromHost) if app.file.allow_nested_mcp => delegated(Caller::nested(), &request),
        Ok(Provenance::FromHost) => return refused(peer::started_by_codex()),
        Ok(Provenance::Unknown) => return refused(peer::of_unknown_origin()),
        Err(failure) => return refused(failure),
    };
    let answering = match shares.answering(&caller, &request) {
        Ok(answering) => answering,
        Err(failure) => return Refusal::from(failure).into_response(),
    };
    request.extensions_mut().insert(caller);
    let mut response = answering.until_told(next.run(request).await);
    let home = app.about.codex_home.as_deref().unwrap_or_default();
    if let Ok(home) = HeaderValue::from_str(home) {
        response.headers_mut().insert(HOME_HEADER, home);
    }
    response
}
