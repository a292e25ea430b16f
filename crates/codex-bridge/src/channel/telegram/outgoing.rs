//! Saying something, and changing what was said. One message may take several: what was said of them is remembered, so
//! that an attempt which broke off goes on where it did.

use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use serde_json::{Value, json};

use super::api::{Chat, LIMIT, Place, outcome};
use super::memory::{Asking, Told};
use super::{Telegram, keyboard, update};
use crate::channel::http::{self, Reply};
use crate::channel::text::{self, Part};

/// The longest answer to a tap, in characters.
const TOAST_CHARS: usize = 190;

/// How an edit went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edited {
    /// It says so now.
    Done,
    /// It may work later.
    Later,
    /// The message is gone, or cannot be edited any more.
    Never,
}

/// The number of the chat of a place, and the place itself.
pub fn numbered(place: &str) -> Result<(i64, Place), String> {
    let place = Place::parse(place)?;
    match place.chat {
        Chat::Number(chat) => Ok((chat, place)),
        Chat::Name(_) => Err("it is CHAT or CHAT:TOPIC, both numbers".to_owned()),
    }
}

fn has_any(buttons: &Value) -> bool {
    buttons.as_array().is_some_and(|buttons| !buttons.is_empty())
}

impl Telegram {
    /// Says all of it, or as much as can be said now. A tap in a chat with a name could not be told from one elsewhere, so
    /// there are no buttons there.
    pub(super) async fn say(&self, at: &str, attempt: &Attempt) -> Outcome {
        match self.place(at) {
            Err(why) => Outcome::failed(Refusal::Never, why),
            Ok(place) => match place.chat {
                Chat::Number(chat) if !self.only_sends() => self.say_in_parts(chat, &place, attempt).await,
                _ => self.say_plainly(&place, attempt).await,
            },
        }
    }

    async fn say_plainly(&self, place: &Place, attempt: &Attempt) -> Outcome {
        let body = place.message(&text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT));
        match self.bot.call("sendMessage", &body).await {
            Ok(reply) => outcome(&reply),
            Err(error) => error.into(),
        }
    }

    async fn say_in_parts(&self, chat: i64, place: &Place, attempt: &Attempt) -> Outcome {
        let answers = attempt.notice.in_reply_to();
        let mut answers = answers.and_then(|id| update::number_in(id, self.memory().now(chat)));
        let [parts, marked] = [false, true].map(|marks| text::parts(&attempt.notice, marks, LIMIT));
        let mut told = self.memory().told(attempt);
        let mut last = Outcome::delivered(None);
        // A repetition has as many parts as the first attempt.
        for (number, (plain, marked)) in parts.iter().zip(&marked).enumerate().skip(told.said) {
            let part = if number < told.in_doubt { marked } else { plain };
            let doubtful = Told { in_doubt: told.in_doubt.max(number + 1), ..told };
            // Before it is known what comes of it: an attempt that takes too long breaks off here.
            self.memory().note_told(&attempt.key, doubtful);
            last = self.say_part(place, part, answers.take()).await;
            if let Outcome::Failed { in_doubt, .. } = &mut last {
                self.memory().note_told(&attempt.key, if *in_doubt { doubtful } else { told });
                // Another life does not know how far we came, and would say again what was said.
                *in_doubt |= number > 0;
                return last;
            }
            told.said = number + 1;
        }
        self.memory().forget_told(&attempt.key);
        if let Outcome::Delivered { shown, .. } = &mut last {
            *shown = text::shown_whole(&parts);
        }
        last
    }

    async fn say_part(&self, place: &Place, part: &Part<'_>, answers: Option<i64>) -> Outcome {
        let buttons = keyboard::buttons(&part.decides);
        let reply = match self.post(place, &part.text, &buttons, answers).await {
            Ok(reply) => reply,
            Err(error) => return error.into(),
        };
        let outcome = outcome(&reply);
        let number = reply.body["result"]["message_id"].as_i64();
        if let (Outcome::Delivered { .. }, Some(message_id)) = (&outcome, number)
            && has_any(&buttons)
        {
            let requests = part.decides.iter().map(|shown| shown.asked.request_id.clone()).collect();
            let text = part.text.clone();
            self.memory().ask(Asking { place: place.to_string(), message_id, text, buttons, requests });
        }
        outcome
    }

    /// Sends a message; a group that has moved is followed.
    pub(super) async fn post(
        &self,
        place: &Place,
        text: &str,
        buttons: &Value,
        answers: Option<i64>,
    ) -> Result<Reply, http::Error> {
        let mut body = place.message(text);
        let chat = self.memory().now(body["chat_id"].as_i64().unwrap_or_default());
        body["chat_id"] = chat.into();
        if let Some(message_id) = answers {
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

    /// Makes a message say this, with these buttons. A chat that asked for quiet is left alone.
    pub(super) async fn edit(&self, place: &str, message_id: i64, text: &str, buttons: &Value) -> Edited {
        let Ok((chat, _)) = numbered(place) else { return Edited::Never };
        let chat = self.memory().now(chat);
        if self.memory().is_quiet(chat) {
            return Edited::Later;
        }
        let body = json!({
            "chat_id": chat, "message_id": message_id, "text": text,
            "link_preview_options": { "is_disabled": true },
            "reply_markup": { "inline_keyboard": if buttons.is_array() { buttons.clone() } else { json!([]) } },
        });
        let Ok(reply) = self.bot.call("editMessageText", &body).await else { return Edited::Later };
        self.note_flood(chat, &reply);
        let described = reply.body["description"].as_str().unwrap_or_default();
        match reply.status {
            200 => Edited::Done,
            400 if described.contains("message is not modified") => Edited::Done,
            400 | 403 => Edited::Never,
            _ => Edited::Later,
        }
    }

    /// Too much was said in a chat: nothing is edited there until it is over.
    fn note_flood(&self, chat: i64, reply: &Reply) {
        if reply.status == 429 {
            let wait = reply.body["parameters"]["retry_after"].as_u64().map(Duration::from_secs);
            let wait = wait.or(reply.retry_after).unwrap_or(Duration::from_secs(1));
            self.memory().quiet.insert(chat, Instant::now() + wait);
        }
    }

    /// Tells whoever tapped; with no words, that it was seen. Best effort: after some seconds nobody waits for it any more.
    pub(super) async fn toast(&self, tap_id: &str, text: &str) {
        let text: String = text.chars().take(TOAST_CHARS).collect();
        let mut body = json!({ "callback_query_id": tap_id });
        if !text.is_empty() {
            (body["text"], body["show_alert"]) = (text.into(), true.into());
        }
        if let Err(error) = self.bot.call("answerCallbackQuery", &body).await {
            tracing::debug!(channel = self.name, %error, "whoever tapped could not be told");
        }
    }
}
