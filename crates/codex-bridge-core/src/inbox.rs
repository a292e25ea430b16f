//! Messages that come in from people and other agents, durably: one row per message, written before its source hears
//! that we have it, and kept in order within a conversation.
//!
//! Knows no platform: how messages arrive, and how a source is told that they are done with, is a channel's business,
//! which the program brings. What is decided about a message (who may write, what a command means, when to answer
//! another agent no more) is decided here, the same for all channels.

pub mod answer;
pub mod command;
pub(crate) mod deferred;
mod form;
pub mod hops;
pub(crate) mod intake;
pub(crate) mod machine;
pub mod reply;
pub mod rounds;
pub mod rules;
pub(crate) mod strangers;

use std::time::Duration;

use codex_wire::text_id;
use serde::{Deserialize, Serialize};

use crate::outbox::DeliveryId;
use crate::task::{TaskId, TimeMs};

pub use command::Command;
pub use rules::{Allowed, Rules, WhenFull, WhileRunning};

text_id!(
    /// Names a channel: what the operator calls it.
    ChannelName
);
text_id!(
    /// Names a conversation within its channel.
    ConversationKey
);
text_id!(
    /// Our own name of a message. The name that its source has for it is its `external_id`.
    MessageId
);

/// A message as a channel hands it over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The source's own name for it: the same one is the same message.
    pub external_id: String,
    /// What belongs together: a chat, a topic, another agent. One Codex thread each.
    pub conversation: ConversationKey,
    /// Who wrote it.
    pub sender: Sender,
    /// Who is there to read what we say in this conversation.
    pub room: Room,
    /// What it says, as it came.
    pub text: String,
    /// Where the reply goes: a target of the outbox.
    pub reply_to: String,
    /// Where it stands in its source's order, for sources that are told how far we are.
    pub position: Option<i64>,
    /// When it was written.
    pub sent_at: TimeMs,
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The platform's name for them, by which they are allowed.
    pub id: String,
    /// As people call them.
    pub name: String,
    /// What they are.
    pub party: Party,
}

/// What somebody is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// A person.
    Person,
    /// Another agent. It never approves, and is not answered for ever.
    Agent,
}

/// Who reads a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Room {
    /// The sender alone.
    Direct,
    /// Others too.
    Shared,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// Which.
    pub external_id: String,
    /// What became of it.
    pub receipt: Received,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// It is durable, under this name.
    Taken {
        /// Our name for it.
        id: MessageId,
    },
    /// It was here before.
    Known {
        /// Our name for it.
        id: MessageId,
    },
    /// Its sender may not write to us, and hears nothing.
    Refused,
    /// There is no room for it now: its source keeps it, and offers it again.
    NoRoom,
}

/// A message as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Our name for it.
    pub id: MessageId,
    /// The channel that it came by.
    pub channel: ChannelName,
    /// The source's name for it; unique within its channel.
    pub external_id: String,
    /// The conversation that it belongs to.
    pub conversation: ConversationKey,
    /// Who wrote it.
    pub sender_id: String,
    /// As people call them.
    pub sender_name: String,
    /// What they are.
    pub party: Party,
    /// Who reads what is said in its conversation.
    pub room: Room,
    /// How many agents like us it has passed.
    pub hops: u32,
    /// Where the reply goes.
    pub reply_to: String,
    /// Where it stands in its source's order.
    pub position: Option<i64>,
    /// The beginning of it, redacted.
    pub summary: String,
    /// What it says, sealed; gone once it was acted on.
    pub sealed_text: Option<Vec<u8>>,
    /// What is to be done with it.
    pub kind: MessageKind,
    /// Where it stands.
    pub state: State,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// When it is tried next.
    pub next_at: TimeMs,
    /// The task that works on it.
    pub task_id: Option<TaskId>,
    /// The delivery that answers it.
    pub reply_id: Option<DeliveryId>,
    /// Why it is dead, or failed last.
    pub error: Option<String>,
    /// When its source says that it was written.
    pub sent_at: TimeMs,
    /// When it came in.
    pub received_at: TimeMs,
    /// When its source was told that it is done with.
    pub acknowledged_at: Option<TimeMs>,
    /// When it last changed.
    pub updated_at: TimeMs,
}

/// What is to be done with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// A turn, in the order of its conversation.
    Prompt,
    /// A command, in the order of its conversation.
    Command,
    /// A command that is carried out at once, whatever runs.
    UrgentCommand,
    /// An addition to the turn that runs.
    Steer,
}

/// Where a message stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It is durable; nothing was done with it.
    Received,
    /// A turn works on it.
    Running,
    /// Its reply is in the outbox.
    Answered,
    /// The reply is out, and the source knows it, if it wants to.
    Acknowledged,
    /// It was given up, or never wanted; somebody may take it up again.
    Dead,
}

impl State {
    /// All of them, in the order of a message's life.
    pub const ALL: [Self; 5] =
        [Self::Received, Self::Running, Self::Answered, Self::Acknowledged, Self::Dead];

    /// As it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Running => "running",
            Self::Answered => "answered",
            Self::Acknowledged => "acknowledged",
            Self::Dead => "dead",
        }
    }
}

/// A conversation: what it works on, and where. Written only by the one loop that owns its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The channel that it is on.
    pub channel: ChannelName,
    /// Its name there.
    pub key: ConversationKey,
    /// Its task, once it has one.
    pub task_id: Option<TaskId>,
    /// The registered workspace that it works in; none is the channel's own.
    pub workspace: Option<String>,
    /// When it last changed.
    pub updated_at: TimeMs,
}

/// What is remembered of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// Its name.
    pub name: ChannelName,
    /// How far its source was read, in the source's own words.
    pub cursor: Option<String>,
    /// Whether somebody has it rest.
    pub is_paused: bool,
    /// When it last changed.
    pub updated_at: TimeMs,
}

impl ChannelRecord {
    /// One that was never read.
    pub fn new(name: &ChannelName, now: TimeMs) -> Self {
        Self { name: name.clone(), cursor: None, is_paused: false, updated_at: now }
    }
}

impl Conversation {
    /// One that nobody has written in.
    pub fn new(channel: &ChannelName, key: &ConversationKey, now: TimeMs) -> Self {
        Self { channel: channel.clone(), key: key.clone(), task_id: None, workspace: None, updated_at: now }
    }

    /// Whether what was said in it may have been forgotten, so that its next turn begins without: it has outlived its task.
    pub fn is_forgotten(&self, keep_tasks: Duration, now: TimeMs) -> bool {
        let age = u128::try_from(now - self.updated_at).unwrap_or_default();
        self.task_id.is_none() && age > keep_tasks.as_millis()
    }
}

impl Message {
    /// The name of the delivery that answers it: the same however often it is written.
    pub fn own_reply_id(&self) -> DeliveryId {
        DeliveryId(format!("dlv-{}", self.id))
    }

    /// The name of its next reply: one that was given up and taken up again is answered anew.
    pub(crate) fn next_reply_id(&self) -> DeliveryId {
        let again = |before: &DeliveryId| DeliveryId(format!("{before}-again"));
        self.reply_id.as_ref().map_or_else(|| self.own_reply_id(), again)
    }

    /// Who wrote it, as the record names them.
    pub fn author(&self) -> String {
        format!("{}:{}", self.channel, self.sender_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lost_its_task_by_its_age_is_forgotten() {
        let keep = Duration::from_millis(100);
        let without = Conversation::new(&"chat".into(), &"room".into(), 50);
        let with = Conversation { task_id: Some(TaskId("codex-1".to_owned())), ..without.clone() };
        assert!(without.is_forgotten(keep, 151) && !with.is_forgotten(keep, 151));
        assert!(!without.is_forgotten(keep, 150), "somebody has it begin anew: /new");
        assert!(!without.is_forgotten(keep, 0), "the clock was put back");
    }
}
