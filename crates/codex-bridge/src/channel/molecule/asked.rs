//! What Codex asks, as requests of the platform: people answer them on the canvas.

use std::sync::{Mutex, MutexGuard, PoisonError};

use codex_bridge_core::outbox::notice::AboutTask;
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Asked as Request, Attempt, Notice, Outcome};
use codex_bridge_core::request::Button;
use codex_bridge_core::request::RequestName;
use codex_session::Decision;
use serde_json::{Value, json};

use super::super::{Tap, Trouble};
use super::LIMIT;
use super::api::{self, Api, said};
use crate::channel::text;

/// What the platform says of a person who answered a request.
const PERSON: &str = "user";

/// The requests of the platform that are open: its name for each, and ours with the beginning of the digest of what it
/// shows.
#[derive(Debug, Default)]
pub struct Asked {
    open: Mutex<Vec<(String, String)>>,
}

/// What came of putting requests before people.
#[derive(Debug, PartialEq, Eq)]
pub enum Put {
    /// They see all of them.
    All,
    /// The platform has no requests: people decide by words instead.
    NoWay,
    /// This went wrong.
    Failed(Outcome),
}

/// Whether the platform has requests, which can be taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Adopted {
    /// What stood there is taken over.
    Those,
    /// It has none.
    NoWay,
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
    pub fn forget(&self, request_id: &RequestName) {
        self.open().retain(|(_, known)| Button::named(known).request_id != *request_id);
    }

    /// The platform's names for the requests of a notice, as far as they are open there.
    pub fn ids_of(&self, attempt: &Attempt) -> Option<String> {
        let is_of = |known: &String| attempt.notice.requests().iter().any(|one| one.name() == *known);
        let ids = self.all().into_iter().filter(|(_, known)| is_of(known)).map(|(id, _)| id);
        Some(ids.collect::<Vec<_>>().join(",")).filter(|ids| !ids.is_empty())
    }

    /// Whether people see every request of a notice.
    pub fn has_all(&self, attempt: &Attempt) -> bool {
        let open = self.all();
        attempt.notice.requests().iter().all(|asked| open.iter().any(|(_, known)| *known == asked.name()))
    }

    /// Puts each request of a notice before people; one that they see already is left as it is.
    pub async fn ask(&self, api: &Api, attempt: &Attempt) -> Put {
        if self.has_all(attempt) {
            return Put::All;
        }
        match self.adopt(api, attempt).await {
            Ok(Adopted::Those) => {}
            Ok(Adopted::NoWay) => return Put::NoWay,
            Err(trouble) => {
                let refusal = match trouble {
                    Trouble::Again { after: Some(after), .. } => Refusal::NotBefore(after),
                    _ => Refusal::Later,
                };
                return Put::Failed(Outcome::failed(refusal, trouble.sentence()));
            }
        }
        for asked in attempt.notice.requests() {
            if self.all().iter().any(|(_, known)| *known == asked.name()) {
                continue;
            }
            let title = &asked.ask.title;
            let body = json!({
                "kind": "approval", "recipient_type": "user",
                "title": format!("{title} [{}]", asked.name()),
                "detail": text::chat(&alone(attempt, asked), attempt.may_be_duplicate, LIMIT),
            });
            let reply = match api.post(&api.of_workspace("requests"), &body).await {
                Ok(reply) => reply,
                Err(error) => return Put::Failed(error.into()),
            };
            match reply.body["request_id"].as_str() {
                Some(id) if reply.is_success() => {
                    self.know(vec![(id.to_owned(), asked.name())]);
                }
                _ if reply.status == 404 => return Put::NoWay,
                _ if matches!(reply.status, 400 | 403) => {
                    let why = format!("it answered {}: {}", reply.status, said(&reply));
                    return Put::Failed(Outcome::failed(Refusal::Never, why));
                }
                // It was taken, and its name was lost on the way: it is looked for.
                _ if reply.is_success() => {
                    return Put::Failed(Outcome::in_doubt("its answer cannot be read"));
                }
                _ => return Put::Failed(reply.refusal()),
            }
        }
        Put::All
    }

    /// Takes over what stands on the platform already under the names of these requests, answered or not: we may have put it
    /// there without living to note it. A list that cannot be read says nothing of what stands there.
    pub async fn adopt(&self, api: &Api, attempt: &Attempt) -> Result<Adopted, Trouble> {
        let listed = api.get(&api.of_workspace("requests")).await.map_err(|error| api::trouble(&error))?;
        let rows = match listed.body.as_array() {
            Some(rows) if listed.is_success() => rows.as_slice(),
            _ if listed.status == 404 => return Ok(Adopted::NoWay),
            _ => return Err(api::later(&listed)),
        };
        let is_wanted = |known: &str| attempt.notice.requests().iter().any(|one| one.name() == known);
        let found = rows.iter().filter(|row| row["status"] != "cancelled").filter_map(ours);
        // The newest come first. The oldest counts: a name has the digest of its request in it, so nobody can have written
        // it before us, and what others write under it later is not ours.
        for (id, ours) in found.rev().filter(|(_, ours)| is_wanted(ours)) {
            if !self.all().iter().any(|(_, known)| *known == ours) {
                self.know(vec![(id, ours)]);
            }
        }
        Ok(Adopted::Those)
    }

    /// What people decided since.
    pub async fn answered(&self, api: &Api) -> Vec<Tap> {
        let open = self.all();
        if open.is_empty() {
            return Vec::new();
        }
        // One question for all of them: the newest fifty, which are all that people can keep in sight.
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
                // A yes of an agent's is none, and nobody can answer there any more: it stays open for other doors.
                Some("approved" | "cancelled") => {
                    self.forget(&button.request_id);
                    continue;
                }
                _ => continue,
            };
            // It is brought once: what is written down knows it until the decision is, too.
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

    /// Nobody needs to answer any more.
    pub async fn close(&self, api: &Api, request_id: &RequestName) {
        let closed: Vec<_> = self
            .all()
            .into_iter()
            .filter(|(_, known)| Button::named(known).request_id == *request_id)
            .collect();
        self.forget(request_id);
        for (id, _) in closed {
            // Best effort: whoever answers it all the same is told that it was too late.
            let cancelled = api.post(&api.of_workspace(&format!("requests/{id}/cancel")), &json!({})).await;
            if let Err(error) = cancelled {
                let request = request_id.as_str();
                tracing::warn!(request, %error, "a request that is no longer open stays on the canvas");
            }
        }
    }
}

/// What of an attempt people decide on with a click, and what has to be said in words: questions need words for an answer,
/// and nobody is offered to agree to what they are not shown.
pub fn parted(attempt: &Attempt) -> (Attempt, Option<Attempt>) {
    let is_decidable =
        |asked: &&Request| !asked.is_question() && text::is_whole(&alone(attempt, asked), LIMIT);
    let (decidable, rest): (Vec<_>, Vec<_>) = attempt.notice.requests().iter().partition(is_decidable);
    let is_said = decidable.is_empty() || !rest.is_empty();
    let of = |requests: Vec<&Request>| Attempt {
        notice: attempt.notice.asking(requests.into_iter().cloned().collect()),
        ..attempt.clone()
    };
    (of(decidable), is_said.then(|| of(rest)))
}

/// What an attempt says in words. Below what could not be shown whole stands how it is denied.
pub fn words(attempt: &Attempt) -> String {
    let said = text::chat(&attempt.notice, attempt.may_be_duplicate, LIMIT);
    let is_cut = !text::is_whole(&attempt.notice, LIMIT);
    let cut = attempt.notice.requests().iter().filter(|asked| is_cut && !asked.is_question());
    let Some(AboutTask { id, .. }) = attempt.notice.task() else { return said };
    let id = id.short();
    let note = |request: &str| {
        format!(
            "{request} is too long to be shown here, and is not to be approved here. `codex-bridge requests {id}` shows \
             all of it, `codex-bridge approve {id} {request}` approves it; /deny {request} denies it."
        )
    };
    let notes: Vec<String> = cut.map(|asked| note(asked.request_id.short())).collect();
    if notes.is_empty() { said } else { text::appended(&said, &notes.join("\n"), LIMIT) }
}

/// The requests of an attempt.
pub fn ids(attempt: &Attempt) -> Vec<RequestName> {
    attempt.notice.requests().iter().map(|asked| asked.request_id.clone()).collect()
}

/// Those that its words show whole.
pub fn shown_in_words(attempt: &Attempt) -> Vec<RequestName> {
    if text::is_whole(&attempt.notice, LIMIT) { ids(attempt) } else { Vec::new() }
}

/// A notice that asks for this alone.
fn alone(attempt: &Attempt, asked: &Request) -> Notice {
    attempt.notice.asking(vec![asked.clone()])
}

/// The platform's name for a request and ours, which its title ends with.
fn ours(row: &Value) -> Option<(String, String)> {
    let (_, mark) = row["title"].as_str()?.rsplit_once('[')?;
    let name = mark.strip_suffix(']').filter(|id| id.starts_with("req-"))?;
    Some((row["id"].as_str()?.to_owned(), name.to_owned()))
}
