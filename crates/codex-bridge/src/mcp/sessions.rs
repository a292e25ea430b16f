//! Whose session is whose. The SDK asks only for a session's id; here it is for whoever began it alone, so that nobody
//! answers in it what somebody else was asked.

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

/// Sessions that one caller may have: clients that go without a word leave theirs behind.
const EACH: usize = 256;
/// Where a session's id stands.
const SESSION_ID: &str = "mcp-session-id";

/// The sessions and who began each, the oldest first.
#[derive(Clone)]
pub struct Sessions {
    manager: Arc<LocalSessionManager>,
    begun: Arc<Mutex<VecDeque<(SessionId, Caller)>>>,
}

impl Sessions {
    /// Those of this manager, which has none yet.
    pub fn new(manager: Arc<LocalSessionManager>) -> Self {
        Self { manager, begun: Arc::default() }
    }

    /// Ends the sessions of every token that is revoked, for as long as it is polled.
    pub async fn end_revoked(&self, bridge: &Bridge) {
        let mut revocations = bridge.revocations();
        while revocations.changed().await.is_ok() {
            let revoked = self.remove(|caller| !caller.has_valid_token(bridge));
            self.close(revoked).await;
        }
    }

    fn begun(&self) -> MutexGuard<'_, VecDeque<(SessionId, Caller)>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_of(&self, id: &str, caller: &Caller) -> bool {
        self.begun().iter().any(|(known, owner)| known.as_ref() == id && owner == caller)
    }

    /// Remembers a session, and ends its owner's oldest when there are too many.
    async fn begin(&self, id: &str, caller: Caller) {
        self.forget_ended().await;
        let too_many = {
            let mut begun = self.begun();
            let count = begun.iter().filter(|(_, owner)| *owner == caller).count();
            let oldest = begun.iter().position(|(_, owner)| *owner == caller).filter(|_| count >= EACH);
            let too_many = oldest.and_then(|oldest| begun.remove(oldest));
            begun.push_back((id.into(), caller));
            too_many
        };
        self.close(too_many.into_iter().map(|(id, _)| id).collect()).await;
    }

    /// Forgets what the manager has none of any more.
    async fn forget_ended(&self) {
        let open = self.manager.sessions.read().await;
        self.begun().retain(|(id, _)| open.contains_key(id));
    }

    fn remove(&self, is_over: impl Fn(&Caller) -> bool) -> Vec<SessionId> {
        let mut begun = self.begun();
        let (over, kept) = std::mem::take(&mut *begun).into_iter().partition(|(_, owner)| is_over(owner));
        *begun = kept;
        let over: VecDeque<(SessionId, Caller)> = over;
        over.into_iter().map(|(id, _)| id).collect()
    }

    async fn close(&self, ids: Vec<SessionId>) {
        for id in ids {
            // One that has ended by itself needs no end.
            if let Err(error) = self.manager.close_session(&id).await {
                tracing::debug!(%error, "an MCP session did not close");
            }
        }
    }
}

/// Lets a session's owner into it, and nobody else: for them there is no such session.
pub async fn only_owner(
    State(sessions): State<Sessions>,
    Extension(caller): Extension<Caller>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let named = request.headers().contains_key(SESSION_ID);
    if named && !session_id(request.headers()).is_some_and(|id| sessions.is_of(id, &caller)) {
        let failure = Failure::new(Code::UnknownSession, "there is no such session");
        return Err(failure.hint("begin one with `initialize`").into());
    }
    let response = next.run(request).await;
    if response.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Err(problem::too_large(BODY_MAX_BYTES).into());
    }
    if let Some(id) = session_id(response.headers()).filter(|_| !named) {
        sessions.begin(id, caller).await;
    }
    Ok(response)
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    headers.get(SESSION_ID)?.to_str().ok()
}
