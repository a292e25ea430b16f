//! Requests of Codex as requests on the canvas, which people answer there.

use std::sync::{Mutex, MutexGuard, PoisonError};

use codex_bridge_core::outbox::notice::AboutTask;
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Asked, Attempt, Notice, Outcome};
use codex_bridge_core::request::{Button, RequestName};
use codex_session::Decision;
use serde_json::{Value, json};

use super::super::{ChannelError, Tap};
use super::LIMIT;
use super::api::{self, Api};
use crate::channel::text::{self, Mentions};

/// The `responder_type` of a person.
const PERSON: &str = "user";

/// The open requests on the canvas, as pairs: the platform's id, and our name with the beginning of the digest.
#[derive(Debug, Default)]
pub struct CanvasRequests {
    open: Mutex<Vec<(String, String)>>,
}

/// Whether the server has requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestSupport {
    /// It has.
    Supported,
    /// It has not: people decide with text commands instead.
    Unsupported,
}

impl CanvasRequests {
    fn open(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pairs of all open requests.
    pub fn open_pairs(&self) -> Vec<(String, String)> {
        self.open().clone()
    }

    /// Adds open requests.
    pub fn add(&self, before: Vec<(String, String)>) {
        let mut open = self.open();
        for pair in before {
            if !open.contains(&pair) {
                open.push(pair);
            }
        }
    }

    /// Forgets a request.
    pub fn forget(&self, request_id: &RequestName) {
        self.open().retain(|(_, known)| Button::named(known).request_id != *request_id);
    }

    /// The platform's ids of the open requests of a notice.
    pub fn ids_of(&self, attempt: &Attempt) -> Option<String> {
        let is_of = |known: &String| attempt.notice.requests().iter().any(|asked| asked.name() == *known);
        let ids = self.open_pairs().into_iter().filter(|(_, known)| is_of(known)).map(|(id, _)| id);
        Some(ids.collect::<Vec<_>>().join(",")).filter(|ids| !ids.is_empty())
    }

    /// Whether every request of a notice is on the canvas.
    pub fn has_all(&self, attempt: &Attempt) -> bool {
        let open = self.open_pairs();
        attempt.notice.requests().iter().all(|asked| open.iter().any(|(_, known)| *known == asked.name()))
    }

    /// Shows each request of a notice on the canvas, unless it is there already. The error is the outcome of the delivery.
    pub async fn ask(&self, api: &Api, attempt: &Attempt) -> Result<RequestSupport, Outcome> {
        if self.has_all(attempt) {
            return Ok(RequestSupport::Supported);
        }
        let adopted = self.adopt(api, attempt).await.map_err(|error| {
            let refusal = match error {
                ChannelError::Retry { after: Some(after), .. } => Refusal::NotBefore(after),
                _ => Refusal::Later,
            };
            Outcome::failed(refusal, error.reason())
        })?;
        if adopted == RequestSupport::Unsupported {
            return Ok(RequestSupport::Unsupported);
        }
        for asked in attempt.notice.requests() {
            if self.open_pairs().iter().any(|(_, known)| *known == asked.name()) {
                continue;
            }
            let title = &asked.ask.title;
            let body = json!({
                "kind": "approval", "recipient_type": "user",
                "title": format!("{title} [{}]", asked.name()),
                "detail": text::chat(&only_request(attempt, asked), attempt.may_be_duplicate, LIMIT, Mentions::None),
            });
            let reply = api.post(&api.of_workspace("requests"), &body).await?;
            match reply.body["request_id"].as_str() {
                Some(id) if reply.is_success() => self.add(vec![(id.to_owned(), asked.name())]),
                _ if reply.status == 404 => return Ok(RequestSupport::Unsupported),
                // The platform accepted the request, but its id is missing: the retry looks for it.
                _ if reply.is_success() => {
                    return Err(Outcome::in_doubt("the platform's answer has no request_id"));
                }
                _ => return Err(api::refusal(&reply)),
            }
        }
        Ok(RequestSupport::Supported)
    }

    /// Adopts requests that are on the canvas already under these names, answered or not: an earlier daemon may have created
    /// them before it died. An unreadable list is an error, not an empty list.
    pub async fn adopt(&self, api: &Api, attempt: &Attempt) -> Result<RequestSupport, ChannelError> {
        let listed = api.get(&api.of_workspace("requests")).await?;
        let rows = match listed.body.as_array() {
            Some(rows) if listed.is_success() => rows.as_slice(),
            _ if listed.status == 404 => return Ok(RequestSupport::Unsupported),
            _ => return Err(api::retry_later(&listed)),
        };
        let is_wanted = |known: &str| attempt.notice.requests().iter().any(|asked| asked.name() == known);
        let found = rows.iter().filter(|row| row["status"] != "cancelled").filter_map(our_request);
        // The list begins with the newest. The oldest of a name counts: the name contains the digest of the request, so
        // nobody can have used it before us, and later requests with the same name are not ours.
        for (id, ours) in found.rev().filter(|(_, ours)| is_wanted(ours)) {
            if !self.open_pairs().iter().any(|(_, known)| *known == ours) {
                self.add(vec![(id, ours)]);
            }
        }
        Ok(RequestSupport::Supported)
    }

    /// The decisions that people made on the canvas.
    pub async fn answered(&self, api: &Api) -> Vec<Tap> {
        let open = self.open_pairs();
        if open.is_empty() {
            return Vec::new();
        }
        // One call for all: the list has the newest fifty requests.
        let Ok(listed) = api.get(&api.of_workspace("requests")).await else { return Vec::new() };
        let rows = listed.body.as_array().map(Vec::as_slice).unwrap_or_default();
        let mut taps = Vec::new();
        for (id, ours) in open {
            let button = Button::named(&ours);
            let row = match rows.iter().find(|row| row["id"] == id.as_str()) {
                Some(row) => row.clone(),
                None => match api.get(&api.of_workspace(&format!("requests/{id}"))).await {
                    Ok(reply) => reply.body["request"].clone(),
                    Err(_) => break,
                },
            };
            let decision = match row["status"].as_str() {
                Some("approved") if row["responder_type"] == PERSON => Decision::Accept,
                Some("rejected") => Decision::Decline,
                // An approval by an agent does not count. Nobody can answer there any more; other doors still can.
                Some("approved" | "cancelled") => {
                    self.forget(&button.request_id);
                    continue;
                }
                _ => continue,
            };
            // Returned once. The stored cursor keeps the request until the decision is stored.
            self.forget(&button.request_id);
            taps.push(Tap {
                id: id.clone(),
                conversation: "canvas".into(),
                sender_id: "canvas".to_owned(),
                button,
                choice: decision.into(),
                message_id: Some(id),
            });
        }
        taps
    }

    /// Cancels the request on the canvas.
    pub async fn close(&self, api: &Api, request_id: &RequestName) {
        let closed: Vec<_> = self
            .open_pairs()
            .into_iter()
            .filter(|(_, known)| Button::named(known).request_id == *request_id)
            .collect();
        self.forget(request_id);
        for (id, _) in closed {
            // Not retried: a later answer on the canvas is refused as too late.
            let cancelled = api.post(&api.of_workspace(&format!("requests/{id}/cancel")), &json!({})).await;
            if let Err(error) = cancelled {
                let request = request_id.as_str();
                tracing::warn!(request, %error, "a request that is no longer open stays on the canvas");
            }
        }
    }
}

/// Splits an attempt into requests for the canvas, and the rest as text. Questions need an answer in words, and a request
/// that cannot be shown completely must not be approved with a click.
pub fn split_decidable(attempt: &Attempt) -> (Attempt, Option<Attempt>) {
    let is_decidable = |asked: &&Asked| {
        !asked.is_question() && text::is_whole(&only_request(attempt, asked), LIMIT, Mentions::None)
    };
    let (decidable, rest): (Vec<_>, Vec<_>) = attempt.notice.requests().iter().partition(is_decidable);
    let has_text = decidable.is_empty() || !rest.is_empty();
    let of = |requests: Vec<&Asked>| Attempt {
        notice: attempt.notice.asking(requests.into_iter().cloned().collect()),
        ..attempt.clone()
    };
    (of(decidable), has_text.then(|| of(rest)))
}

/// The text of an attempt. Below a request that was cut there is a note on how to decide it.
pub fn message_text(attempt: &Attempt) -> String {
    let text = text::chat(&attempt.notice, attempt.may_be_duplicate, LIMIT, Mentions::None);
    let is_cut = !text::is_whole(&attempt.notice, LIMIT, Mentions::None);
    let cut = attempt.notice.requests().iter().filter(|asked| is_cut && !asked.is_question());
    let Some(AboutTask { id, .. }) = attempt.notice.task() else { return text };
    let id = id.short();
    let note = |request: &str| {
        format!(
            "{request} is too long to be shown here, and cannot be approved here. `codex-bridge requests {id}` shows \
             all of it, `codex-bridge approve {id} {request}` approves it; /deny {request} denies it."
        )
    };
    let notes: Vec<String> = cut.map(|asked| note(asked.request_id.short())).collect();
    if notes.is_empty() { text } else { text::with_note(&text, &notes.join("\n"), LIMIT) }
}

/// The ids of the requests of an attempt.
pub fn ids(attempt: &Attempt) -> Vec<RequestName> {
    attempt.notice.requests().iter().map(|asked| asked.request_id.clone()).collect()
}

/// The requests that the text shows completely.
pub fn requests_in_text(attempt: &Attempt) -> Vec<RequestName> {
    if text::is_whole(&attempt.notice, LIMIT, Mentions::None) { ids(attempt) } else { Vec::new() }
}

fn only_request(attempt: &Attempt, asked: &Asked) -> Notice {
    attempt.notice.asking(vec![asked.clone()])
}

/// The platform's id of a request and our name, which is at the end of the title.
fn our_request(row: &Value) -> Option<(String, String)> {
    let (_, mark) = row["title"].as_str()?.rsplit_once('[')?;
    let name = mark.strip_suffix(']').filter(|id| id.starts_with("req-"))?;
    Some((row["id"].as_str()?.to_owned(), name.to_owned()))
}
