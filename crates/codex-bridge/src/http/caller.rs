//! Who calls: a name for the record, and what they may do.
//!
//! Every route sees a [`Caller`] and nothing else of how they came: whoever listens (the socket, the TCP port, a door in
//! this very process) puts it into the request. A request without one was let in by mistake and is refused.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use codex_bridge_core::Bridge;
use codex_bridge_core::token::Token;

use super::Refusal;
use crate::calls::Door;
use crate::failure::Failure;

pub use codex_bridge_core::token::Role;

/// How the owner of this machine is called on the record.
const LOCAL_USER: &str = "local user";
/// How an agent inside one of our own hosts is called on the record.
const NESTED_AGENT: &str = "nested agent";

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// For the record: `local user`, `token phone`.
    pub name: String,
    /// What they may do.
    pub role: Role,
    way: Way,
}

/// How they came.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Way {
    /// By the socket that only the owner of this machine's account can open.
    Socket,
    /// By a token. One of the same name that comes later is another one.
    Token { name: String, hash: Vec<u8> },
    /// By the socket too, from below a host, which the operator has allowed.
    Nested,
}

impl Caller {
    /// The owner of this machine's account, who may do everything.
    pub fn local() -> Self {
        Self { name: LOCAL_USER.to_owned(), role: Role::Approver, way: Way::Socket }
    }

    /// The same with no more than this role.
    pub fn lent_to(self, role: Role) -> Self {
        Self { role: self.role.min(role), ..self }
    }

    /// An agent that a host of ours has started: it may hand over work and can approve nothing.
    pub fn nested() -> Self {
        Self { name: NESTED_AGENT.to_owned(), role: Role::Operator, way: Way::Nested }
    }

    /// Somebody with a token.
    pub fn with_token(token: &Token) -> Self {
        let way = Way::Token { name: token.name.clone(), hash: token.hash.clone() };
        Self { name: format!("token {}", token.name), role: token.role, way }
    }

    /// Whether this is the owner of the machine's account.
    pub fn is_local(&self) -> bool {
        self.way == Way::Socket
    }

    /// Whether they may still come in: a token may have been revoked since.
    pub fn is_still_let_in(&self, bridge: &Bridge) -> bool {
        match &self.way {
            Way::Token { name, hash } => bridge.is_still_valid(name, hash),
            Way::Socket | Way::Nested => true,
        }
    }

    /// Refuses who may not do what this role may.
    pub fn may(&self, role: Role) -> Result<(), Failure> {
        if self.role >= role {
            return Ok(());
        }
        let message = format!("{} is {} {}: this needs {}", self.name, article(self.role), self.role, role);
        Err(Failure::new("forbidden", message).hint(format!("use a token with the role {role}")))
    }

    /// Refuses everyone but the owner of the machine's account.
    pub fn must_be_local(&self) -> Result<(), Failure> {
        if self.is_local() {
            return Ok(());
        }
        let message = "this can be done only on the machine itself, by the user that the daemon runs as";
        Err(Failure::new("forbidden", message).hint("use the command line there"))
    }

    /// Their own name for a request, as it is stored: nobody meets the work of another caller by the same word.
    pub fn own_name(&self, client_request_id: Option<String>) -> Option<String> {
        let id = client_request_id.filter(|id| !id.trim().is_empty())?;
        Some(if self.is_local() { id } else { format!("{}: {id}", self.name) })
    }

    /// The door that a start by this caller comes through. A remote caller's own word for it counts for nothing.
    pub fn door(&self, said: Door) -> Door {
        if self.is_local() { said } else { Door::Remote }
    }
}

fn article(role: Role) -> &'static str {
    if role == Role::Viewer { "a" } else { "an" }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Refusal> {
        let nobody = || Failure::internal("nobody has said who calls").into();
        parts.extensions.get::<Self>().cloned().ok_or_else(nobody)
    }
}

/// Lets pass who may do what this role may.
pub async fn at_least(role: Role, caller: Caller, request: Request, next: Next) -> Result<Response, Refusal> {
    caller.may(role)?;
    Ok(next.run(request).await)
}

/// Lets the owner of the machine's account pass.
pub async fn only_local(caller: Caller, request: Request, next: Next) -> Result<Response, Refusal> {
    caller.must_be_local()?;
    Ok(next.run(request).await)
}
