//! The daemon's HTTP: routes, who may use them, and how a failure is answered. Everything in it translates between JSON
//! and the bridge; nothing is decided here.

mod events;
mod hosts;
mod requests;
mod store;
mod tasks;
mod tool;

use std::sync::Arc;

use axum::Json;
use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use codex_bridge_core::Bridge;
use tokio::sync::watch;

use crate::admission::Rules;
use crate::client::HOME_HEADER;
use crate::daemon::End;
use crate::failure::{Failure, Wrapped};
use crate::peer::Peer;
use crate::view;

/// What every route can reach.
#[derive(Clone)]
pub struct App {
    /// The bridge.
    pub bridge: Bridge,
    /// What callers may ask for.
    pub rules: Arc<Rules>,
    /// The daemon about itself.
    pub about: Arc<view::About>,
    /// Tells the daemon to end, and everyone who waits that it does.
    pub ending: Arc<watch::Sender<End>>,
}

impl App {
    /// Comes back when the daemon ends.
    pub async fn ended(&self) {
        // An error would mean that the sender, which we hold, has gone.
        let _ = self.ending.subscribe().wait_for(|end| *end != End::Never).await;
    }
}

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/tasks", get(tasks::list).post(tasks::start))
        .route("/v1/tasks/{id}", get(tasks::show))
        .route("/v1/tasks/{id}/wait", get(tasks::wait))
        .route("/v1/tasks/{id}/events", get(events::read))
        .route("/v1/tasks/{id}/turns", post(tasks::continue_task))
        .route("/v1/tasks/{id}/steer", post(tasks::steer))
        .route("/v1/tasks/{id}/interrupt", post(tasks::interrupt))
        .route("/v1/tasks/{id}/fork", post(tasks::fork))
        .route("/v1/tasks/{id}/release", post(tasks::release))
        .route("/v1/tasks/{id}/requests/{request}/decision", post(requests::decide))
        .route("/v1/requests", get(requests::list))
        .route("/v1/hosts", get(hosts::list))
        .route("/v1/tool", post(tool::call))
        .route("/v1/store/check", post(store::check))
        .route("/v1/store/backup", post(store::backup))
        .route("/v1/gc", post(store::gc))
        .route("/v1/about", get(hosts::about))
        .route("/v1/stop", post(hosts::stop))
        .route("/healthz", get(hosts::health))
        .fallback(nothing_here)
        .layer(middleware::from_fn_with_state(app.clone(), only_people))
        .with_state(app)
}

/// A failure on its way to the caller.
pub struct Refusal(Failure);

/// What a route gives back.
pub type Reply<T> = Result<Json<T>, Refusal>;

impl<E: Into<Failure>> From<E> for Refusal {
    fn from(error: E) -> Self {
        Self(error.into())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        (status(&self.0.code), Json(Wrapped { error: self.0 })).into_response()
    }
}

fn status(code: &str) -> StatusCode {
    match code {
        "unknown_task" | "unknown_request" | "unknown_route" => StatusCode::NOT_FOUND,
        "wrong_state" | "ambiguous_task" | "duplicate" => StatusCode::CONFLICT,
        "peer_refused" => StatusCode::FORBIDDEN,
        "store_full" => StatusCode::INSUFFICIENT_STORAGE,
        "daemon_stopping" => StatusCode::SERVICE_UNAVAILABLE,
        "internal" | "hosts" | "store" | "store_corrupt" | "store_locked" | "store_read_only"
        | "store_too_new" => StatusCode::INTERNAL_SERVER_ERROR,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// Lets in whom the socket is for, and says in every answer which home the tasks use.
async fn only_people(
    State(app): State<App>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
    next: Next,
) -> Response {
    let hosts = app.bridge.hosts().await;
    let processes: Vec<u32> =
        hosts.iter().flat_map(|host| [host.record().codex.pid, host.record().keeper.pid]).collect();
    if let Err(failure) = peer.check(&processes) {
        return Refusal(failure).into_response();
    }
    let mut response = next.run(request).await;
    let home = app.about.codex_home.as_deref().unwrap_or_default();
    if let Ok(home) = HeaderValue::from_str(home) {
        response.headers_mut().insert(HOME_HEADER, home);
    }
    response
}

async fn nothing_here() -> Refusal {
    Refusal(Failure::new("unknown_route", "the daemon knows no such route"))
}

/// JSON from the caller, whose mistakes are told in our own way.
pub struct Body<T>(pub T);

impl<T, S> axum::extract::FromRequest<S> for Body<T>
where
    T: serde::de::DeserializeOwned,
    S: Send + Sync,
{
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let bytes = bytes::Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|error| Failure::new("bad_call", error.to_string()))?;
        let read =
            serde_json::from_slice(&bytes).map_err(|error| Failure::new("bad_call", error.to_string()))?;
        Ok(Self(read))
    }
}
