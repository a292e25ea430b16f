//! Sends and edits messages through a plugin.

use std::time::Duration;

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use codex_bridge_core::request::RequestName;
use redact::plain::readable;
use serde_json::json;

use super::memory::{ProgressMessage, RequestMessage};
use super::process::Process;
use super::{Plugin, READY_TIMEOUT, envelope};
use crate::channel::text::{self, Mentions};
use crate::channel::{Progress, recent};

/// How long a plugin may take to send a message.
const SEND_TIMEOUT: Duration = Duration::from_secs(40);

impl Plugin {
    /// Adds the outcome of a request to its messages, and removes its buttons.
    pub(super) async fn close(&self, request_id: &RequestName, note: &str) {
        let all = self.state().memory.request_messages.clone();
        for mut asking in all.into_iter().filter(|asking| asking.requests.contains(request_id)) {
            asking.requests.retain(|id| id != request_id);
            asking.actions.retain(|action| {
                action["id"].as_str().and_then(envelope::request_of).as_ref() != Some(request_id)
            });
            if let Some((process, capabilities)) =
                self.running().filter(|(_, capabilities)| capabilities.edit)
            {
                asking.text = inert(&text::with_note(&asking.text, note, capabilities.limit()));
                let edit = json!({ "message_id": asking.message_id, "text": asking.text, "actions": asking.actions });
                // Not retried: a tap on a remaining button gets the outcome as its answer.
                if let Err(error) = process.call("edit", edit, READY_TIMEOUT).await {
                    let request = request_id.as_str();
                    tracing::warn!(
                        channel = self.name,
                        request,
                        ?error,
                        "the message of a closed request could not be edited"
                    );
                }
            }
            self.remember(|memory| {
                memory.request_messages.retain(|one| one.message_id != asking.message_id);
                if !asking.requests.is_empty() {
                    recent::push(&mut memory.request_messages, asking);
                }
            });
        }
    }

    pub(super) async fn say(&self, place: &str, attempt: &Attempt) -> Outcome {
        let Some((process, capabilities)) = self.running() else { return not_running() };
        if !capabilities.send {
            return Outcome::failed(Refusal::Never, "the plugin cannot send: it only receives");
        }
        let params = envelope::send(place, attempt, &capabilities);
        let mut outcome = envelope::outcome(process.call("send", params.clone(), SEND_TIMEOUT).await);
        if let Outcome::Delivered { shown, .. } = &mut outcome
            && text::is_whole(&attempt.notice, capabilities.limit(), Mentions::Relayed)
        {
            shown.extend(attempt.notice.requests().iter().map(|asked| asked.request_id.clone()));
        }
        if let Outcome::Delivered { message_id: Some(message_id), .. } = &outcome
            && !attempt.notice.requests().is_empty()
        {
            let message = RequestMessage {
                message_id: message_id.clone(),
                text: params["text"].as_str().unwrap_or_default().to_owned(),
                requests: attempt.notice.requests().iter().map(|asked| asked.request_id.clone()).collect(),
                actions: params["actions"].as_array().cloned().unwrap_or_default(),
            };
            self.remember(|memory| recent::push(&mut memory.request_messages, message));
        }
        outcome
    }

    /// Shows a turn: as typing, and in one message that is sent once, edited when the text changes, and forgotten at the end.
    pub(super) async fn show_progress(&self, progress: &Progress) {
        let Some((process, capabilities)) = self.running() else { return };
        if capabilities.typing && !progress.is_finished {
            process.notify("typing", &json!({ "target": progress.place }));
        }
        let text = inert(&text::with_note("", &readable(&progress.text), capabilities.limit()));
        let known = self.state().memory.progress_messages.get(progress.message_id.as_str()).cloned();
        let message_id = match known {
            None if progress.is_finished => return,
            None => {
                // Stored before sending, so that there is never a second message for the turn.
                self.remember_progress(progress, None, &text);
                if capabilities.shows_turns() { send_progress(&process, progress, &text).await } else { None }
            }
            Some(shown) => {
                if let Some(message_id) = shown.message_id.as_ref().filter(|_| shown.text != text) {
                    let edit = json!({ "message_id": message_id, "text": text, "actions": [] });
                    // Not retried: the next update replaces it.
                    if let Err(error) = process.call("edit", edit, READY_TIMEOUT).await {
                        tracing::debug!(
                            channel = self.name,
                            ?error,
                            "the progress of a turn could not be shown"
                        );
                    }
                }
                shown.message_id
            }
        };
        if progress.is_finished {
            self.remember(|memory| memory.progress_messages.remove(progress.message_id.as_str()));
        } else {
            self.remember_progress(progress, message_id, &text);
        }
    }

    fn remember_progress(&self, progress: &Progress, message_id: Option<String>, text: &str) {
        let shown = ProgressMessage { message_id, text: text.to_owned() };
        self.remember(|memory| memory.progress_messages.insert(progress.message_id.as_str(), shown));
    }
}

/// A text with nothing in it that the plugin's platform may act on.
fn inert(text: &str) -> String {
    Mentions::Relayed.made_inert(text)
}

/// Sends the progress message of a turn; returns the plugin's id of it.
async fn send_progress(process: &Process, progress: &Progress, text: &str) -> Option<String> {
    let params = envelope::progress(progress, text);
    match envelope::outcome(process.call("send", params, READY_TIMEOUT).await) {
        Outcome::Delivered { message_id, .. } => message_id,
        Outcome::Failed { .. } => None,
    }
}

/// The plugin is being started or restarted, which costs no attempt.
fn not_running() -> Outcome {
    Outcome::failed(Refusal::NotBefore(Duration::from_secs(1)), "the plugin does not run now")
}
