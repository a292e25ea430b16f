//! Sends and edits messages. A delivery may take several messages: the sent ones are remembered, so that a retry continues
//! behind them.

use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use serde_json::{Value, json};

use super::api::{Chat, LIMIT, Place, outcome, retry_after};
use super::memory::{PartsSent, RequestMessage};
use super::{Telegram, keyboard, update};
use crate::channel::http::{self, Reply};
use crate::channel::recent;
use crate::channel::text::{self, Part};

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
        match self.place(at) {
            Err(why) => Outcome::failed(Refusal::Never, why),
            Ok(place) => match place.chat {
                Chat::Number(chat) if !self.only_sends() => self.send_in_parts(chat, &place, attempt).await,
                _ => self.send_plain(&place, attempt).await,
            },
        }
    }

    async fn send_plain(&self, place: &Place, attempt: &Attempt) -> Outcome {
        let body = place.message(&text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT));
        match self.bot.call("sendMessage", &body).await {
            Ok(reply) => outcome(&reply),
            Err(error) => error.into(),
        }
    }

    async fn send_in_parts(&self, chat: i64, place: &Place, attempt: &Attempt) -> Outcome {
        let reply_to = attempt.notice.in_reply_to();
        let mut reply_to =
            reply_to.and_then(|id| update::message_number(id, self.memory().current_chat(chat)));
        let [parts, marked] = [false, true].map(|marks| text::parts(&attempt.notice, marks, LIMIT));
        let key = attempt.key.as_str();
        let mut parts_sent = self.memory().parts_sent(attempt);
        let mut last = Outcome::delivered(None);
        // A repetition has as many parts as the first attempt.
        for (number, (plain, marked)) in parts.iter().zip(&marked).enumerate().skip(parts_sent.sent) {
            let part = if number < parts_sent.in_doubt { marked } else { plain };
            let doubtful = PartsSent { in_doubt: parts_sent.in_doubt.max(number + 1), ..parts_sent };
            // Noted before the outcome is known: an attempt that times out ends in the next line.
            self.memory().parts_sent.insert(key, doubtful);
            last = self.send_part(place, part, reply_to.take()).await;
            if let Outcome::Failed { in_doubt, .. } = &mut last {
                self.memory().parts_sent.insert(key, if *in_doubt { doubtful } else { parts_sent });
                // After a restart the sent messages are unknown and would be sent again.
                *in_doubt |= number > 0;
                return last;
            }
            parts_sent.sent = number + 1;
        }
        self.memory().parts_sent.remove(key);
        if let Outcome::Delivered { shown, .. } = &mut last {
            *shown = text::requests_shown_whole(&parts);
        }
        last
    }

    async fn send_part(&self, place: &Place, part: &Part<'_>, reply_to: Option<i64>) -> Outcome {
        let buttons = keyboard::buttons(&part.decides);
        let reply = match self.post(place, &part.text, &buttons, reply_to).await {
            Ok(reply) => reply,
            Err(error) => return error.into(),
        };
        let outcome = outcome(&reply);
        let number = reply.body["result"]["message_id"].as_i64();
        if let (Outcome::Delivered { .. }, Some(message_id)) = (&outcome, number)
            && has_any(&buttons)
        {
            let requests = part.decides.iter().map(|shown| shown.asked.request_id.clone()).collect();
            let (place, text) = (place.to_string(), part.text.clone());
            let message = RequestMessage { place, message_id, text, buttons, requests };
            recent::push(&mut self.memory().request_messages, message);
        }
        outcome
    }

    /// Sends a message; follows a group that became a supergroup.
    pub(super) async fn post(
        &self,
        place: &Place,
        text: &str,
        buttons: &Value,
        reply_to: Option<i64>,
    ) -> Result<Reply, http::Error> {
        let mut body = place.message(text);
        let chat = self.memory().current_chat(body["chat_id"].as_i64().unwrap_or_default());
        body["chat_id"] = chat.into();
        if let Some(message_id) = reply_to {
            body["reply_parameters"] =
                json!({ "message_id": message_id, "allow_sending_without_reply": true });
        }
        if has_any(buttons) {
            body["reply_markup"] = json!({ "inline_keyboard": buttons });
        }
        let reply = self.bot.call("sendMessage", &body).await?;
        self.note_flood(chat, &reply);
        let Some(now) = reply.body["parameters"]["migrate_to_chat_id"].as_i64() else { return Ok(reply) };
        self.memory().moved.insert(chat, now);
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
        text: &str,
        buttons: &Value,
    ) -> EditOutcome {
        let Ok((chat, _)) = numeric_place(place) else { return EditOutcome::Never };
        let chat = self.memory().current_chat(chat);
        if self.memory().is_rate_limited(chat) {
            return EditOutcome::Later;
        }
        let body = json!({
            "chat_id": chat, "message_id": message_id, "text": text,
            "link_preview_options": { "is_disabled": true },
            "reply_markup": { "inline_keyboard": if buttons.is_array() { buttons.clone() } else { json!([]) } },
        });
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
            (body["text"], body["show_alert"]) = (text.into(), true.into());
        }
        if let Err(error) = self.bot.call("answerCallbackQuery", &body).await {
            tracing::debug!(channel = self.name, %error, "the answer to a tap could not be sent");
        }
    }
}
