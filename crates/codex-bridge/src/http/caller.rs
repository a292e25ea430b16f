//! Who calls: a name for the record, and what they may do.
//!
//! Every route sees a [`Caller`] and nothing else of how they came: whoever listens (the socket, the TCP port, a door in
//! this very process) puts it into the request. A request without one was let in by mistake and is refused.

use axum::extract::{FromRequestParts, Request};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::Response;
use codex_bridge_core::Bridge;
use codex_bridge_core::bridge::Giver;
use codex_bridge_core::task::GiverKind;
use codex_bridge_core::token::Token;

use super::Refusal;
use crate::calls::Door;
use crate::failure::Failure;

pub use codex_bridge_core::token::Role;

/// How the owner of this machine is called on the record.
const LOCAL_USER: &str = "local user";
/// How somebody to whom they have lent a role is called on the record.
const AGENT: &str = "agent";
/// How the names of holders of a token begin.
const TOKEN: &str = "token ";
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
    /// By the socket too, through a program that lends a role out to somebody else, as `codex-bridge mcp` does to an agent.
    Lent,
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

    /// Somebody who acts for this caller with no more than this role. They are not the owner, whatever the role.
    pub fn lent_to(self, role: Role) -> Self {
        let role = self.role.min(role);
        match self.way {
            Way::Socket => Self { name: AGENT.to_owned(), role, way: Way::Lent },
            Way::Lent | Way::Token { .. } | Way::Nested => Self { role, ..self },
        }
    }

    /// An agent that a host of ours has started: it may hand over work and can approve nothing.
    pub fn nested() -> Self {
        Self { name: NESTED_AGENT.to_owned(), role: Role::Operator, way: Way::Nested }
    }

    /// Somebody with a token.
    pub fn with_token(token: &Token) -> Self {
        let way = Way::Token { name: token.name.clone(), hash: token.hash.clone() };
        Self { name: format!("{TOKEN}{}", token.name), role: token.role, way }
    }

    /// Whether this is the owner of the machine's account, who has lent nothing out.
    pub fn is_owner(&self) -> bool {
        self.way == Way::Socket && self.role == Role::Approver
    }

    /// Whether they run on this machine, as the owner or for them.
    pub fn is_here(&self) -> bool {
        matches!(self.way, Way::Socket | Way::Lent)
    }

    /// As whom they hand over work: what comes by a token counts against its quota.
    pub fn giver(&self) -> Giver {
        let token = match &self.way {
            Way::Token { name, .. } => Some(name.clone()),
            Way::Socket | Way::Lent | Way::Nested => None,
        };
        let kind = if self.is_owner() { GiverKind::Owner } else { GiverKind::Other };
        Giver { name: self.name.clone(), token, kind }
    }

    /// Whether they may still come in: a token may have been revoked since.
    pub fn is_still_let_in(&self, bridge: &Bridge) -> bool {
        match &self.way {
            Way::Token { name, hash } => bridge.is_still_valid(name, hash),
            Way::Socket | Way::Lent | Way::Nested => true,
        }
    }

    /// Refuses who may not do what this role may.
    pub fn may(&self, role: Role) -> Result<(), Failure> {
        if self.role >= role {
            return Ok(());
        }
        let message = format!("{} is {} {}: this needs {}", self.name, article(self.role), self.role, role);
        let hint = match self.way {
            Way::Lent => format!("a person can do it, or whoever set this agent up gives it `--role {role}`"),
            Way::Nested => "a person outside can do it".to_owned(),
            Way::Socket | Way::Token { .. } => format!("use a token with the role {role}"),
        };
        Err(Failure::new("forbidden", message).hint(hint))
    }

    /// Refuses everyone but the owner of the machine's account.
    pub fn must_be_owner(&self) -> Result<(), Failure> {
        if self.is_owner() {
            return Ok(());
        }
        let message = match self.way {
            Way::Lent => {
                "this can be done only by the user that the daemon runs as, and by no agent for them"
            }
            _ => "this can be done only on the machine itself, by the user that the daemon runs as",
        };
        Err(Failure::new("forbidden", message).hint("use the command line there"))
    }

    /// Their own name for a request, as it is stored: nobody meets the work of another caller by the same word.
    pub fn own_name(&self, client_request_id: Option<String>) -> Option<String> {
        let id = client_request_id.filter(|id| !id.trim().is_empty())?;
        // One that looks like a token's is not to be met by that token.
        let is_kept = self.is_here() && !id.starts_with(TOKEN);
        Some(if is_kept { id } else { format!("{}: {id}", self.name) })
    }

    /// The door that a start by this caller comes through. Only the owner's own word for it counts.
    pub fn door(&self, said: Door) -> Door {
        match self.way {
            Way::Socket if self.is_owner() => said,
            Way::Socket | Way::Lent => Door::Agent,
            Way::Token { .. } | Way::Nested => Door::Remote,
        }
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
pub async fn only_owner(caller: Caller, request: Request, next: Next) -> Result<Response, Refusal> {
    caller.must_be_owner()?;
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_was_lent_a_role_is_not_the_owner() {
        assert!(Caller::local().is_owner() && Caller::local().must_be_owner().is_ok());
        for role in Role::ALL {
            let agent = Caller::local().lent_to(role);
            assert_eq!((agent.role, agent.name.as_str(), agent.is_owner()), (role, "agent", false));
            assert_eq!(agent.must_be_owner().unwrap_err().code, "forbidden");
            assert_eq!(agent.door(Door::Cli), Door::Agent, "whatever it says");
        }
        assert_eq!(Caller::local().door(Door::Cli), Door::Cli);
    }

    #[test]
    fn lending_gives_nobody_more_than_they_have() {
        let lent = Caller::local().lent_to(Role::Viewer).lent_to(Role::Approver);
        assert_eq!((lent.role, lent.is_owner()), (Role::Viewer, false));
        let nested = Caller::nested().lent_to(Role::Approver);
        assert_eq!((nested.role, nested.door(Door::Agent)), (Role::Operator, Door::Remote));
    }
}
