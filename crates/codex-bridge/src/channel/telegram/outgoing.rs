//! Sends and edits messages. A delivery may take several messages: each that has arrived is stored, so that a retry continues
//! behind it.

use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use serde_json::{Value, json};

use super::api::{Chat, LIMITS, Place, content, outcome, retry_after};
use super::memory::RequestMessage;
use super::{Telegram, keyboard, update};
use crate::channel::http::{self, Reply};
use crate::channel::recent;
use crate::channel::text::{self, Body, Part, Styled};

/// The longest reply to a tap, in characters.
const TOAST_CHARS: usize = 190;

/// The outcome of an edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditOutcome {
    /// The message has the new text.
    Done,
    /// A retry may succeed.
    Later,
    /// The message is gone, or cannot be edited any more.
    Never,
}

/// Parses a place with a numeric chat, and returns the number too.
pub fn numeric_place(place: &str) -> Result<(i64, Place), String> {
    let place = Place::parse(place)?;
    match place.chat {
        Chat::Number(chat) => Ok((chat, place)),
        Chat::Name(_) => Err("a place is CHAT or CHAT:TOPIC, both numbers".to_owned()),
    }
}

fn has_any(buttons: &Value) -> bool {
    buttons.as_array().is_some_and(|buttons| !buttons.is_empty())
}

impl Telegram {
    /// Delivers a notice. A chat that is named by `@name` gets no buttons, since its taps carry a number that is not known here.
    pub(super) async fn deliver(&self, at: &str, attempt: &Attempt) -> Outcome {
        let place = match self.place(at) {
            Ok(place) => place,
            Err(why) => return Outcome::failed(Refusal::Never, why),
        };
        let chat = if let Chat::Number(chat) = place.chat { Some(chat) } else { None };
        let has_buttons = chat.is_some() && !self.only_sends();
        let mut reply_to = chat
            .zip(attempt.notice.in_reply_to())
            .and_then(|(chat, id)| update::message_number(id, self.memory().current_chat(chat)));
        let mut parts = text::parts(&attempt.notice, LIMITS);
        if !has_buttons {
            for part in &mut parts {
                part.decides.clear();
            }
        }
        let shown = text::requests_shown_whole(&parts);
        let (sent, count) = (attempt.parts.sent(), parts.len());
        let mut last = Outcome::delivered(None);
        for (number, part) in parts.into_iter().enumerate().skip(sent) {
            // Each message is noted before the next one is sent, so only the first may have arrived.
            let is_doubtful = attempt.may_be_duplicate && number == sent;
            let part = if is_doubtful { part.marked() } else { part };
            last = self.send_part(&place, &part, reply_to.take()).await;
            if let Outcome::Failed { .. } = last {
                return last;
            }
            if number + 1 < count
                && let Err(why) = attempt.parts.note(number + 1).await
            {
                return Outcome::failed(Refusal::Later, why);
            }
        }
        if let Outcome::Delivered { shown: told, .. } = &mut last {
            *told = shown;
        }
        last
    }

    async fn send_part(&self, place: &Place, part: &Part<'_>, reply_to: Option<i64>) -> Outcome {
        let text = match &part.body {
            Body::Text(text) => text,
            Body::File { name, text, caption } => return self.send_file(place, name, text, caption).await,
        };
        let buttons = keyboard::buttons(&part.decides);
        let reply = match self.post(place, text, &buttons, reply_to).await {
            Ok(reply) => reply,
            Err(error) => return error.into(),
        };
        let outcome = outcome(&reply);
        let number = reply.body["result"]["message_id"].as_i64();
        if let (Outcome::Delivered { .. }, Some(message_id)) = (&outcome, number)
            && has_any(&buttons)
        {
            let requests: Vec<_> = part.decides.iter().map(|shown| shown.asked.request_id.clone()).collect();
            let Styled { text, spans } = text.clone();
            let (place, has_several) = (place.to_string(), requests.len() > 1);
            let message = RequestMessage { place, message_id, text, spans, buttons, requests, has_several };
            recent::push(&mut self.memory().request_messages, message);
            self.keep().await;
        }
        outcome
    }

    async fn send_file(&self, place: &Place, name: &str, text: &str, caption: &str) -> Outcome {
        let chat = match &place.chat {
            Chat::Number(chat) => self.memory().current_chat(*chat).to_string(),
            Chat::Name(name) => name.clone(),
        };
        let topic = place.topic.map(|topic| ("message_thread_id", topic.to_string()));
        let caption = Some(("caption", caption.to_owned())).filter(|(_, caption)| !caption.is_empty());
        let fields: Vec<_> = [("chat_id", chat)].into_iter().chain(topic).chain(caption).collect();
        match self.bot.send_file(&fields, name, text).await {
            Ok(reply) => outcome(&reply),
            Err(error) => error.into(),
        }
    }

    /// Sends a message; follows a group that became a supergroup.
    pub(super) async fn post(
        &self,
        place: &Place,
        text: &Styled,
        buttons: &Value,
        reply_to: Option<i64>,
    ) -> Result<Reply, http::Error> {
        let mut body = place.message(text);
        let chat = body["chat_id"].as_i64().map(|chat| self.memory().current_chat(chat));
        if let Some(chat) = chat {
            body["chat_id"] = chat.into();
        }
        if let Some(message_id) = reply_to {
            body["reply_parameters"] =
                json!({ "message_id": message_id, "allow_sending_without_reply": true });
        }
        if has_any(buttons) {
            body["reply_markup"] = json!({ "inline_keyboard": buttons });
        }
        let reply = self.bot.call("sendMessage", &body).await?;
        let Some(chat) = chat else { return Ok(reply) };
        self.note_flood(chat, &reply);
        let Some(now) = reply.body["parameters"]["migrate_to_chat_id"].as_i64() else { return Ok(reply) };
        self.memory().moved.insert(chat, now);
        self.keep().await;
        body["chat_id"] = now.into();
        if let Some(body) = body.as_object_mut() {
            body.remove("reply_parameters");
        }
        self.bot.call("sendMessage", &body).await
    }

    /// Edits text and buttons of a message. A chat with too many messages is not edited.
    pub(super) async fn edit(
        &self,
        place: &str,
        message_id: i64,
        text: &Styled,
        buttons: &Value,
    ) -> EditOutcome {
        let Ok((chat, place)) = numeric_place(place) else { return EditOutcome::Never };
        let chat = self.memory().current_chat(chat);
        if self.memory().is_rate_limited(chat) {
            return EditOutcome::Later;
        }
        let mut body = content(text, place.is_shared());
        body["chat_id"] = chat.into();
        body["message_id"] = message_id.into();
        let buttons = if buttons.is_array() { buttons.clone() } else { json!([]) };
        body["reply_markup"] = json!({ "inline_keyboard": buttons });
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

    /// Notes that a chat got too many messages, and until when it must not be edited.
    fn note_flood(&self, chat: i64, reply: &Reply) {
        if reply.status == 429 {
            let wait = retry_after(reply).unwrap_or(Duration::from_secs(1));
            self.memory().rate_limited.insert(chat, Instant::now() + wait);
        }
    }

    /// Answers a tap; an empty text only ends the spinner of the button. Not retried: after some seconds nobody waits for it.
    pub(super) async fn toast(&self, tap_id: &str, text: &str) {
        let text: String = text.chars().take(TOAST_CHARS).collect();
        let mut body = json!({ "callback_query_id": tap_id });
        if !text.is_empty() {
            body["text"] = text.into();
        }
        if let Err(error) = self.bot.call("answerCallbackQuery", &body).await {
            tracing::debug!(channel = self.name, %error, "the answer to a tap could not be sent");
        }
    }
}
