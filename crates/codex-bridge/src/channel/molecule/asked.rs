//! What Codex asks, as requests of the platform: people answer them on the canvas.

use std::sync::{Mutex, MutexGuard, PoisonError};

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use codex_session::Decision;
use serde_json::json;

use super::super::Tap;
use super::LIMIT;
use super::api::{Api, said};
use crate::deliver::text;

/// The requests of the platform that are open: its name for each, and ours.
#[derive(Debug, Default)]
pub struct Asked {
    open: Mutex<Vec<(String, String)>>,
}

impl Asked {
    fn open(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are open.
    pub fn all(&self) -> Vec<(String, String)> {
        self.open().clone()
    }

    /// These are open since before.
    pub fn know(&self, before: Vec<(String, String)>) {
        let mut open = self.open();
        for pair in before {
            if !open.contains(&pair) {
                open.push(pair);
            }
        }
    }

    /// It is answered.
    pub fn forget(&self, request_id: &str) {
        self.open().retain(|(_, known)| known != request_id);
    }

    /// Puts each request of a notice before people; one that they see already is left as it is.
    pub async fn ask(&self, api: &Api, attempt: &Attempt) -> Outcome {
        let mut ids = Vec::new();
        for asked in &attempt.notice.requests {
            let known = self.all().into_iter().find(|(_, request_id)| *request_id == asked.request_id);
            if let Some((id, _)) = known {
                ids.push(id);
                continue;
            }
            let mut notice = attempt.notice.clone();
            notice.requests = vec![asked.clone()];
            let title = asked.ask["title"].as_str().unwrap_or("Codex asks");
            let body = json!({
                "kind": "approval", "recipient_type": "user",
                "title": format!("{title} [{}]", asked.request_id),
                "detail": text::chat(&notice, attempt.may_be_duplicate, LIMIT),
            });
            let reply = match api.post(&api.of_workspace("requests"), &body).await {
                Ok(reply) => reply,
                Err(outcome) => return outcome,
            };
            match reply.body["request_id"].as_str() {
                Some(id) if reply.is_success() => {
                    self.open().push((id.to_owned(), asked.request_id.clone()));
                    ids.push(id.to_owned());
                }
                // A platform without requests: people decide by words instead.
                _ if reply.status == 404 => {
                    return api.notify(&text::chat(&attempt.notice, attempt.may_be_duplicate, LIMIT)).await;
                }
                _ if matches!(reply.status, 400 | 403) => {
                    return Outcome::failed(
                        Refusal::Never,
                        format!("it answered {}: {}", reply.status, said(&reply)),
                    );
                }
                _ => return reply.refusal(),
            }
        }
        Outcome::Delivered { message_id: Some(ids.join(",")) }
    }

    /// What people decided since.
    pub async fn answered(&self, api: &Api) -> Vec<Tap> {
        let mut taps = Vec::new();
        for (id, request_id) in self.all() {
            let Ok(reply) = api.get(&api.of_workspace(&format!("requests/{id}"))).await else { break };
            let decision = match reply.body["status"].as_str() {
                Some("approved") => Decision::Accept,
                Some("rejected") => Decision::Decline,
                Some("cancelled") => {
                    self.forget(&request_id);
                    continue;
                }
                _ => continue,
            };
            taps.push(Tap {
                id: id.clone(),
                conversation: "canvas".to_owned(),
                sender_id: "canvas".to_owned(),
                request_id,
                decision,
                message_id: Some(id),
            });
        }
        taps
    }

    /// Nobody needs to answer any more.
    pub async fn close(&self, api: &Api, request_id: &str) {
        let closed: Vec<_> = self.all().into_iter().filter(|(_, known)| known == request_id).collect();
        self.forget(request_id);
        for (id, _) in closed {
            // Best effort: whoever answers it all the same is told that it was too late.
            let _ = api.post(&api.of_workspace(&format!("requests/{id}/cancel")), &json!({})).await;
        }
    }
}
