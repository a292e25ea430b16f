//! A server of Telegram's Bot API, as far as messages are sent by it; [`server`] has the other direction too.

pub mod server;

use serde_json::{Value, json};

use super::{Answer, Day, Platform, Received};

/// The longest message, in UTF-16 units.
const LIMIT: usize = 4096;
/// A chat that has blocked the bot.
pub const BLOCKED: i64 = 403;

/// Opens one for the bot with this token, with chats of any number below zero.
pub async fn open(token: &str) -> Platform {
    let path = format!("/bot{token}/sendMessage");
    Platform::open(Box::new(move |received| answer(received, &path))).await
}

fn answer(received: &Received, path: &str) -> Answer {
    if received.path != path {
        return refusal(401, "Unauthorized", None);
    }
    let text = received.body["text"].as_str().unwrap_or_default();
    let chat = &received.body["chat_id"];
    let is_known =
        chat.as_i64().is_some_and(|chat| chat < 0) || chat.as_str().is_some_and(|it| it.starts_with('@'));
    if *chat == BLOCKED {
        return refusal(403, "Forbidden: bot was blocked by the user", None);
    }
    if !is_known {
        return refusal(400, "Bad Request: chat not found", None);
    }
    if text.is_empty() {
        return refusal(400, "Bad Request: message text is empty", None);
    }
    if text.encode_utf16().count() > LIMIT {
        return refusal(400, "Bad Request: message is too long", None);
    }
    Answer::json(200, json!({ "ok": true, "result": { "message_id": 9, "chat": { "id": chat } } }))
}

fn refusal(status: u16, description: &str, parameters: Option<Value>) -> Answer {
    let mut body = json!({ "ok": false, "error_code": status, "description": description });
    if let Some(parameters) = parameters {
        body["parameters"] = parameters;
    }
    Answer::json(status, body)
}

/// Too many messages.
pub fn flooded(seconds: u64) -> Day {
    let description = format!("Too Many Requests: retry after {seconds}");
    Day::Refuses(refusal(429, &description, Some(json!({ "retry_after": seconds }))))
}
