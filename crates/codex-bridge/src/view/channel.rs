//! Channels and their messages, as callers are shown them.

use codex_bridge_core::chats;
use codex_bridge_core::inbox::{self, MessageState};
use codex_bridge_core::token::Role;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::time;
use crate::channel::registry::ChannelStatus;

/// A channel with its status.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Channel {
    /// The channel's name.
    pub name: String,
    /// `starting`, `serving`, `retrying`, `paused`, `stopped` or `idle`.
    #[schemars(with = "String")]
    pub standing: ChannelStatus,
    /// The status in a sentence.
    pub about: String,
    /// The number of unfinished messages.
    pub open_messages: usize,
    /// The senders that wrote without being allowed to, since the daemon started.
    pub knocks: Vec<Knock>,
    /// The people whom the operator allowed by their codes.
    #[serde(default)]
    pub allowed: Vec<Allowed>,
}

/// A person whom the operator allowed by a code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Allowed {
    /// The channel.
    pub channel: String,
    /// The person's id on the platform.
    pub sender_id: String,
    /// The person's display name, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sender_name: Option<String>,
    /// Whether the person may also decide what Codex asks.
    pub approver: bool,
}

impl Allowed {
    /// A person who is allowed on this channel.
    pub fn of(channel: &inbox::ChannelName, allowed: &inbox::Allowed) -> Self {
        Self {
            channel: channel.to_string(),
            sender_id: allowed.sender.clone(),
            sender_name: None,
            approver: allowed.role == Role::Approver,
        }
    }

    /// A stranger who has just been allowed.
    pub fn by_code(knock: chats::Knock, role: Role) -> Self {
        Self {
            channel: knock.channel.0,
            sender_id: knock.sender_id,
            sender_name: Some(knock.sender_name),
            approver: role == Role::Approver,
        }
    }
}

/// A sender that wrote without being allowed to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knock {
    /// The sender's id, as `allow` in the configuration takes it.
    pub sender_id: String,
    /// The sender's display name.
    pub sender_name: String,
    /// The conversation.
    pub conversation: String,
    /// The code with which `codex-bridge channel allow` allows the sender.
    #[serde(default)]
    pub code: String,
    /// The number of messages.
    pub count: u64,
    /// The time of the last message.
    pub last_at: String,
}

impl From<chats::Knock> for Knock {
    fn from(knock: chats::Knock) -> Self {
        Self {
            sender_id: knock.sender_id,
            sender_name: knock.sender_name,
            conversation: knock.conversation.0,
            code: knock.code,
            count: knock.count,
            last_at: time(knock.last_at),
        }
    }
}

/// The recent log of a channel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChannelLog {
    /// The lines.
    pub lines: Vec<String>,
    /// The number of lines in all.
    pub count: u64,
    /// The channel's status.
    pub standing: ChannelStatus,
    /// The status in a sentence.
    pub about: String,
}

/// The result of a connection test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reached {
    /// The channel.
    pub name: String,
    /// The result in a sentence.
    pub said: String,
}

/// A message from a channel. Its text is stored sealed; only its beginning is shown, redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The message's id.
    pub message_id: String,
    /// The channel.
    pub channel: String,
    /// The platform's id for the message.
    pub external_id: String,
    /// The conversation.
    pub conversation: String,
    /// The sender's id.
    pub sender_id: String,
    /// The sender's display name.
    pub sender_name: String,
    /// `received`, `running`, `answered`, `acknowledged` or `dead`.
    #[schemars(with = "String")]
    pub state: MessageState,
    /// The beginning of the text.
    pub summary: String,
    /// The task that works on the message.
    pub task_id: Option<String>,
    /// The delivery that answers the message.
    pub delivery_id: Option<String>,
    /// The number of failed attempts.
    pub attempts: u32,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When the message was received.
    pub received_at: String,
    /// When the message was acknowledged to the platform.
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
            state: message.state,
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
