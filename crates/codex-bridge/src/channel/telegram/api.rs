//! Telegram's Bot API (10.3): a bot's methods, its chats, and the meaning of replies to `sendMessage`. Messages are plain
//! text: no parse mode, no link previews.

use std::fmt;
use std::time::Duration;

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::channel::http::{self, Call, Reply};
use crate::channel::text::Limit;

/// Telegram's own server.
pub const API: &str = "https://api.telegram.org";
/// The longest message.
pub const LIMIT: Limit = Limit::Utf16(4096);

/// A client for a bot's methods.
pub struct Bot {
    /// The address of the bot's methods, which contains the token.
    base: String,
    id: String,
}

impl fmt::Debug for Bot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bot").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Bot {
    /// The bot of a token, at Telegram's own server or another.
    pub fn new(token: &str, api_base: Option<&str>) -> Result<Self, String> {
        if token.is_empty() || !token.chars().all(|char| char.is_ascii_alphanumeric() || ":_-".contains(char))
        {
            return Err("the token is not a Telegram token; it looks like 123456:ABC-DEF".to_owned());
        }
        let base = api_base.unwrap_or(API).trim_end_matches('/');
        let id = token.split(':').next().unwrap_or_default().to_owned();
        Ok(Self { base: format!("{base}/bot{token}"), id })
    }

    /// The bot's number, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Calls a method.
    pub async fn call(&self, method: &str, body: &Value) -> Result<Reply, http::Error> {
        Call::post(format!("{}/{method}", self.base), body).send().await
    }

    /// Polls for a list, with a timeout of its own.
    pub async fn list(&self, method_and_query: &str, timeout: Duration) -> Result<Reply, http::Error> {
        Call { timeout, ..Call::get(format!("{}/{method_and_query}", self.base)) }.send().await
    }
}

/// A Telegram chat: a number or an `@name`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Chat {
    /// The chat's number.
    Number(i64),
    /// The chat's name.
    Name(String),
}

impl fmt::Display for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A chat, or a topic in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The chat.
    pub chat: Chat,
    /// The topic, if any.
    pub topic: Option<i64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.topic {
            Some(topic) => write!(f, "{}:{topic}", self.chat),
            None => self.chat.fmt(f),
        }
    }
}

impl Place {
    /// Parses `CHAT` or `CHAT:TOPIC`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (chat, topic) = text.split_once(':').map_or((text, None), |(chat, topic)| (chat, Some(topic)));
        let number = chat.parse().map(Chat::Number);
        Ok(Self {
            chat: number.unwrap_or_else(|_| Chat::Name(chat.to_owned())),
            topic: topic.map(|topic| topic.parse().map_err(|_| "a thread is a number")).transpose()?,
        })
    }

    /// The body of `sendMessage`.
    pub fn message(&self, text: &str) -> Value {
        let chat: Value = match &self.chat {
            Chat::Number(number) => (*number).into(),
            Chat::Name(name) => name.as_str().into(),
        };
        let mut body =
            json!({ "chat_id": chat, "text": text, "link_preview_options": { "is_disabled": true } });
        if let Some(topic) = self.topic {
            body["message_thread_id"] = topic.into();
        }
        body
    }
}

/// The meaning of a reply to `sendMessage`.
pub fn outcome(reply: &Reply) -> Outcome {
    if reply.body["ok"] == true {
        let id = &reply.body["result"]["message_id"];
        return Outcome::delivered(id.as_i64().map(|id| id.to_string()));
    }
    let described = reply.body["description"].as_str().unwrap_or("without a reason");
    let error = format!("Telegram answered {}: {described}", reply.status);
    match reply.status {
        429 => Outcome::failed(retry_after(reply).map_or(Refusal::Later, Refusal::NotBefore), error),
        // Blocked, kicked, or no such chat.
        403 => Outcome::failed(Refusal::Gone, error),
        400 if described.contains("chat not found") => Outcome::failed(Refusal::Gone, error),
        // A group that became a supergroup has a new number, which the operator has to configure.
        400 => Outcome::failed(Refusal::Never, migrated(reply, error)),
        // The token may be corrected meanwhile.
        401 | 404 => Outcome::failed(Refusal::Later, error),
        _ => reply.refusal(),
    }
}

/// The pause that Telegram asks for, if any.
pub fn retry_after(reply: &Reply) -> Option<Duration> {
    let wait = reply.body["parameters"]["retry_after"].as_u64().map(Duration::from_secs);
    wait.or(reply.retry_after)
}

fn migrated(reply: &Reply, error: String) -> String {
    match reply.body["parameters"]["migrate_to_chat_id"].as_i64() {
        Some(chat) => format!("{error}; the group's number is {chat} now"),
        None => error,
    }
}
