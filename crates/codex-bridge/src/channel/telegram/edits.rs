//! Edits sent messages: the outcome of a request, and the progress of a turn. A failed edit is kept and retried.

use std::time::{Duration, Instant};

use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::request::{DecisionWord, RequestName, RequestRecord, RequestState};
use jiff::Timestamp;
use redact::plain::readable;
use serde_json::Value;

use super::api::LIMITS;
use super::memory::{ProgressMessage, RequestMessage};
use super::outgoing::{EditOutcome, numeric_place};
use super::{Telegram, keyboard};
use crate::channel::text::Styled;
use crate::channel::{Progress, Tap};

/// The pause between progress edits in a group.
const GROUP_EDITS_EVERY: Duration = Duration::from_secs(6);

impl Telegram {
    /// Shows the outcome of a tap: first in the message, for everybody, then to the person who tapped. A tap that came too late
    /// changes no message: the outcome that counts is shown there, or soon will be.
    pub(super) async fn show_verdict(&self, tap: &Tap, verdict: &Verdict) {
        if let Verdict::Taken { .. } = verdict {
            self.show_decision(tap).await;
        }
        self.toast(&tap.id, verdict.text()).await;
        // Until then the request is not in `shown_requests`, so `show_closed` does not edit the message.
        self.memory().taps.remove(&tap.id);
    }

    async fn show_decision(&self, tap: &Tap) {
        let _editing = self.editing.lock().await;
        let tapped = self.memory().taps.get(&tap.id).cloned();
        let (Some(tapped), Some(message_id)) = (tapped, number(tap)) else { return };
        let known = self.known(tap.conversation.as_str(), message_id);
        // Of a message that is no longer known, Telegram sends the text.
        let foreign = || {
            Some(RequestMessage {
                place: tap.conversation.0.clone(),
                message_id,
                text: tapped.text.clone()?,
                spans: Vec::new(),
                buttons: tapped.buttons.clone(),
                requests: Vec::new(),
                has_several: true,
            })
        };
        if let Some(message) = known.or_else(foreign) {
            let outcome = format!(
                "{} by {}, {}",
                outcome_of(&tap.choice).past_tense(),
                tapped.who,
                time_of_day(Timestamp::now())
            );
            self.add_outcome(message, &tap.button.request_id, &outcome).await;
        }
    }

    /// Shows that a request was decided at another door or is no longer open.
    pub(super) async fn show_closed(&self, request: &RequestRecord) {
        let _editing = self.editing.lock().await;
        let all = self.memory().request_messages.clone();
        let id = &request.request_id;
        for message in all.into_iter().filter(|message| message.requests.contains(id)) {
            self.add_outcome(message, id, &closed(request)).await;
        }
    }

    /// Adds the outcome of a request to its message, in place of its buttons.
    async fn add_outcome(&self, message: RequestMessage, id: &RequestName, outcome: &str) {
        let note =
            if message.has_several { format!("{}: {outcome}", id.short()) } else { capitalised(outcome) };
        let Styled { text, spans } = message.shown().with_note(&note, LIMITS.text);
        let buttons = keyboard::without(&message.buttons, id);
        self.update(RequestMessage { text, spans, buttons, ..message }, id).await;
    }

    /// Edits a message and removes a request from it. After a failed edit the message is kept as it was, for a retry.
    async fn update(&self, mut message: RequestMessage, request_id: &RequestName) {
        let edited = self.edit(&message.place, message.message_id, &message.shown(), &message.buttons).await;
        if edited == EditOutcome::Later {
            return;
        }
        message.requests.retain(|id| id != request_id);
        {
            let mut memory = self.memory();
            let is_same = |other: &RequestMessage| {
                other.place == message.place && other.message_id == message.message_id
            };
            memory.request_messages.retain(|other| !is_same(other));
            if !message.requests.is_empty() && edited == EditOutcome::Done {
                memory.request_messages.push(message);
            }
        }
        self.keep().await;
    }

    fn known(&self, place: &str, message_id: i64) -> Option<RequestMessage> {
        let memory = self.memory();
        memory
            .request_messages
            .iter()
            .find(|other| other.place == place && other.message_id == message_id)
            .cloned()
    }

    /// Shows a turn in one message: sent once, edited when the text changes, forgotten at the end.
    pub(super) async fn show_progress(&self, progress: &Progress) {
        let turn = progress.message_id.as_str();
        let known = self.memory().progress_messages.get(turn).cloned();
        let text = readable(&progress.text);
        let text = Styled::default().with_note(&text, LIMITS.text).text;
        match known {
            None if progress.is_finished => {}
            None => {
                let Ok((_, place)) = numeric_place(&progress.place) else { return };
                let shown = ProgressMessage { place: progress.place.clone(), message_id: None, text };
                // Noted before sending, so that a failed attempt is not made again.
                self.memory().progress_messages.insert(turn, shown.clone());
                let sent = self.post(&place, &shown.text.as_str().into(), &Value::Null, None).await;
                let message_id = sent.ok().and_then(|reply| reply.body["result"]["message_id"].as_i64());
                self.memory().progress_messages.insert(turn, ProgressMessage { message_id, ..shown });
                // At once: after a crash nobody else would know that the message has to be edited.
                self.keep().await;
            }
            Some(shown) => self.edit_progress(progress, shown, text).await,
        }
    }

    async fn edit_progress(&self, progress: &Progress, shown: ProgressMessage, text: String) {
        let edited = match shown.message_id {
            Some(_) if shown.text == text => EditOutcome::Done,
            Some(_) if !self.may_edit_progress(&shown.place) => EditOutcome::Later,
            Some(message_id) => {
                self.edit(&shown.place, message_id, &text.as_str().into(), &Value::Null).await
            }
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

    /// Telegram allows twenty messages and edits a minute in a group. Progress leaves most of them to replies and requests.
    fn may_edit_progress(&self, place: &str) -> bool {
        let Ok((chat, _)) = numeric_place(place) else { return true };
        let is_group = chat < 0;
        if !is_group {
            return true;
        }
        let mut memory = self.memory();
        memory.edited_at.retain(|_, at| at.elapsed() < GROUP_EDITS_EVERY);
        let was_edited = memory.edited_at.contains_key(&chat);
        if !was_edited {
            memory.edited_at.insert(chat, Instant::now());
        }
        !was_edited
    }
}

fn number(tap: &Tap) -> Option<i64> {
    tap.message_id.as_deref()?.parse().ok()
}

fn outcome_of(choice: &Choice) -> DecisionWord {
    match choice {
        Choice::Decision(decision) => decision.into(),
        Choice::Option(_) => DecisionWord::Answers,
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
