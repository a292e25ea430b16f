//! The operator's rules for a channel: who may write, where Codex works, and how much. Pure.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use codex_session::{ApprovalMode, Escalations, Sandbox};
use serde::{Deserialize, Serialize};

use super::transcriber::Transcriber;
use super::{ChannelName, ConversationKey, Message, Party, Room};
use crate::token::Role;

/// The operator's rules for a channel.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// The channel's name.
    pub channel: ChannelName,
    /// Who may write, by the configuration. Nobody else gets a reply.
    pub allow: Vec<Allowed>,
    /// Who may write by a code. Their ids come from the platform, so `*` means nothing special in them.
    pub allowed_by_code: Vec<Allowed>,
    /// The directories in which Codex may work, by name.
    pub workspaces: BTreeMap<String, PathBuf>,
    /// The default workspace of a conversation.
    pub workspace: String,
    /// What commands may touch.
    pub sandbox: Sandbox,
    /// When Codex asks.
    pub approval_policy: ApprovalMode,
    /// Whether commands reach the network.
    pub network: bool,
    /// Directories beside the workspace in which commands may write.
    pub writable_roots: Vec<PathBuf>,
    /// The profile's rule for requests to leave the sandbox.
    pub escalations: Option<Escalations>,
    /// The models that people may choose.
    pub models: Vec<String>,
    /// The model, if not Codex's own choice.
    pub model: Option<String>,
    /// The reasoning effort, if not Codex's own choice.
    pub effort: Option<String>,
    /// What happens to a message while a turn runs.
    pub while_running: WhileRunning,
    /// Whether strangers are told a code by which the operator can allow them.
    pub pairing: bool,
    /// Whether messages in groups are only for the bot if they name it, reply to it or are commands.
    pub mention_only: bool,
    /// How long a turn may work, not counting waits for people.
    pub turn_limit: Option<Duration>,
    /// Messages older than this are not worked on.
    pub max_age: Option<Duration>,
    /// How often a message is tried before it is given up.
    pub attempts: u32,
    /// A message that has passed this many bridges is not answered.
    pub max_hops: u32,
    /// How many messages may wait in one conversation. Further ones are deferred.
    pub most_waiting: u32,
    /// How many messages may wait in the channel. Further ones wait at their source.
    pub most_waiting_in_all: u32,
    /// What happens to messages for which there is no room.
    pub when_full: WhenFull,
    /// How many messages of one agent are worked on per hour.
    pub agent_turns_per_hour: u32,
    /// How many messages of agents in a row are worked on in one conversation.
    pub agent_turns_in_a_row: u32,
    /// Makes text of recordings, if the operator has a program for that.
    pub transcriber: Option<Transcriber>,
    /// Whether the source keeps a watermark of messages that are done.
    pub acknowledges: bool,
}

/// What happens to a message while a turn runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhileRunning {
    /// The message waits its turn.
    #[default]
    Queue,
    /// The message is added to the turn.
    Steer,
}

/// What happens to messages for which there is no room.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The source keeps them, and we read on when there is room again.
    #[default]
    ReadLater,
    /// The source is told, and offers them again.
    PutOff,
}

/// A sender who may write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    /// The platform's id of the sender. `*` at its end matches any continuation.
    pub sender: String,
    /// What the sender may do.
    pub role: Role,
    /// The only place in which the sender may do it, with the threads in it; `None` means everywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Allowed {
    /// The roles as a configuration writes them.
    pub const ROLES: [&str; 2] = ["user", "approver"];

    /// Reads `ID`, `ID:user` or `ID:approver`. An id may contain colons, so a misspelled role is read as part of the
    /// id; only the platform can detect that.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (sender, role) = match text.rsplit_once(':') {
            Some((sender, "approver")) => (sender, Role::Approver),
            Some((sender, "user")) => (sender, Role::Operator),
            _ => (text, Role::Operator),
        };
        if sender.trim().is_empty() {
            return Err(format!("{text:?} names nobody: write an id, or id:approver"));
        }
        Ok(Self { sender: sender.trim().to_owned(), role, place: None })
    }

    /// The same, in this place only.
    #[must_use]
    pub fn only_in(self, place: &str) -> Self {
        Self { place: Some(place.to_owned()), ..self }
    }

    fn matches(&self, sender: &str) -> bool {
        self.sender.strip_suffix('*').map_or(self.sender == sender, |start| sender.starts_with(start))
    }

    fn holds_in(&self, conversation: &ConversationKey) -> bool {
        let Some(place) = &self.place else { return true };
        // `chat:topic` and `chat/thread` are in the chat.
        let rest = conversation.as_str().strip_prefix(place.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/']))
    }
}

impl Default for Rules {
    /// Nobody may write, and Codex works nowhere.
    fn default() -> Self {
        Self::new("", Vec::new(), BTreeMap::new())
    }
}

impl Rules {
    /// Rules with the defaults: read-only, approvals on request, ten minutes a turn.
    pub fn new(channel: &str, allow: Vec<Allowed>, workspaces: BTreeMap<String, PathBuf>) -> Self {
        Self {
            channel: channel.into(),
            allow,
            allowed_by_code: Vec::new(),
            workspace: workspaces.keys().next().cloned().unwrap_or_default(),
            workspaces,
            sandbox: Sandbox::ReadOnly,
            // Under `untrusted` every `ls` would ask.
            approval_policy: ApprovalMode::OnRequest,
            network: false,
            writable_roots: Vec::new(),
            escalations: None,
            models: Vec::new(),
            model: None,
            effort: None,
            while_running: WhileRunning::Queue,
            pairing: false,
            mention_only: true,
            turn_limit: Some(Duration::from_mins(10)),
            max_age: None,
            attempts: 5,
            max_hops: 2,
            most_waiting: 200,
            most_waiting_in_all: 5_000,
            when_full: WhenFull::ReadLater,
            agent_turns_per_hour: 30,
            agent_turns_in_a_row: 100,
            transcriber: None,
            acknowledges: false,
        }
    }

    /// The role of a sender in a conversation; `None` if the sender may not write there. An agent is never an approver.
    pub fn role(&self, id: &str, party: Party, conversation: &ConversationKey) -> Option<Role> {
        let configured = self.allow.iter().filter(|allowed| allowed.matches(id));
        let by_code = self.allowed_by_code.iter().filter(|allowed| allowed.sender == id);
        let own = configured.chain(by_code).filter(|allowed| allowed.holds_in(conversation));
        let role = own.map(|allowed| allowed.role).max()?;
        Some(if party == Party::Agent { Role::Operator } else { role })
    }

    /// The role of the sender of a message.
    pub fn role_of(&self, message: &Message) -> Option<Role> {
        self.role(&message.sender_id, message.party, &message.conversation)
    }

    /// Whether somebody who reads the replies to this message may decide.
    pub fn has_approver(&self, message: &Message) -> bool {
        let decides =
            |allowed: &Allowed| allowed.role == Role::Approver && allowed.holds_in(&message.conversation);
        match message.room {
            Room::Direct => self.role_of(message) == Some(Role::Approver),
            Room::Shared => self.allow.iter().chain(&self.allowed_by_code).any(decides),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allow: &[&str]) -> Rules {
        let allow = allow.iter().map(|text| Allowed::parse(text).unwrap()).collect();
        Rules::new("chat", allow, BTreeMap::new())
    }

    fn message(sender: &str, party: Party, room: Room) -> Message {
        let message = crate::store::conformance::samples::message(1, "room");
        Message { sender_id: sender.to_owned(), party, room, ..message }
    }

    #[test]
    fn only_who_is_named_may_write_and_only_people_decide() {
        let rules = rules(&["ada:approver", "bob", "peer:*", "peer:x:approver"]);
        let role = |id, party| rules.role(id, party, &"room".into());
        assert_eq!(role("ada", Party::Person), Some(Role::Approver));
        assert_eq!(role("bob", Party::Person), Some(Role::Operator));
        assert_eq!(role("eve", Party::Person), None);
        assert_eq!(role("peer:x", Party::Agent), Some(Role::Operator), "an agent never decides");
        assert_eq!(role("peer:y", Party::Agent), Some(Role::Operator));
    }

    #[test]
    fn a_conversation_has_an_approver_if_one_can_read_it() {
        let rules = rules(&["ada:approver", "bob"]);
        let has = |sender, party, room| rules.has_approver(&message(sender, party, room));
        assert!(has("ada", Party::Person, Room::Direct));
        assert!(!has("ada", Party::Agent, Room::Direct));
        assert!(!has("bob", Party::Person, Room::Direct));
        assert!(has("bob", Party::Person, Room::Shared));
    }

    #[test]
    fn a_role_in_a_place_holds_there_and_in_its_threads() {
        let mut rules = rules(&["bob"]);
        rules.allow.push(Allowed::parse("ada:approver").unwrap().only_in("-1001"));
        let role = |id: &str, place: &str| rules.role(id, Party::Person, &place.into());
        for place in ["-1001", "-1001:17", "-1001/17"] {
            assert_eq!(role("ada", place), Some(Role::Approver), "{place}");
        }
        assert_eq!((role("ada", "-10012"), role("ada", "42")), (None, None));
        let in_room = message("bob", Party::Person, Room::Shared);
        assert!(!rules.has_approver(&in_room), "she does not read it");
        assert!(rules.has_approver(&Message { conversation: "-1001:17".into(), ..in_room }));
    }

    #[test]
    fn an_entry_without_a_name_is_refused() {
        assert!(Allowed::parse("").is_err() && Allowed::parse(":approver").is_err());
        assert_eq!(Allowed::parse("peer:1a").unwrap().sender, "peer:1a");
    }

    #[test]
    fn a_stranger_whose_id_ends_with_a_star_is_one_stranger() {
        let by_code = Allowed { sender: "*".to_owned(), role: Role::Approver, place: None };
        let mut rules = rules(&[]);
        rules.allowed_by_code.push(by_code);
        let role = |id| rules.role(id, Party::Person, &"room".into());
        assert_eq!((role("anybody else"), role("*")), (None, Some(Role::Approver)));
    }
}
