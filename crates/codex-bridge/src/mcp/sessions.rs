//! The owners of MCP sessions. The SDK checks only a session's id. Here a session can be used only by the caller who began
//! it, so that nobody answers a question that somebody else was asked.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use codex_bridge_core::Bridge;
use codex_bridge_core::Caller;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::session::{SessionId, SessionManager};

use crate::failure::{Code, Failure};
use crate::http::{BODY_MAX_BYTES, Refusal, problem};

/// The limit for sessions of one caller. Clients that disconnect without `DELETE` leave sessions behind.
const MAX_PER_CALLER: usize = 256;
/// The header with the session's id.
const SESSION_ID: &str = "mcp-session-id";

/// The sessions and their owners, oldest first.
#[derive(Clone)]
pub struct Sessions {
    manager: Arc<LocalSessionManager>,
    owners: Arc<Mutex<VecDeque<(SessionId, Caller)>>>,
}

impl Sessions {
    /// The sessions of a new manager.
    pub fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, owners: Arc::default() }
    }

    /// Ends the sessions of revoked tokens, until the bridge closes.
    pub async fn end_revoked(&self, bridge: &Bridge) {
        let mut revocations = bridge.revocations();
        while revocations.changed().await.is_ok() {
            let revoked = self.remove(|caller| !caller.has_valid_token(bridge));
            self.close(revoked).await;
        }
    }

    fn owners(&self) -> MutexGuard<'_, VecDeque<(SessionId, Caller)>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_owned_by(&self, id: &str, caller: &Caller) -> bool {
        self.owners().iter().any(|(known, owner)| known.as_ref() == id && owner == caller)
    }

    /// Adds a session. Ends the oldest session of the same owner if there are too many.
    async fn add(&self, id: &str, caller: Caller) {
        self.forget_ended().await;
        let surplus = {
            let mut owners = self.owners();
            let count = owners.iter().filter(|(_, owner)| *owner == caller).count();
            let oldest =
                owners.iter().position(|(_, owner)| *owner == caller).filter(|_| count >= MAX_PER_CALLER);
            let surplus = oldest.and_then(|oldest| owners.remove(oldest));
            owners.push_back((id.into(), caller));
            surplus
        };
        self.close(surplus.into_iter().map(|(id, _)| id).collect()).await;
    }

    /// Removes the sessions that the manager has already closed.
    async fn forget_ended(&self) {
        let open = self.manager.sessions.read().await;
        self.owners().retain(|(id, _)| open.contains_key(id));
    }

    fn remove(&self, has_ended: impl Fn(&Caller) -> bool) -> Vec<SessionId> {
        let mut owners = self.owners();
        let (ended, kept) = std::mem::take(&mut *owners).into_iter().partition(|(_, owner)| has_ended(owner));
        *owners = kept;
        let ended: VecDeque<(SessionId, Caller)> = ended;
        ended.into_iter().map(|(id, _)| id).collect()
    }

    async fn close(&self, ids: Vec<SessionId>) {
        for id in ids {
            // An error means that the session has already ended.
            if let Err(error) = self.manager.close_session(&id).await {
                tracing::debug!(%error, "an MCP session could not be closed");
            }
        }
    }
}

/// Refuses callers who do not own the session, as if the session did not exist.
pub async fn only_owner(
    State(sessions): State<Sessions>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let names_session = request.headers().contains_key(SESSION_ID);
    if names_session && !session_id(request.headers()).is_some_and(|id| sessions.is_owned_by(id, &caller)) {
        let failure = Failure::new(Code::UnknownSession, "there is no such session");
        return Err(failure.hint("begin one with `initialize`").into());
    }
    let response = next.run(request).await;
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Err(problem::too_large(BODY_MAX_BYTES).into());
    }
    if let Some(id) = session_id(response.headers()).filter(|_| !names_session) {
        sessions.add(id, caller).await;
    }
    Ok(response)
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}
