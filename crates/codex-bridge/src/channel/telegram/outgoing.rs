//! Sends and edits messages, and follows a group that became a supergroup.

use std::time::{Duration, Instant};

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use serde_json::{Value, json};

use super::api::{Chat, Place, content, numeric_place, outcome, retry_after};
use super::{Telegram, update};
use crate::channel::Mark;
use crate::channel::chat::{EditOutcome, Key, Keyboard, Post};
use crate::channel::http::{self, Reply};
use crate::channel::text::{Body, Styled};

/// The longest reply to a tap, in characters.
const TOAST_CHARS: usize = 190;

/// Buttons as Telegram takes them.
fn markup(keyboard: &Keyboard) -> Value {
    let key = |key: &Key| json!({ "text": key.text, "callback_data": key.data });
    let rows: Vec<Vec<Value>> = keyboard.0.iter().map(|row| row.iter().map(key).collect()).collect();
    json!({ "inline_keyboard": rows })
}

impl Telegram {
    pub(super) async fn send(&self, place: &str, post: Post<'_>) -> Outcome {
        let place = match Place::parse(place) {
            Ok(place) => place,
            Err(why) => return Outcome::failed(Refusal::Never, why),
        };
        let sent = match post.body {
            Body::Text(text) => self.send_text(&place, text, post).await,
            Body::File { name, text, caption } => self.send_file(&place, name, text, caption).await,
        };
        match sent {
            Ok(reply) => outcome(&reply),
            Err(error) => error.into(),
        }
    }

    async fn send_file(
        &self,
        place: &Place,
        name: &str,
        text: &str,
        caption: &str,
    ) -> Result<Reply, http::Error> {
        let chat = match &place.chat {
            Chat::Number(chat) => self.state().current_chat(*chat).to_string(),
            Chat::Name(name) => name.clone(),
        };
        let topic = place.topic.map(|topic| ("message_thread_id", topic.to_string()));
        let caption = Some(("caption", caption.to_owned())).filter(|(_, caption)| !caption.is_empty());
        let fields: Vec<_> = [("chat_id", chat)].into_iter().chain(topic).chain(caption).collect();
        self.bot.send_file(&fields, name, text).await
    }

    async fn send_text(&self, place: &Place, text: &Styled, post: Post<'_>) -> Result<Reply, http::Error> {
        let mut body = place.message(text);
        let chat = body["chat_id"].as_i64().map(|chat| self.state().current_chat(chat));
        if let Some(chat) = chat {
            body["chat_id"] = chat.into();
        }
        let answered = chat.zip(post.reply_to).and_then(|(chat, id)| update::message_number(id, chat));
        if let Some(message_id) = answered {
            body["reply_parameters"] =
                json!({ "message_id": message_id, "allow_sending_without_reply": true });
        }
        if !post.keyboard.is_empty() {
            body["reply_markup"] = markup(post.keyboard);
        }
        let reply = self.bot.call("sendMessage", &body).await?;
        let Some(chat) = chat else { return Ok(reply) };
        self.note_flood(chat, &reply);
        let Some(now) = reply.body["parameters"]["migrate_to_chat_id"].as_i64() else { return Ok(reply) };
        self.state().moved.insert(chat, now);
        body["chat_id"] = now.into();
        if let Some(body) = body.as_object_mut() {
            body.remove("reply_parameters");
        }
        self.bot.call("sendMessage", &body).await
    }

    /// Edits text and buttons of a message. A chat with too many messages is not edited.
    pub(super) async fn change(
        &self,
        place: &str,
        message_id: &str,
        text: &Styled,
        keyboard: &Keyboard,
    ) -> EditOutcome {
        let (Ok((chat, place)), Ok(message_id)) = (numeric_place(place), message_id.parse::<i64>()) else {
            return EditOutcome::Never;
        };
        let chat = self.state().current_chat(chat);
        if self.state().is_rate_limited(chat) {
            return EditOutcome::Later;
        }
        let mut body = content(text, place.is_shared());
        body["chat_id"] = chat.into();
        body["message_id"] = message_id.into();
        body["reply_markup"] = markup(keyboard);
        let Ok(reply) = self.bot.call("editMessageText", &body).await else { return EditOutcome::Later };
        self.note_flood(chat, &reply);
        let described = reply.body["description"].as_str().unwrap_or_default();
        match reply.status {
            200 => EditOutcome::Done,
            400 if described.contains("message is not modified") => EditOutcome::Done,
            400 | 403 => EditOutcome::Never,
            _ => EditOutcome::Later,
        }
    }

    /// Notes that a chat got too many messages, and until when it gets no edits, reactions or other signs.
    fn note_flood(&self, chat: i64, reply: &Reply) {
        if reply.status == 429 {
            let wait = retry_after(reply).unwrap_or(Duration::from_secs(1));
            self.state().rate_limited.insert(chat, Instant::now() + wait);
        }
    }

    pub(super) async fn answer_tap(&self, tap_id: &str, text: &str) {
        let text: String = text.chars().take(TOAST_CHARS).collect();
        let mut body = json!({ "callback_query_id": tap_id });
        if !text.is_empty() {
            body["text"] = text.into();
        }
        if let Err(error) = self.bot.call("answerCallbackQuery", &body).await {
            tracing::debug!(channel = self.name, %error, "the answer to a tap could not be sent");
        }
    }

    /// Shows for about five seconds that the bot types.
    pub(super) async fn type_in(&self, place: &str) {
        let Ok((chat, place)) = numeric_place(place) else { return };
        let chat = self.state().current_chat(chat);
        if self.state().is_rate_limited(chat) {
            return;
        }
        let mut body = json!({ "chat_id": chat, "action": "typing" });
        if let Some(topic) = place.topic {
            body["message_thread_id"] = topic.into();
        }
        match self.bot.call("sendChatAction", &body).await {
            Ok(reply) => self.note_flood(chat, &reply),
            Err(error) => tracing::debug!(channel = self.name, %error, "that Codex works could not be shown"),
        }
    }

    /// Sets the bot's reaction to a message. False if the chat allows none; after another failure the message stays without.
    pub(super) async fn set_reaction(&self, place: &str, external_id: &str, mark: Mark) -> bool {
        let Ok((chat, _)) = numeric_place(place) else { return false };
        let chat = self.state().current_chat(chat);
        let Some(message_id) = update::message_number(external_id, chat) else { return false };
        if self.state().is_rate_limited(chat) {
            return true;
        }
        let emoji = match mark {
            Mark::Read | Mark::Queued => "👀",
            Mark::Added => "✍",
        };
        let reaction = [json!({ "type": "emoji", "emoji": emoji })];
        let body = json!({ "chat_id": chat, "message_id": message_id, "reaction": reaction });
        match self.bot.call("setMessageReaction", &body).await {
            Ok(reply) => {
                self.note_flood(chat, &reply);
                reply.status != 400
            }
            Err(error) => {
                tracing::debug!(channel = self.name, %error, "a reaction could not be set");
                true
            }
        }
    }
}
