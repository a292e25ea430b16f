//! Channels, and what came in by them, as callers are shown them.

use codex_bridge_core::chats;
use codex_bridge_core::inbox;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time;
use crate::channel::registry::Standing;

/// A channel, and how it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    /// Its name.
    pub name: String,
    /// `starting`, `serving`, `retrying`, `paused`, `stopped` or `idle`.
    pub standing: String,
    /// A sentence about it.
    pub about: String,
    /// Messages that are not done with.
    pub open_messages: usize,
    /// Who wrote without being allowed to, since the daemon started.
    pub knocks: Vec<Knock>,
}

/// Somebody who wrote without being allowed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knock {
    /// Who, as they would be allowed.
    pub sender_id: String,
    /// As people call them.
    pub sender_name: String,
    /// In which conversation.
    pub conversation: String,
    /// How often.
    pub count: u64,
    /// When last.
    pub last_at: String,
}

impl From<chats::Knock> for Knock {
    fn from(knock: chats::Knock) -> Self {
        Self {
            sender_id: knock.sender_id,
            sender_name: knock.sender_name,
            conversation: knock.conversation.0,
            count: knock.count,
            last_at: time(knock.last_at),
        }
    }
}

/// What a channel said lately.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelLog {
    /// Lines.
    pub lines: Vec<String>,
    /// How many there are in all.
    pub count: u64,
    /// How it is.
    pub standing: Standing,
    /// A sentence about it.
    pub about: String,
}

/// A platform that was reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reached {
    /// The channel.
    pub name: String,
    /// What came of it, in a sentence.
    pub said: String,
}

/// A message that came in. Its text is kept sealed, and only its beginning is shown, redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Our name for it.
    pub message_id: String,
    /// The channel that it came by.
    pub channel: String,
    /// The source's name for it.
    pub external_id: String,
    /// The conversation that it belongs to.
    pub conversation: String,
    /// Who wrote it.
    pub sender_id: String,
    /// As people call them.
    pub sender_name: String,
    /// `received`, `running`, `answered`, `acknowledged` or `dead`.
    pub state: String,
    /// The beginning of it.
    pub summary: String,
    /// The task that works on it.
    pub task_id: Option<String>,
    /// The delivery that answers it.
    pub delivery_id: Option<String>,
    /// How often it was tried in vain.
    pub attempts: u32,
    /// Why it is dead, or failed last.
    pub error: Option<String>,
    /// When it came in.
    pub received_at: String,
    /// When its source was told that it is done with.
    pub acknowledged_at: Option<String>,
}

impl From<inbox::Message> for Message {
    fn from(message: inbox::Message) -> Self {
        Self {
            message_id: message.id.0,
            channel: message.channel.0,
            external_id: message.external_id,
            conversation: message.conversation.0,
            sender_id: message.sender_id,
            sender_name: message.sender_name,
            state: message.state.as_str().to_owned(),
            summary: message.summary,
            task_id: message.task_id.map(|id| id.0),
            delivery_id: message.reply_id.map(|id| id.0),
            attempts: message.attempts,
            error: message.error,
            received_at: time(message.received_at),
            acknowledged_at: message.acknowledged_at.map(time),
        }
    }
}
