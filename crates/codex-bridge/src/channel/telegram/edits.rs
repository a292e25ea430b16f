//! Edits sent messages: the outcome of a request, and the progress of a turn. A failed edit is kept and retried.

use std::time::{Duration, Instant};

use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::request::{DecisionWord, RequestName, RequestRecord, RequestState};
use jiff::Timestamp;
use serde_json::Value;

use super::api::LIMIT;
use super::memory::{ProgressMessage, RequestMessage};
use super::outgoing::{EditOutcome, numeric_place};
use super::{Telegram, keyboard};
use crate::amount;
use crate::channel::{Progress, Tap, text};

/// The pause between progress edits in a group.
const GROUP_EDITS_EVERY: Duration = Duration::from_secs(6);

impl Telegram {
    /// Shows the outcome of a tap: first in the message, for everybody, then to the person who tapped.
    pub(super) async fn show_verdict(&self, tap: &Tap, verdict: &Verdict) {
        // Until then the request is not in `shown_requests`, so `show_closed` does not edit the message.
        let tapped = self.memory().taps.get(&tap.id).cloned();
        if let (Some(tapped), Some(message_id)) = (tapped, number(tap))
            && matches!(verdict, Verdict::Taken { .. } | Verdict::TooLate { .. })
        {
            let known = self.known(tap.conversation.as_str(), message_id);
            let text_before = tapped.text.or_else(|| known.as_ref().map(|message| message.text.clone()));
            let note = match verdict {
                Verdict::Taken { .. } => {
                    format!(
                        "{} by {}, {:.0}",
                        outcome_of(&tap.choice).past_tense(),
                        tapped.who,
                        Timestamp::now()
                    )
                }
                late => late.text().to_owned(),
            };
            if let Some(text_before) = text_before {
                let buttons = keyboard::without(&tapped.buttons, &tap.button.request_id);
                let note = format!("{}: {note}", tap.button.request_id.short());
                let message = RequestMessage {
                    place: tap.conversation.0.clone(),
                    message_id,
                    text: text::with_note(&text_before, &note, LIMIT),
                    buttons,
                    requests: known.map(|message| message.requests).unwrap_or_default(),
                };
                self.update(message, &tap.button.request_id).await;
            }
        }
        self.toast(&tap.id, verdict.text()).await;
        self.memory().taps.remove(&tap.id);
    }

    /// Shows that a request was decided at another door or is no longer open.
    pub(super) async fn show_closed(&self, request: &RequestRecord) {
        let all = self.memory().request_messages.clone();
        let id = &request.request_id;
        for message in all.into_iter().filter(|message| message.requests.contains(id)) {
            let note = format!("{}: {}", id.short(), closed(request));
            let text = text::with_note(&message.text, &note, LIMIT);
            let buttons = keyboard::without(&message.buttons, id);
            self.update(RequestMessage { text, buttons, ..message }, id).await;
        }
    }

    /// Edits a message and removes a request from it. After a failed edit the message is kept as it was, for a retry.
    async fn update(&self, mut message: RequestMessage, request_id: &RequestName) {
        let edited = self.edit(&message.place, message.message_id, &message.text, &message.buttons).await;
        if edited == EditOutcome::Later {
            return;
        }
        message.requests.retain(|id| id != request_id);
        let mut memory = self.memory();
        let is_same =
            |other: &RequestMessage| other.place == message.place && other.message_id == message.message_id;
        memory.request_messages.retain(|other| !is_same(other));
        if !message.requests.is_empty() && edited == EditOutcome::Done {
            memory.request_messages.push(message);
        }
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
        let text = text::with_note("", &text::harmless(&progress.text), LIMIT);
        match known {
            None if progress.is_finished => {}
            None => {
                let Ok((_, place)) = numeric_place(&progress.place) else { return };
                let shown = ProgressMessage { place: progress.place.clone(), message_id: None, text };
                // Stored before sending, so that there is never a second message for the turn.
                self.memory().progress_messages.insert(turn, shown.clone());
                let sent = self.post(&place, &shown.text, &Value::Null, None).await;
                let message_id = sent.ok().and_then(|reply| reply.body["result"]["message_id"].as_i64());
                self.memory().progress_messages.insert(turn, ProgressMessage { message_id, ..shown });
            }
            Some(shown) => self.edit_progress(progress, shown, text).await,
        }
    }

    async fn edit_progress(&self, progress: &Progress, shown: ProgressMessage, text: String) {
        let edited = match shown.message_id {
            Some(_) if shown.text == text => EditOutcome::Done,
            Some(_) if !self.may_edit_progress(&shown.place) => EditOutcome::Later,
            Some(message_id) => self.edit(&shown.place, message_id, &text, &Value::Null).await,
            None => EditOutcome::Never,
        };
        let mut memory = self.memory();
        if progress.is_finished && edited != EditOutcome::Later {
            memory.progress_messages.remove(progress.message_id.as_str());
        } else if edited == EditOutcome::Done {
            memory.progress_messages.insert(progress.message_id.as_str(), ProgressMessage { text, ..shown });
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
    let at = request.decided_at.or(request.closed_at).map(amount::rfc3339);
    let at = at.map(|at| format!(", {at}")).unwrap_or_default();
    match request.state {
        RequestState::Expired => format!("nobody answered in time, so it was declined{at}"),
        RequestState::Orphaned => "no longer open: its turn has ended".to_owned(),
        RequestState::AnsweredElsewhere => format!("answered in Codex's own terminal{at}"),
        _ => {
            format!("{} by {by}{at}", request.decision.as_ref().map_or("answered", DecisionWord::past_tense))
        }
    }
}
