//! Callers: their name, their role, and how they connected.

use super::calls::Door;
use crate::bridge::{Author, Bridge, NESTED_AGENT, TOKEN};
use crate::inbox::Party;
use crate::refusal::Forbidden;
use crate::task::AuthorKind;
use crate::token::{Role, Token};

/// The name of the machine's owner in the audit log.
const OWNER: &str = "local user";
/// The name of an agent that acts for the owner.
const AGENT: &str = "agent";

/// A caller. Only the entrance (socket, port or channel) creates one; no caller can claim to be another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// The name in the audit log: `local user`, `token phone`, `telegram:7 (Ann)`.
    pub name: String,
    /// What the caller may do.
    pub role: Role,
    origin: Origin,
    /// Whether an agent calls, by the tool.
    is_agent: bool,
}

/// How a caller connected.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    /// By the socket, which only the owner of the machine's account can open.
    Owner,
    /// By the socket, through a program that acts for somebody else, as `codex-bridge mcp` does for an agent.
    Delegate,
    /// By a token. A later token with the same name has another hash.
    Token { name: String, hash: Vec<u8> },
    /// By the socket, from a process below one of our hosts. The operator has to allow it.
    Nested,
    /// By a message in a chat.
    Chat,
}

/// What a caller can do. The same verbs at every door.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Read tasks, logs, requests and deliveries.
    Read,
    /// Start a task.
    Start,
    /// Continue a finished task.
    Continue,
    /// Fork a finished task.
    Fork,
    /// Add text to the running turn.
    Steer,
    /// Stop a task.
    Interrupt,
    /// Release a task's thread for another program.
    Release,
    /// Get reports of finished tasks, each once.
    NotifyEnded,
    /// Retry a delivery, or send a test to a target.
    Deliver,
    /// Decide on requests.
    Decide,
    /// See a request without redaction.
    Reveal,
    /// Administer the daemon: tokens, trust, channels, inbox, store, audit log, stop.
    Administer,
}

/// What a verb requires of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// This role, or a higher one.
    Role(Role),
    /// The owner of the machine's account, calling directly.
    Owner,
}

impl Verb {
    /// What the verb requires.
    pub fn requirement(self) -> Requirement {
        match self {
            Self::Read => Requirement::Role(Role::Viewer),
            Self::Start
            | Self::Continue
            | Self::Fork
            | Self::Steer
            | Self::Interrupt
            | Self::Release
            | Self::NotifyEnded
            | Self::Deliver => Requirement::Role(Role::Operator),
            Self::Decide => Requirement::Role(Role::Approver),
            Self::Reveal | Self::Administer => Requirement::Owner,
        }
    }
}

impl Caller {
    /// The owner of the machine's account, who may do everything.
    pub fn owner() -> Self {
        Self { name: OWNER.to_owned(), role: Role::Approver, origin: Origin::Owner, is_agent: false }
    }

    /// An agent inside one of our hosts. It may hand over work, but approve nothing.
    pub fn nested() -> Self {
        Self { name: NESTED_AGENT.to_owned(), role: Role::Operator, origin: Origin::Nested, is_agent: true }
    }

    /// The holder of a token.
    pub fn with_token(token: &Token) -> Self {
        let origin = Origin::Token { name: token.name.clone(), hash: token.hash.clone() };
        Self { name: format!("{TOKEN}{}", token.name), role: token.role, origin, is_agent: false }
    }

    /// The author of a message in a chat.
    pub(crate) fn in_chat(author: String, role: Role, party: Party) -> Self {
        Self { name: author, role, origin: Origin::Chat, is_agent: party == Party::Agent }
    }

    /// A caller who acts for this one, with at most this role. A delegate is never the owner.
    #[must_use]
    pub fn delegate(self, role: Role) -> Self {
        let role = self.role.min(role);
        match self.origin {
            Origin::Owner => Self { name: AGENT.to_owned(), role, origin: Origin::Delegate, is_agent: true },
            _ => Self { role, ..self },
        }
    }

    /// The same caller, using the tool for agents. The audit log calls the owner's agent `agent`.
    #[must_use]
    pub fn by_tool(self) -> Self {
        let name = if self.is_local() { AGENT.to_owned() } else { self.name };
        Self { name, is_agent: true, ..self }
    }

    /// Whether this is the owner of the machine's account, calling directly.
    pub fn is_owner(&self) -> bool {
        self.origin == Origin::Owner && self.role == Role::Approver
    }

    /// Whether this is the owner or somebody on this machine who acts for the owner.
    pub fn is_local(&self) -> bool {
        matches!(self.origin, Origin::Owner | Origin::Delegate)
    }

    /// Whether the caller writes in a chat, and so reaches only the task of the conversation.
    pub fn is_in_chat(&self) -> bool {
        self.origin == Origin::Chat
    }

    /// Whether a person may be behind this caller, and not an agent or the tool for agents.
    pub fn is_person(&self) -> bool {
        !self.is_agent && matches!(self.origin, Origin::Owner | Origin::Token { .. } | Origin::Chat)
    }

    /// The name and the hash of the caller's token.
    pub fn token(&self) -> Option<(&str, &[u8])> {
        match &self.origin {
            Origin::Token { name, hash } => Some((name, hash)),
            _ => None,
        }
    }

    /// Whether the caller's token, if any, is still valid.
    pub fn has_valid_token(&self, bridge: &Bridge) -> bool {
        self.token().is_none_or(|(name, hash)| bridge.is_still_valid(name, hash))
    }

    /// Refuses a verb that this caller may not use.
    pub fn may(&self, verb: Verb) -> Result<(), Forbidden> {
        match verb.requirement() {
            Requirement::Role(role) if self.role >= role => Ok(()),
            Requirement::Role(role) => Err(self.lacks(role)),
            Requirement::Owner if self.is_owner() => Ok(()),
            Requirement::Owner => Err(self.is_not_owner()),
        }
    }

    fn lacks(&self, role: Role) -> Forbidden {
        let article = if self.role == Role::Viewer { "a" } else { "an" };
        let message = format!("{} is {article} {}: this needs {role}", self.name, self.role);
        let hint = match self.origin {
            Origin::Delegate => {
                format!("a person can do it, or start this agent with `--role {role}`")
            }
            Origin::Nested => "a person outside can do it".to_owned(),
            Origin::Chat => "the operator lists who may in the channel's configuration".to_owned(),
            Origin::Owner | Origin::Token { .. } => format!("use a token with the role {role}"),
        };
        Forbidden { message, hint }
    }

    fn is_not_owner(&self) -> Forbidden {
        let message = match self.origin {
            Origin::Delegate => "only the user who runs the daemon may do this, not an agent",
            _ => "only the user who runs the daemon may do this, on the machine itself",
        };
        Forbidden { message: message.to_owned(), hint: "use the command line there".to_owned() }
    }

    /// The author of work that the caller hands over. Work that comes by a token counts against its quota.
    pub fn author(&self) -> Author {
        let kind = if self.is_owner() { AuthorKind::Owner } else { AuthorKind::Other };
        Author { name: self.name.clone(), token: self.token().map(|(name, _)| name.to_owned()), kind }
    }

    /// The stored form of the caller's name for a request. It is distinct per caller.
    pub fn stored_name(&self, client_request_id: Option<String>) -> Option<String> {
        let id = client_request_id.filter(|id| !id.trim().is_empty())?;
        // The owner must not reach the work of a token by a name such as `token ci: 7`.
        let is_kept = self.is_local() && !id.starts_with(TOKEN);
        Some(if is_kept { id } else { format!("{}: {id}", self.name) })
    }

    /// The door of a start by this caller. Only the owner may choose it by `said`.
    pub fn door(&self, said: Door) -> Door {
        match self.origin {
            Origin::Owner if self.is_owner() => said,
            Origin::Owner | Origin::Delegate => Door::Agent,
            Origin::Token { .. } | Origin::Nested | Origin::Chat => Door::Remote,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bridge::without_caller;
    use crate::token::Quota;

    #[test]
    fn a_delegate_is_not_the_owner() {
        assert!(Caller::owner().is_owner() && Caller::owner().may(Verb::Administer).is_ok());
        for role in Role::ALL {
            let agent = Caller::owner().delegate(role);
            assert_eq!((agent.role, agent.name.as_str(), agent.is_owner()), (role, "agent", false));
            assert!(agent.may(Verb::Administer).is_err());
            assert_eq!(agent.door(Door::Cli), Door::Agent, "whatever it says");
        }
        assert_eq!(Caller::owner().door(Door::Cli), Door::Cli);
    }

    #[test]
    fn a_delegate_has_no_more_than_who_it_acts_for() {
        let agent = Caller::owner().delegate(Role::Viewer).delegate(Role::Approver);
        assert_eq!((agent.role, agent.is_owner()), (Role::Viewer, false));
        let nested = Caller::nested().delegate(Role::Approver);
        assert_eq!((nested.role, nested.door(Door::Agent)), (Role::Operator, Door::Remote));
    }

    #[test]
    fn the_own_part_of_a_name_is_what_the_caller_said() {
        let token = Token::new("ci", Role::Operator, Quota::default(), 1).unwrap().0;
        for caller in [Caller::owner(), Caller::nested(), Caller::with_token(&token)] {
            for said in ["nightly", "a: b", "sk-proj-1: 2"] {
                let stored = caller.stored_name(Some(said.to_owned())).unwrap();
                assert_eq!(without_caller(&stored), said, "{stored}");
            }
        }
    }

    #[test]
    fn each_verb_needs_its_role_and_no_more() {
        let may = |role, verb| Caller::owner().delegate(role).may(verb).is_ok();
        for (verb, least) in [
            (Verb::Read, Role::Viewer),
            (Verb::Start, Role::Operator),
            (Verb::Interrupt, Role::Operator),
            (Verb::Decide, Role::Approver),
        ] {
            for role in Role::ALL {
                assert_eq!(may(role, verb), role >= least, "{verb:?} by {role}");
            }
        }
        assert!(!may(Role::Approver, Verb::Reveal));
    }
}
