//! Editing what was said: what became of a request, and how a turn stands. All of it best effort: what cannot be edited now
//! stays remembered, and is tried again.

use std::time::{Duration, Instant};

use codex_bridge_core::chats::{Choice, Verdict};
use codex_bridge_core::request::{RequestName, RequestRecord, RequestState};
use codex_session::Decision;
use jiff::Timestamp;
use serde_json::Value;

use super::api::LIMIT;
use super::memory::{Asking, Shown};
use super::outgoing::{Edited, numbered};
use super::{Telegram, keyboard};
use crate::amount;
use crate::channel::text;
use crate::channel::{Progress, Tap};

/// How often a turn is shown anew in a group.
const GROUP_EDITS_EVERY: Duration = Duration::from_secs(6);

impl Telegram {
    /// What came of a tap: first in the message, for all, then to who tapped.
    pub(super) async fn show_verdict(&self, tap: &Tap, verdict: &Verdict) {
        // Until it is shown, nobody else shows what became of the request: see [`Telegram::asked`].
        let tapped = self.memory().taps.get(&tap.id).cloned();
        if let (Some(tapped), Some(message_id)) = (tapped, number(tap))
            && matches!(verdict, Verdict::Taken { .. } | Verdict::TooLate { .. })
        {
            let known = self.known(tap.conversation.as_str(), message_id);
            let said = tapped.text.or_else(|| known.as_ref().map(|asking| asking.text.clone()));
            let note = match verdict {
                Verdict::Taken { .. } => {
                    format!("{} by {}, {:.0}", outcome_of(&tap.choice), tapped.who, Timestamp::now())
                }
                late => late.text().to_owned(),
            };
            if let Some(said) = said {
                let buttons = keyboard::without(&tapped.buttons, &tap.button.request_id);
                let note = format!("{}: {note}", tap.button.request_id.short());
                let asking = Asking {
                    place: tap.conversation.0.clone(),
                    message_id,
                    text: text::appended(&said, &note, LIMIT),
                    buttons,
                    requests: known.map(|asking| asking.requests).unwrap_or_default(),
                };
                self.update(asking, &tap.button.request_id).await;
            }
        }
        self.toast(&tap.id, verdict.text()).await;
        self.memory().taps.remove(&tap.id);
    }

    /// A request was answered at another door, or can be answered no more.
    pub(super) async fn show_closed(&self, request: &RequestRecord) {
        let all = self.memory().asking.clone();
        let id = &request.request_id;
        for asking in all.into_iter().filter(|asking| asking.requests.contains(id)) {
            let note = format!("{}: {}", id.short(), closed(request));
            let text = text::appended(&asking.text, &note, LIMIT);
            let buttons = keyboard::without(&asking.buttons, id);
            self.update(Asking { text, buttons, ..asking }, id).await;
        }
    }

    /// A message as it is to be from now on, without this request. What cannot be edited now is left as it was.
    async fn update(&self, mut asking: Asking, request_id: &RequestName) {
        let edited = self.edit(&asking.place, asking.message_id, &asking.text, &asking.buttons).await;
        if edited == Edited::Later {
            return;
        }
        asking.requests.retain(|id| id != request_id);
        let mut memory = self.memory();
        let is_it = |one: &Asking| one.place == asking.place && one.message_id == asking.message_id;
        memory.asking.retain(|one| !is_it(one));
        if !asking.requests.is_empty() && edited == Edited::Done {
            memory.asking.push(asking);
        }
    }

    fn known(&self, place: &str, message_id: i64) -> Option<Asking> {
        let memory = self.memory();
        memory.asking.iter().find(|one| one.place == place && one.message_id == message_id).cloned()
    }

    /// One message per turn: sent once, edited when it says something else, closed at the end.
    pub(super) async fn show_progress(&self, progress: &Progress) {
        let known = self.memory().shown.get(progress.message_id.as_str()).cloned();
        let text = text::appended("", &text::harmless(&progress.text), LIMIT);
        match known {
            None if progress.is_over => {}
            None => {
                let Ok((_, place)) = numbered(&progress.place) else { return };
                let shown = Shown { place: progress.place.clone(), message_id: None, text };
                // Noted first: whatever becomes of this attempt, there is no second one.
                self.memory().show(&progress.message_id, shown.clone());
                let sent = self.post(&place, &shown.text, &Value::Null, None).await;
                let message_id = sent.ok().and_then(|reply| reply.body["result"]["message_id"].as_i64());
                self.memory().show(&progress.message_id, Shown { message_id, ..shown });
            }
            Some(shown) => self.edit_progress(progress, shown, text).await,
        }
    }

    async fn edit_progress(&self, progress: &Progress, shown: Shown, text: String) {
        let edited = match shown.message_id {
            Some(_) if shown.text == text => Edited::Done,
            Some(_) if !self.may_edit_progress(&shown.place) => Edited::Later,
            Some(message_id) => self.edit(&shown.place, message_id, &text, &Value::Null).await,
            None => Edited::Never,
        };
        let mut memory = self.memory();
        if progress.is_over && edited != Edited::Later {
            memory.shown.remove(progress.message_id.as_str());
        } else if edited == Edited::Done {
            memory.show(&progress.message_id, Shown { text, ..shown });
        }
    }

    /// A group takes twenty messages and edits in a minute: how turns stand leaves most of them to what matters more.
    fn may_edit_progress(&self, place: &str) -> bool {
        let Ok((chat, _)) = numbered(place) else { return true };
        let is_group = chat < 0;
        if !is_group {
            return true;
        }
        let mut memory = self.memory();
        memory.edited_at.retain(|_, at| at.elapsed() < GROUP_EDITS_EVERY);
        let is_soon = memory.edited_at.contains_key(&chat);
        if !is_soon {
            memory.edited_at.insert(chat, Instant::now());
        }
        !is_soon
    }
}

fn number(tap: &Tap) -> Option<i64> {
    tap.message_id.as_deref()?.parse().ok()
}

fn outcome_of(choice: &Choice) -> &'static str {
    match choice {
        Choice::Decision(Decision::Accept) => "approved",
        Choice::Decision(Decision::AcceptForSession) => "approved for this thread",
        Choice::Decision(Decision::Decline) => "denied",
        _ => "answered",
    }
}

fn closed(request: &RequestRecord) -> String {
    let by = request.decided_by.as_deref().unwrap_or("somebody");
    let at = request.decided_at.or(request.closed_at).map(amount::rfc3339);
    let at = at.map(|at| format!(", {at}")).unwrap_or_default();
    match request.state {
        RequestState::Expired => format!("nobody answered in time, so it was declined{at}"),
        RequestState::Orphaned => "no longer open: what asked has ended".to_owned(),
        RequestState::AnsweredElsewhere => format!("answered in Codex's own terminal{at}"),
        _ => format!("{} by {by}{at}", request.decision.as_deref().unwrap_or("answered")),
    }
}
