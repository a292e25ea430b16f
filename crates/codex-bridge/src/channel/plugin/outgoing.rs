//! Saying something through a plugin, and changing what was said.

use std::time::Duration;

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use codex_bridge_core::request::RequestName;
use serde_json::json;

use super::memory::{Asking, Shown};
use super::process::Process;
use super::{Plugin, READY, envelope};
use crate::channel::Progress;
use crate::channel::text;

/// How long a plugin has to say something somewhere.
const SAID: Duration = Duration::from_secs(40);

impl Plugin {
    /// What asked for this says from now on what became of it.
    pub(super) async fn close(&self, request_id: &RequestName, note: &str) {
        let all = self.state().memory.asking.clone();
        for mut asking in all.into_iter().filter(|asking| asking.requests.contains(request_id)) {
            asking.requests.retain(|id| id != request_id);
            asking.actions.retain(|action| {
                action["id"].as_str().and_then(envelope::request_of).as_ref() != Some(request_id)
            });
            if let Some((process, can)) = self.running().filter(|(_, can)| can.edit) {
                asking.text = text::appended(&asking.text, note, can.limit());
                let edit = json!({ "message_id": asking.message_id, "text": asking.text, "actions": asking.actions });
                // Best effort: a tap on what is left says the same.
                if let Err(error) = process.call("edit", edit, READY).await {
                    let request = request_id.as_str();
                    tracing::warn!(
                        channel = self.name,
                        request,
                        ?error,
                        "what is no longer open is still shown"
                    );
                }
            }
            self.remember(|memory| {
                memory.asking.retain(|one| one.message_id != asking.message_id);
                if !asking.requests.is_empty() {
                    memory.ask(asking);
                }
            });
        }
    }

    pub(super) async fn say(&self, place: &str, attempt: &Attempt) -> Outcome {
        let Some((process, can)) = self.running() else { return not_now() };
        if !can.send {
            return Outcome::failed(Refusal::Never, "the plugin says nothing: it only brings messages");
        }
        let said = envelope::send(place, attempt, &can);
        let mut outcome = envelope::outcome(process.call("send", said.clone(), SAID).await);
        if let Outcome::Delivered { shown, .. } = &mut outcome
            && text::is_whole(&attempt.notice, can.limit())
        {
            shown.extend(attempt.notice.requests().iter().map(|asked| asked.request_id.clone()));
        }
        if let Outcome::Delivered { message_id: Some(message_id), .. } = &outcome
            && !attempt.notice.requests().is_empty()
        {
            let asking = Asking {
                message_id: message_id.clone(),
                text: said["text"].as_str().unwrap_or_default().to_owned(),
                requests: attempt.notice.requests().iter().map(|asked| asked.request_id.clone()).collect(),
                actions: said["actions"].as_array().cloned().unwrap_or_default(),
            };
            self.remember(|memory| memory.ask(asking));
        }
        outcome
    }

    /// That a turn works, for as long as it does; and where it can be shown, one message per turn: sent once, edited when
    /// it says something else, closed at the end.
    pub(super) async fn show(&self, progress: &Progress) {
        let Some((process, can)) = self.running() else { return };
        if can.typing && !progress.is_over {
            process.notify("typing", &json!({ "target": progress.place }));
        }
        let text = text::appended("", &text::harmless(&progress.text), can.limit());
        let known = self.state().memory.shown.get(progress.message_id.as_str()).cloned();
        let message_id = match known {
            None if progress.is_over => return,
            None => {
                // Whatever becomes of it, there is no second one.
                self.show_as(progress, None, &text);
                if can.shows_turns() { said_first(&process, progress, &text).await } else { None }
            }
            Some(shown) => {
                if let Some(message_id) = shown.message_id.as_ref().filter(|_| shown.text != text) {
                    let edit = json!({ "message_id": message_id, "text": text, "actions": [] });
                    // Best effort: the next one says more.
                    if let Err(error) = process.call("edit", edit, READY).await {
                        tracing::debug!(channel = self.name, ?error, "how a turn stands could not be shown");
                    }
                }
                shown.message_id
            }
        };
        if progress.is_over {
            self.remember(|memory| memory.shown.remove(progress.message_id.as_str()));
        } else {
            self.show_as(progress, message_id, &text);
        }
    }

    fn show_as(&self, progress: &Progress, message_id: Option<String>, text: &str) {
        let shown = Shown { message_id, text: text.to_owned() };
        self.remember(|memory| memory.show(&progress.message_id, shown));
    }
}

/// Says how a turn stands for the first time; gives the plugin's name for that, if it was said.
async fn said_first(process: &Process, progress: &Progress, text: &str) -> Option<String> {
    let said = envelope::progress(progress, text);
    match envelope::outcome(process.call("send", said, READY).await) {
        Outcome::Delivered { message_id, .. } => message_id,
        Outcome::Failed { .. } => None,
    }
}

/// It is being begun, or begun again: that costs no attempt.
fn not_now() -> Outcome {
    Outcome::failed(Refusal::NotBefore(Duration::from_secs(1)), "the plugin does not run now")
}
