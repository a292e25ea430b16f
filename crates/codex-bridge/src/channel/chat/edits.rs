//! Edits sent messages: the outcome of a request, and the progress of a turn. A failed edit is kept and retried.

use std::time::Instant;

use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::outbox::{Asked, Outcome};
use codex_bridge_core::request::{DecisionWord, RequestRecord, RequestState};
use jiff::Timestamp;
use redact::plain::readable;

use super::memory::{MessageNumber, ProgressMessage, RequestMessage};
use super::{Chat, ChatApi, EditOutcome, Keyboard, Post, Tapped};
use crate::channel::text::{self, Body, Styled};
use crate::channel::{Progress, Tap};

impl<A: ChatApi> Chat<A> {
    /// Shows the outcome of a tap: first in the message, for everybody, then to the person who tapped. A tap that came too late
    /// changes no message: the outcome that counts is shown there, or soon will be.
    pub(super) async fn show_verdict(&self, tap: &Tap, verdict: &Verdict) {
        match verdict {
            Verdict::Taken { .. } => {
                self.memory().forget_comments_on(&tap.button.request_id);
                self.show_decision(tap).await;
                self.keep().await;
            }
            Verdict::Next { asked, chosen } => self.ask_next(tap, asked, chosen).await,
            Verdict::Comment => {
                let (place, sender, request) = (&tap.conversation.0, &tap.sender_id, &tap.button.request_id);
                let now = Timestamp::now().as_millisecond();
                self.memory().await_comment(place, sender, request.clone(), now);
                self.keep().await;
            }
            Verdict::TooLate { .. } | Verdict::Forbidden { .. } | Verdict::NotAllowed => {}
        }
        let is_shown = matches!(verdict, Verdict::Taken { .. } | Verdict::Next { .. });
        let text = if is_shown && !self.api.repeats_outcomes() { "" } else { verdict.text() };
        self.api.toast(&tap.id, text).await;
        // Until then the request is not in `shown_requests`, so `show_closed` does not edit the message.
        self.memory().taps.remove(&tap.id);
    }

    async fn show_decision(&self, tap: &Tap) {
        let _editing = self.editing.lock().await;
        let Some((message, who)) = self.tapped_message(tap) else { return };
        let decided = outcome_of(&tap.choice);
        let mut outcome = format!("{} by {who}, {}", decided.past_tense(), time_of_day(Timestamp::now()));
        if let (Choice::Options(_), Some(label)) = (&tap.choice, message.keyboard.label_of(tap)) {
            outcome = format!("{outcome}: {label}");
        }
        self.add_outcome(message, &outcome).await;
    }

    /// Shows what was chosen, and the next question of the request with its options.
    async fn ask_next(&self, tap: &Tap, asked: &Asked, chosen: &[usize]) {
        let _editing = self.editing.lock().await;
        let Some((message, _)) = self.tapped_message(tap) else { return };
        let (words, keyboard) = (text::next_question(asked, chosen), Keyboard::of_question(asked, chosen));
        let Styled { text, spans } = message.shown().with_note(&words, self.api.limits().text);
        let message = RequestMessage { text, spans, keyboard, ..message };
        if self.edit(&message).await == EditOutcome::Done {
            self.forget(&message);
            self.memory().note_request(message);
            self.keep().await;
        }
    }

    /// The message with the button that was tapped, and who tapped it.
    fn tapped_message(&self, tap: &Tap) -> Option<(RequestMessage, String)> {
        let memory = self.memory();
        let Tapped { sender, text, keyboard, .. } = memory.taps.get(&tap.id)?;
        let message_id = tap.message_id.as_ref()?;
        let is_it =
            |one: &&RequestMessage| one.place == tap.conversation.as_str() && one.message_id == *message_id;
        let known = memory.request_messages.iter().find(is_it).cloned();
        // Of a message that is no longer known, the platform may send the text.
        let foreign = || {
            Some(RequestMessage {
                place: tap.conversation.0.clone(),
                message_id: message_id.clone(),
                text: text.clone()?,
                spans: Vec::new(),
                keyboard: keyboard.clone(),
                request: tap.button.request_id.clone(),
            })
        };
        Some((known.or_else(foreign)?, sender.name.clone()))
    }

    /// Shows that a request was decided at another door or is no longer open.
    pub(super) async fn show_closed(&self, request: &RequestRecord) {
        let _editing = self.editing.lock().await;
        self.memory().forget_comments_on(&request.request_id);
        let all = self.memory().request_messages.clone();
        for message in all.into_iter().filter(|message| message.request == request.request_id) {
            self.add_outcome(message, &closed(request)).await;
        }
    }

    /// Shows the outcome of a request in its message, in place of its buttons. After a failed edit the message is kept as it was,
    /// for a retry.
    async fn add_outcome(&self, message: RequestMessage, outcome: &str) {
        let Styled { text, spans } = message.shown().with_note(&capitalised(outcome), self.api.limits().text);
        let message = RequestMessage { text, spans, keyboard: Keyboard::NONE, ..message };
        if self.edit(&message).await != EditOutcome::Later {
            self.forget(&message);
            self.keep().await;
        }
    }

    async fn edit(&self, message: &RequestMessage) -> EditOutcome {
        self.api.edit(&message.place, &message.message_id, &message.shown(), &message.keyboard).await
    }

    fn forget(&self, message: &RequestMessage) {
        self.memory()
            .request_messages
            .retain(|other| (&other.place, &other.message_id) != (&message.place, &message.message_id));
    }

    /// Shows a turn in one message: sent once, edited when the text changes, forgotten at the end.
    pub(super) async fn show_progress(&self, progress: &Progress) {
        let turn = progress.message_id.as_str();
        let known = self.memory().progress_messages.get(turn).cloned();
        let text = readable(&progress.text);
        let text = Styled::default().with_note(&text, self.api.limits().text).text;
        match known {
            None if progress.is_finished => {}
            None => {
                let place = progress.place.clone();
                // Noted before sending, so that a failed attempt is not made again.
                let shown = ProgressMessage { place: place.clone(), message_id: None, text };
                self.memory().progress_messages.insert(turn, shown.clone());
                let body = Body::Text(shown.text.as_str().into());
                let (keyboard, reply_to) = (&Keyboard::NONE, None);
                let post = Post { body: &body, keyboard, reply_to, key: turn, may_have_arrived: false };
                if let Outcome::Delivered { message_id, .. } = self.api.post(&place, post).await {
                    let message_id = message_id.map(MessageNumber);
                    self.memory().progress_messages.insert(turn, ProgressMessage { message_id, ..shown });
                }
                // At once: after a crash nobody else would know that the message has to be edited.
                self.keep().await;
            }
            Some(shown) => self.edit_progress(progress, shown, text).await,
        }
    }

    async fn edit_progress(&self, progress: &Progress, shown: ProgressMessage, text: String) {
        let edited = match &shown.message_id {
            Some(_) if shown.text == text => EditOutcome::Done,
            Some(_) if !self.may_edit_progress(&shown.place) => EditOutcome::Later,
            Some(id) => self.api.edit(&shown.place, &id.0, &text.as_str().into(), &Keyboard::NONE).await,
            None => EditOutcome::Never,
        };
        if progress.is_finished && edited != EditOutcome::Later {
            self.memory().progress_messages.remove(progress.message_id.as_str());
            self.keep().await;
        } else if edited == EditOutcome::Done {
            let shown = ProgressMessage { text, ..shown };
            self.memory().progress_messages.insert(progress.message_id.as_str(), shown);
        }
    }

    /// Platforms limit how many edits a place may have. Progress leaves most of them to replies and requests.
    fn may_edit_progress(&self, place: &str) -> bool {
        let pause = self.api.progress_pause(place);
        if pause.is_zero() {
            return true;
        }
        let mut memory = self.memory();
        memory.edited_at.retain(|_, at| at.elapsed() < pause);
        if memory.edited_at.contains_key(place) {
            return false;
        }
        memory.edited_at.insert(place.to_owned(), Instant::now());
        true
    }
}

fn outcome_of(choice: &Choice) -> DecisionWord {
    match choice {
        Choice::Decision(decision) => decision.into(),
        Choice::Options(_) => DecisionWord::Answers,
        Choice::Comment => DecisionWord::Decline,
    }
}

fn closed(request: &RequestRecord) -> String {
    let by = request.decided_by.as_deref().unwrap_or("somebody");
    let at = request.decided_at.or(request.closed_at).and_then(|at| Timestamp::from_millisecond(at).ok());
    let at = at.map(|at| format!(", {}", time_of_day(at))).unwrap_or_default();
    match request.state {
        RequestState::Expired => format!("nobody answered in time, so it was declined{at}"),
        RequestState::Orphaned => "no longer open: its turn has ended".to_owned(),
        RequestState::AnsweredElsewhere => format!("answered in Codex's own terminal{at}"),
        _ => {
            format!("{} by {by}{at}", request.decision.as_ref().map_or("answered", DecisionWord::past_tense))
        }
    }
}

/// `14:05 UTC`: people in a chat may be in any time zone.
fn time_of_day(at: Timestamp) -> String {
    at.strftime("%H:%M UTC").to_string()
}

fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
