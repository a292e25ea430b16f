//! Delivers notices. A notice may take several messages: each that has arrived is stored, so that a retry continues behind it.

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};

use super::memory::RequestMessage;
use super::{Chat, ChatApi, Keyboard, Post};
use crate::channel::text::{self, Body, Part, Styled};

impl<A: ChatApi> Chat<A> {
    /// Makes one attempt to deliver a notice.
    pub(super) async fn deliver(&self, place: &str, attempt: &Attempt) -> Outcome {
        let place = match self.api.place(place) {
            Ok(place) => place,
            Err(why) => return Outcome::failed(Refusal::Never, why),
        };
        let has_buttons = self.api.takes_taps(&place);
        let mut reply_to = attempt.notice.in_reply_to();
        let parts = text::parts(&attempt.notice, self.api.limits(), has_buttons);
        let shown = text::requests_shown_whole(&parts);
        let (sent, count) = (attempt.parts.sent(), parts.len());
        let mut last = Outcome::delivered(None);
        for (number, part) in parts.into_iter().enumerate().skip(sent) {
            // Each message is noted before the next one is sent, so only the first may have arrived.
            let is_doubtful = attempt.may_be_duplicate && number == sent;
            let is_found = self.api.finds_repeats(&place) && matches!(part.body, Body::Text(_));
            let part = if is_doubtful && !is_found { part.marked() } else { part };
            let key = if number == 0 { attempt.key.to_string() } else { format!("{}-{number}", attempt.key) };
            last = self.send_part(&place, &part, reply_to.take(), (&key, is_doubtful && is_found)).await;
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

    async fn send_part(
        &self,
        place: &str,
        part: &Part<'_>,
        reply_to: Option<&str>,
        (key, may_have_arrived): (&str, bool),
    ) -> Outcome {
        let keyboard = match part.decides {
            Some(shown) => Keyboard::of_request(shown),
            None => Keyboard::of_commands(
                part.commands.iter().map(|one| (one.label.as_str(), one.command.as_str())),
            ),
        };
        let post = Post { body: &part.body, keyboard: &keyboard, reply_to, key, may_have_arrived };
        let outcome = self.api.post(place, post).await;
        // A question without buttons is answered by a reply to its message.
        if let (Outcome::Delivered { message_id: Some(message_id), .. }, Some(shown), Body::Text(text)) =
            (&outcome, part.decides, &part.body)
            && (!keyboard.is_empty() || shown.asked.is_question())
        {
            let (Styled { text, spans }, message_id) = (text.clone(), message_id.clone());
            let request = shown.asked.request_id.clone();
            let place = place.to_owned();
            self.memory().note_request(RequestMessage { place, message_id, text, spans, keyboard, request });
            self.keep().await;
        }
        outcome
    }
}
