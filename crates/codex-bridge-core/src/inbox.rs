//! Messages from people and other agents. Each message is stored before its source hears that the daemon has it, and
//! messages keep their order within a conversation.
//!
//! The inbox knows no platform. Channels, which the program brings, receive messages and tell sources when a message is
//! done. The decisions about a message are made here, the same for all channels: who may write, what a command means,
//! when to stop answering another agent.

pub mod answer;
pub mod attachment;
pub mod command;
pub(crate) mod deferred;
pub mod form;
pub mod hops;
pub(crate) mod intake;
pub(crate) mod machine;
pub mod reply;
pub mod rounds;
pub mod rules;
pub(crate) mod strangers;
pub mod transcriber;

use std::time::Duration;

use codex_wire::text_id;
use serde::{Deserialize, Serialize};

use crate::outbox::DeliveryId;
use crate::request::RequestName;
use crate::task::{TaskId, TimeMs};

pub use attachment::{Attached, Attachment, AttachmentRecord, Content};
pub use command::{COMMANDS, Command};
pub use rules::{Allowed, Rules, WhenFull, WhileRunning};

text_id!(
    /// The operator's name of a channel.
    ChannelName
);
text_id!(
    /// Names a conversation within its channel.
    ConversationKey
);
text_id!(
    /// The bridge's id of a message. The source's id is `external_id`.
    MessageId
);

/// A message, as a channel passes it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrival {
    /// The source's id of the message. The same id means the same message.
    pub external_id: String,
    /// The conversation: a chat, a topic, or another agent. Each has one Codex thread.
    pub conversation: ConversationKey,
    /// Who wrote it.
    pub sender: Sender,
    /// Who can read our replies in this conversation.
    pub room: Room,
    /// The text as it came.
    pub text: String,
    /// The outbox target for the reply.
    pub reply_to: String,
    /// The position in the source's order, for sources that keep a watermark.
    pub position: Option<i64>,
    /// When it was written.
    pub sent_at: TimeMs,
    /// What it refers to.
    pub context: Context,
    /// The files that came with it.
    pub attachments: Vec<Attachment>,
}

/// What a message refers to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Context {
    /// The text that it quotes or replies to.
    pub quoted: Option<Quoted>,
    /// The request that it is about.
    pub about: Option<About>,
    /// The source's id of the message of which this is a new version.
    pub edits: Option<String>,
    /// Whether it was written in a group, to others than the bot.
    pub is_overheard: bool,
}

/// A text that a message quotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quoted {
    /// Who wrote it; empty if unknown.
    pub author: String,
    /// The text.
    pub text: String,
}

/// How a message is about a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "how", content = "request", rename_all = "snake_case")]
pub enum About {
    /// It replies to the message that showed the request.
    Reply(RequestName),
    /// It is the comment on a request that is declined with it.
    Comment(RequestName),
}

impl About {
    /// The request.
    pub fn request(&self) -> &RequestName {
        let (Self::Reply(request) | Self::Comment(request)) = self;
        request
    }
}

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sender {
    /// The platform's id of the sender. The operator's rules use it.
    pub id: String,
    /// The sender's name for people.
    pub name: String,
    /// Whether the sender is a person.
    pub party: Party,
}

/// What a sender is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// A person.
    Person,
    /// Another agent. It never approves, and the number of replies to it is limited.
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

/// The result for one arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    /// The source's id of the message.
    pub external_id: String,
    /// The result.
    pub receipt: Received,
}

/// What became of an arrival.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Received {
    /// The message is stored.
    Taken {
        /// The bridge's id of the message.
        id: MessageId,
    },
    /// The message was stored before.
    Known {
        /// The bridge's id of the message.
        id: MessageId,
    },
    /// The sender may not write to us, and gets no reply.
    Refused,
    /// There is no room now. The source keeps the message and offers it again.
    NoRoom,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// The bridge's id.
    pub id: MessageId,
    /// The channel.
    pub channel: ChannelName,
    /// The source's id; unique within the channel.
    pub external_id: String,
    /// The conversation.
    pub conversation: ConversationKey,
    /// The platform's id of the sender.
    pub sender_id: String,
    /// The sender's name for people.
    pub sender_name: String,
    /// Whether the sender is a person.
    pub party: Party,
    /// Who can read our replies in this conversation.
    pub room: Room,
    /// How many agents like this one the text has passed.
    pub hops: u32,
    /// The outbox target for the reply.
    pub reply_to: String,
    /// The position in the source's order.
    pub position: Option<i64>,
    /// The beginning of the text, redacted.
    pub summary: String,
    /// The sealed text. It is erased once the message is answered, unless it can be retried. Its files are deleted with it.
    pub sealed_text: Option<Vec<u8>>,
    /// What to do with the message.
    pub kind: MessageKind,
    /// The request that the message is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<About>,
    /// The source's id of the message of which this is a new version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edits: Option<String>,
    /// Whether files came with it.
    #[serde(default, skip_serializing_if = "Attached::is_nothing")]
    pub attached: Attached,
    /// How far the message has come.
    pub state: MessageState,
    /// How many attempts have failed.
    pub attempts: u32,
    /// When to try next.
    pub next_at: TimeMs,
    /// The task that works on the message.
    pub task_id: Option<TaskId>,
    /// The delivery with the reply.
    pub reply_id: Option<DeliveryId>,
    /// Why the message is dead, or the last error.
    pub error: Option<String>,
    /// When the message was written, according to its source.
    pub sent_at: TimeMs,
    /// When the message came in.
    pub received_at: TimeMs,
    /// When the source was told that the message is done.
    pub acknowledged_at: Option<TimeMs>,
    /// When the row last changed.
    pub updated_at: TimeMs,
}

/// What to do with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageKind {
    /// Give it a turn, in the order of the conversation.
    Prompt,
    /// Carry out a command, in the order of the conversation.
    Command,
    /// Carry out a command at once, even while a turn runs.
    UrgentCommand,
    /// Add it to the running turn.
    Steer,
    /// Answer what Codex asks, at once. If nothing is asked, it is a prompt.
    Response,
    /// Replace the text of a message that waits, at once.
    Edit,
}

/// How far a message has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Stored; nothing has been done yet.
    Received,
    /// A turn works on it.
    Running,
    /// The reply is in the outbox.
    Answered,
    /// The reply is sent, and the source knows, if it wants to.
    Acknowledged,
    /// Given up, or never wanted. It can be retried.
    Dead,
}

impl MessageState {
    /// All states, in the order of a message's life.
    pub const ALL: [Self; 5] =
        [Self::Received, Self::Running, Self::Answered, Self::Acknowledged, Self::Dead];

    /// The word in JSON and in the store.
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

/// A conversation, with its task and workspace. Only the inbox loop writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// The channel.
    pub channel: ChannelName,
    /// The key within the channel.
    pub key: ConversationKey,
    /// The task, once there is one.
    pub task_id: Option<TaskId>,
    /// The workspace; `None` means the channel's default.
    pub workspace: Option<String>,
    /// The model, if people chose one here.
    #[serde(default)]
    pub model: Option<String>,
    /// The reasoning effort, if people chose one here.
    #[serde(default)]
    pub effort: Option<String>,
    /// When it last changed.
    pub updated_at: TimeMs,
}

/// The stored state of a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChannelRecord {
    /// The channel's name.
    pub name: ChannelName,
    /// How far the source was read, in the source's own format.
    pub cursor: Option<String>,
    /// What the channel has to know after a restart beside the cursor, in its own format. Redacted.
    pub memory: Option<String>,
    /// The people whom the operator allowed beside those of the configuration.
    pub allowed: Vec<Allowed>,
    /// Whether somebody has paused the channel.
    pub is_paused: bool,
    /// When it last changed.
    pub updated_at: TimeMs,
}

impl ChannelRecord {
    /// A channel that was never read.
    pub fn new(name: &ChannelName, now: TimeMs) -> Self {
        let name = name.clone();
        Self { name, cursor: None, memory: None, allowed: Vec::new(), is_paused: false, updated_at: now }
    }
}

impl Conversation {
    /// A conversation without messages.
    pub fn new(channel: &ChannelName, key: &ConversationKey, now: TimeMs) -> Self {
        let (channel, key) = (channel.clone(), key.clone());
        Self { channel, key, task_id: None, workspace: None, model: None, effort: None, updated_at: now }
    }

    /// Whether the conversation's task was deleted because of its age, and its history with it.
    pub fn is_forgotten(&self, keep_tasks: Duration, now: TimeMs) -> bool {
        let age = u128::try_from(now - self.updated_at).unwrap_or_default();
        self.task_id.is_none() && age > keep_tasks.as_millis()
    }
}

impl Message {
    /// The id of the delivery that answers the message. It is the same whenever it is built.
    pub fn own_reply_id(&self) -> DeliveryId {
        DeliveryId(format!("dlv-{}", self.id))
    }

    /// The id of the next reply. A message that is retried after a reply gets a new one.
    pub(crate) fn next_reply_id(&self) -> DeliveryId {
        let again = |before: &DeliveryId| DeliveryId(format!("{before}-again"));
        self.reply_id.as_ref().map_or_else(|| self.own_reply_id(), again)
    }

    /// The author's name in the audit log.
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
