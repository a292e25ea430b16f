//! `/mcp` in the daemon: streamable HTTP for authenticated callers.
//!
//! The gate has already checked host, origin and token, so the SDK's own checks are off.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::request::Parts;
use axum::middleware;
use axum::routing::any_service;
use codex_bridge_core::Caller;
use rmcp::model::ErrorData;
use rmcp::service::{RequestContext, RoleServer};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};

use super::access::Access;
use super::sessions::{Sessions, only_owner};
use super::{Backend, Server};
use crate::http::{App, BODY_MAX_BYTES};

/// A session of an older revision ends after this time without a message. The SDK's five minutes are too short: a command
/// or a person may take longer, and nothing is sent meanwhile.
const SESSION_TIMEOUT: Duration = Duration::from_hours(24);

/// The route `/mcp`.
pub fn routes(app: &App) -> Router<App> {
    let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
    config.max_request_body_bytes = BODY_MAX_BYTES;
    let stop = config.cancellation_token.clone();
    let server = Server { backend: Backend::InProcess(Box::new(app.clone())) };
    let mut manager = LocalSessionManager::default();
    manager.session_config.keep_alive = Some(SESSION_TIMEOUT);
    let manager = Arc::new(manager);
    let sessions = Sessions::new(Arc::clone(&manager));
    let service = StreamableHttpService::new(move || Ok(server.clone()), manager, config);
    let (app, watched) = (app.clone(), sessions.clone());
    tokio::spawn(async move {
        tokio::select! {
            () = watched.end_revoked(&app.bridge) => {}
            () = app.shutting_down() => {}
        }
        stop.cancel();
    });
    Router::new()
        .route("/mcp", any_service(service))
        .route_layer(middleware::from_fn_with_state(sessions, only_owner))
}

/// Access to the daemon in the name of the caller of this request.
pub fn access(app: &App, context: &RequestContext<RoleServer>) -> Result<Access, ErrorData> {
    let parts = context.extensions.get::<Parts>();
    let caller = parts.and_then(|parts| parts.extensions.get::<Caller>()).cloned();
    let caller = caller.ok_or_else(|| ErrorData::internal_error("the request has no caller", None))?;
    Ok(Access::in_process(app.clone(), caller))
}
