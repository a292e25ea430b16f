//! A workspace of the Molecule platform: people on the canvas, and other agents.
//!
//! The activity log is polled every few seconds; the platform has no long poll. Our position in the log is stored with the
//! messages. The platform's own mark (`activity/ack`) moves only over answered messages. A reply on the canvas has no key
//! but leaves a row in the log, so a retry looks for that row first; a reply to an agent has a key. A request of Codex
//! becomes a request on the canvas, which a person answers there.

mod api;
mod history;
mod requests;
mod row;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use codex_bridge_core::chats::Verdict;
use codex_bridge_core::inbox::{Allowed, Message};
use codex_bridge_core::outbox::sender::{LOOK_BACK_MS, Seen};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::{Button, RequestName, RequestRecord};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::secret::{Env, Secret, reveal_all};
use super::settings::{OpenedChannel, Opening};
use super::text::{self, Limit, Mentions};
use super::{Activity, Batch, Buttons, Channel, ChannelError, Platform, Receiving, Reports, Stored, Tap};

use api::Api;
use requests::{CanvasRequests, RequestSupport};
use row::Row;

/// The default `allow`. Nobody may decide requests unless the operator names them.
const ALLOWED: [&str; 2] = ["canvas", "peer:*"];
/// The environment variables that are read for absent settings.
pub const VARIABLES: [&str; 7] = [
    "WORKSPACE_ID",
    "PLATFORM_URL",
    "MOLECULE_WORKSPACE_ID",
    "MOLECULE_PLATFORM_URL",
    "MOLECULE_WORKSPACE_TOKEN",
    "MOLECULE_ORG_ID",
    "MOLECULE_AGENT_NAME",
];
/// The platform has no limit; nobody reads more than this.
const LIMIT: Limit = Limit::Chars(60_000);
/// The default pause between polls.
const POLL_MS: u64 = 5_000;
/// The pause between heartbeats. Older servers drop an agent after a minute without one.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// The pause before a heartbeat that tells of a change.
const HEARTBEAT_MIN_PAUSE: Duration = Duration::from_secs(2);
/// The channel stops after this many refused heartbeats in a row.
const REFUSALS: u32 = 3;

/// The settings of a Molecule workspace. Absent ones come from the environment, as the platform sets it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The workspace; by default `WORKSPACE_ID` or `MOLECULE_WORKSPACE_ID`.
    pub workspace_id: Option<String>,
    /// The platform's address; by default `PLATFORM_URL` or `MOLECULE_PLATFORM_URL`.
    pub url: Option<String>,
    /// The workspace's token; by default `MOLECULE_WORKSPACE_TOKEN`.
    pub token: Option<Secret>,
    /// The name of our agent on the platform.
    pub agent_name: Option<String>,
    /// The pause between polls.
    pub poll_ms: Option<u64>,
    /// The agents (`peer:ID`) that callers may name, besides those in `allow`. Replies need no entry: they go where their
    /// message came from.
    pub places: Vec<String>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        opening.receives(
            Arc::new(Molecule::new(opening.name, self, &opening.common.allow, opening.context.env)?),
            &ALLOWED,
        )
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        reveal_all([&self.token], env)
    }
}

/// A Molecule workspace.
pub struct Molecule {
    name: String,
    api: Api,
    agent_name: String,
    poll: Duration,
    /// The places that callers may name.
    places: Vec<String>,
    started_at: Instant,
    /// Whether the last poll brought nothing.
    was_empty: AtomicBool,
    /// The open requests on the canvas.
    requests: CanvasRequests,
    /// Whether the server is too old for `activity/ack`.
    ack_unsupported: AtomicBool,
    refusals: AtomicU32,
}

/// The stored position in the log and the open requests; the field names are fixed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Cursor {
    since_id: Option<String>,
    /// When that row was written. If the platform has deleted the row, reading starts at this time.
    at: Option<i64>,
    asked: Vec<(String, String)>,
}

impl Cursor {
    fn of(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

impl Molecule {
    /// Builds the channel from its settings. The error says what the operator has to correct.
    pub fn new(name: &str, settings: &Settings, allow: &[String], env: Env<'_>) -> Result<Self, String> {
        let either = |set: &Option<String>, names: [&str; 2]| {
            let set = set.clone().or_else(|| names.into_iter().find_map(env));
            set.map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
                .ok_or(format!("set {} or {}", names[0], names[1]))
        };
        let workspace = either(&settings.workspace_id, ["WORKSPACE_ID", "MOLECULE_WORKSPACE_ID"])?;
        let is_plain = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit() || char == '-';
        if workspace.len() > 128 || !workspace.chars().all(is_plain) {
            return Err(format!("{workspace:?} is not a workspace id"));
        }
        let url = either(&settings.url, ["PLATFORM_URL", "MOLECULE_PLATFORM_URL"])?;
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("the platform's url must begin with http:// or https://".to_owned());
        }
        let token = Secret::or_variable(settings.token.as_ref(), "MOLECULE_WORKSPACE_TOKEN").reveal(env)?;
        let named = settings.agent_name.clone().or_else(|| env("MOLECULE_AGENT_NAME"));
        Ok(Self {
            name: name.to_owned(),
            api: Api::new(&url, &workspace, token, env("MOLECULE_ORG_ID")),
            agent_name: named.unwrap_or_else(|| "codex-bridge".to_owned()),
            poll: Duration::from_millis(settings.poll_ms.unwrap_or(POLL_MS)),
            places: places(settings, allow)?,
            started_at: Instant::now(),
            was_empty: AtomicBool::new(false),
            requests: CanvasRequests::default(),
            ack_unsupported: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
        })
    }

    async fn register(&self) -> Result<String, ChannelError> {
        let body = json!({
            "id": self.api.workspace(), "url": "", "delivery_mode": "poll",
            "agent_card": {
                "name": self.agent_name,
                "description": "Codex, under codex-bridge",
                "skills": [{ "name": "code" }],
            },
        });
        let reply = self.api.post("/registry/register", &body).await?;
        match reply.status {
            200..300 => Ok(format!("workspace {} is served as {}", self.api.workspace(), self.agent_name)),
            401 | 403 => Err(self.refused(reply.status)),
            429 | 500.. => Err(api::retry_later(&reply)),
            // Messages may arrive nevertheless.
            status => Ok(format!(
                "workspace {} is served; the platform answered {status} to its registration",
                self.api.workspace()
            )),
        }
    }

    fn refused(&self, status: u16) -> ChannelError {
        ChannelError::Fatal(format!(
            "Molecule refuses the token of workspace {} ({status}): make a new one on the canvas and set \
             MOLECULE_WORKSPACE_TOKEN, or check that the workspace still exists",
            self.api.workspace()
        ))
    }

    async fn read(&self, before: Option<String>) -> Result<Batch, ChannelError> {
        let mut cursor = Cursor::of(before.as_deref());
        let rows = history::read(self, &cursor).await?;
        if let Some(last) = rows.last() {
            (cursor.since_id, cursor.at) = (Some(last.id.clone()), Some(last.at()));
        }
        let arrivals = rows.iter().filter_map(|row| row.arrival(&self.name, self.api.workspace())).collect();
        let taps = self.requests.answered(&self.api).await;
        cursor.asked = self.requests.open_pairs();
        let text = serde_json::to_string(&cursor).ok();
        let is_new = text != before;
        Ok(Batch { arrivals, taps, cursor: text.filter(|_| is_new), ..Batch::default() })
    }

    async fn heartbeat(&self, activity: &Activity) -> Result<(), ChannelError> {
        let body = json!({
            "workspace_id": self.api.workspace(), "error_rate": 0.0, "sample_error": "",
            "active_tasks": activity.running, "current_task": activity.summary,
            "uptime_seconds": self.started_at.elapsed().as_secs(), "is_busy": activity.running > 0,
        });
        let Ok(reply) = self.api.post("/registry/heartbeat", &body).await else { return Ok(()) };
        if !matches!(reply.status, 401 | 403) {
            self.refusals.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let count = self.refusals.fetch_add(1, Ordering::Relaxed) + 1;
        if count < REFUSALS { Ok(()) } else { Err(self.refused(reply.status)) }
    }

    async fn send_to_canvas(&self, attempt: &Attempt) -> Outcome {
        let (decidable, rest) = requests::split_decidable(attempt);
        let mut shown = match self.requests.ask(&self.api, &decidable).await {
            Ok(RequestSupport::Supported) => requests::ids(&decidable),
            Ok(RequestSupport::Unsupported) => return self.send_as_text(attempt).await,
            Err(failed) => return failed,
        };
        let Some(rest) = rest else {
            return Outcome::Delivered { message_id: self.requests.ids_of(&decidable), shown };
        };
        let mut outcome = self.send_as_text(&rest).await;
        if let Outcome::Delivered { shown: in_words, .. } = &mut outcome {
            in_words.append(&mut shown);
        }
        outcome
    }

    async fn send_as_text(&self, attempt: &Attempt) -> Outcome {
        let mut outcome = self.api.notify(&requests::message_text(attempt)).await;
        if let Outcome::Delivered { shown, .. } = &mut outcome {
            *shown = requests::requests_in_text(attempt);
        }
        outcome
    }

    async fn send_to_agent(&self, peer: &str, attempt: &Attempt) -> Outcome {
        let body = json!({
            "target_id": peer, "task": text::chat(&attempt.notice, attempt.may_be_duplicate, LIMIT, Mentions::None), "idempotency_key": attempt.key,
        });
        match self.api.post(&self.api.of_workspace("delegate"), &body).await {
            Ok(reply) if reply.is_success() => {
                let id = reply.body["delegation_id"].as_str().map(str::to_owned);
                Outcome::delivered(id)
            }
            Ok(reply) => api::refusal(&reply),
            Err(error) => error.into(),
        }
    }

    /// Whether all of an attempt was delivered: its decidable requests on the canvas, and the rest as text.
    async fn find_delivered(&self, attempt: &Attempt) -> Result<Seen, String> {
        let (decidable, rest) = requests::split_decidable(attempt);
        if !decidable.notice.requests().is_empty() {
            let adopted = self.requests.adopt(&self.api, &decidable).await;
            let adopted = adopted
                .map_err(|error| format!("the delivery could not be looked up: {}", error.reason()))?;
            if adopted == RequestSupport::Unsupported {
                return self.find_text_row(attempt).await;
            }
        }
        let message_id = self.requests.ids_of(&decidable);
        let mut ids = requests::ids(&decidable);
        Ok(match rest {
            _ if !self.requests.has_all(&decidable) => Seen::No,
            None => Seen::Yes { message_id, shown: ids },
            Some(rest) => {
                let mut written = self.find_text_row(&rest).await?;
                if let Seen::Yes { shown, .. } = &mut written {
                    shown.append(&mut ids);
                }
                written
            }
        })
    }

    /// Whether the log has more rows with this text than our other deliveries account for.
    async fn find_text_row(&self, attempt: &Attempt) -> Result<Seen, String> {
        let text = requests::message_text(attempt);
        let mut same: Vec<Row> = Vec::new();
        let looked = history::read_back(self, LOOK_BACK_MS.unsigned_abs() / 1000, |rows| {
            same.extend(rows.iter().filter(|row| row.is_notice_of(&text)).cloned());
        });
        looked.await.map_err(|error| format!("the delivery could not be looked up: {}", error.reason()))?;
        same.sort_by(|row, other| row.id.cmp(&other.id));
        same.dedup_by(|row, other| row.id == other.id);
        same.sort_by_key(Row::at);
        Ok(match same.last() {
            Some(last) if same.len() > attempt.twins => {
                Seen::Yes { message_id: Some(last.id.clone()), shown: requests::requests_in_text(attempt) }
            }
            _ => Seen::No,
        })
    }
}

impl Channel for Molecule {
    fn places(&self) -> Vec<String> {
        self.places.clone()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        if self.places.iter().any(|known| known == place) {
            return Ok(());
        }
        if !is_place(place) {
            return Err(PLACE_HINT.to_owned());
        }
        let name = &self.name;
        Err(format!("callers may not name that agent: add {place:?} to `places` of channel {name}"))
    }

    fn reaches(&self, place: &str) -> bool {
        is_place(place)
    }

    fn repeats(&self, place: &str) -> Repeats {
        if place == "canvas" { Repeats::LookFirst } else { Repeats::Idempotent { within: None } }
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        match place.strip_prefix("peer:") {
            Some(peer) => self.send_to_agent(peer, attempt).boxed(),
            None => self.send_to_canvas(attempt).boxed(),
        }
    }

    fn look<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Seen, String>> {
        self.find_delivered(attempt).boxed()
    }
}

impl Receiving for Molecule {
    fn says_receipts(&self) -> bool {
        true
    }

    fn identity(&self) -> String {
        format!("Molecule workspace {} at {}", self.api.workspace(), self.api.base())
    }

    fn start(&self, stored: Stored) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.requests.add(Cursor::of(stored.cursor.as_deref()).asked);
        self.was_empty.store(false, Ordering::Relaxed);
        self.register().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        async move {
            history::page(self, "since_secs=1&limit=1").await?;
            Ok(format!("workspace {} can be read; nothing was changed", self.api.workspace()))
        }
        .boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, ChannelError>> {
        async move {
            if self.was_empty.load(Ordering::Relaxed) {
                tokio::time::sleep(self.poll).await;
            }
            let batch = self.read(cursor).await?;
            self.was_empty.store(batch.arrivals.is_empty() && batch.taps.is_empty(), Ordering::Relaxed);
            Ok(batch)
        }
        .boxed()
    }

    fn buttons(&self) -> Option<&dyn Buttons> {
        Some(self)
    }

    fn reports(&self) -> Option<&dyn Reports> {
        Some(self)
    }
}

impl Reports for Molecule {
    fn acknowledge<'a>(&'a self, done: &'a [Message]) -> BoxFuture<'a, Result<(), ChannelError>> {
        async move {
            let Some(position) = done.iter().filter_map(|message| message.position).max() else {
                return Ok(());
            };
            if self.ack_unsupported.load(Ordering::Relaxed) {
                return Ok(());
            }
            let body = json!({ "acked_seq": position });
            let reply = self.api.post(&self.api.of_workspace("activity/ack"), &body).await?;
            match reply.status {
                200..300 => Ok(()),
                // An older server, which has no acknowledgements.
                404 => {
                    self.ack_unsupported.store(true, Ordering::Relaxed);
                    Ok(())
                }
                401 | 403 => Err(self.refused(reply.status)),
                _ => Err(api::retry_later(&reply)),
            }
        }
        .boxed()
    }

    fn keep_reporting(&self, mut activity: watch::Receiver<Activity>) -> BoxFuture<'_, ChannelError> {
        async move {
            loop {
                let next_at = tokio::time::Instant::now() + HEARTBEAT;
                let now = activity.borrow_and_update().clone();
                if let Err(error) = self.heartbeat(&now).await {
                    return error;
                }
                tokio::time::sleep(HEARTBEAT_MIN_PAUSE).await;
                // The canvas shows what we work on, so a change is told before the next heartbeat is due.
                tokio::time::timeout_at(next_at, activity.changed()).await.ok();
            }
        }
        .boxed()
    }
}

impl Buttons for Molecule {
    fn shown_requests(&self) -> Vec<RequestName> {
        self.requests.open_pairs().iter().map(|(_, name)| Button::named(name).request_id).collect()
    }

    fn close_request<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        self.requests.close(&self.api, &request.request_id).boxed()
    }

    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        async move {
            self.requests.forget(&tap.button.request_id);
            if !matches!(verdict, Verdict::Taken { .. } | Verdict::NotAllowed) {
                // Not retried: the outcome is shown with the request at other doors too.
                let outcome = self.api.notify(verdict.text()).await;
                if !matches!(outcome, Outcome::Delivered { .. }) {
                    let request = tap.button.request_id.as_str();
                    tracing::warn!(channel = self.name, request, outcome = ?outcome, "the outcome of a decision could not be shown");
                }
            }
        }
        .boxed()
    }
}

/// The places that callers may name: the canvas, the agents in `places`, and those in `allow` without a `*`.
fn places(settings: &Settings, allow: &[String]) -> Result<Vec<String>, String> {
    if let Some(wrong) = settings.places.iter().find(|place| !is_place(place)) {
        return Err(format!("{wrong:?} in `places`: {PLACE_HINT}"));
    }
    let mut places = vec!["canvas".to_owned()];
    for entry in allow {
        let allowed = Allowed::parse(entry)?;
        check_allowed(&allowed)?;
        places.push(allowed.sender);
    }
    places.extend(settings.places.iter().cloned());
    places.retain(|place| is_place(place));
    places.sort();
    places.dedup();
    Ok(places)
}

const PLACE_HINT: &str = "a place is canvas, or peer: and a workspace id";

fn is_place(place: &str) -> bool {
    let is_id =
        |id: &str| !id.is_empty() && id.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    place == "canvas" || place.strip_prefix("peer:").is_some_and(is_id)
}

/// Checks the form of an entry of `allow`.
fn check_allowed(allowed: &Allowed) -> Result<(), String> {
    let sender = &allowed.sender;
    let of = |start: &str| sender.strip_prefix(start).filter(|rest| !rest.is_empty());
    // The platform chooses the names of its own sources freely.
    let is_valid = sender == "canvas"
        || sender.ends_with('*')
        || of("channel:").is_some()
        || of("peer:").is_some_and(|id| !id.contains(':'));
    if is_valid {
        return Ok(());
    }
    let roles = Allowed::ROLES.join(" or ");
    Err(format!(
        "{sender:?} is not a sender: write canvas, peer:ID or channel:SOURCE, followed by no role but {roles}"
    ))
}

fn non_empty_str(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &str, allow: &[&str], place: &str) -> Result<(), String> {
        let account = "workspace_id = \"w-1\"\nurl = \"https://platform.example\"\ntoken = \"t\"\n";
        let settings: Settings = toml::from_str(&format!("{account}{settings}")).unwrap();
        let allow: Vec<String> = allow.iter().map(|&entry| entry.to_owned()).collect();
        Molecule::new("work", &settings, &allow, &|_| None)?.check_place(place)
    }

    #[test]
    fn callers_can_name_the_canvas_and_only_those_agents_that_the_operator_names() {
        assert_eq!(check("", &[], "canvas"), Ok(()));
        let refused = check("", &["peer:*", "peer:a"], "peer:b").unwrap_err();
        assert!(refused.contains("add \"peer:b\" to `places` of channel work"), "{refused}");
        assert_eq!(check("", &["peer:*", "peer:b:user"], "peer:b"), Ok(()), "one who may write");
        assert_eq!(check("places = [\"peer:b\"]", &[], "peer:b"), Ok(()));
        assert!(check("", &["peer:*"], "peer:*").is_err());
        assert_eq!(check("", &[], "room").unwrap_err(), PLACE_HINT);
        assert!(check("places = [\"room\"]", &[], "canvas").unwrap_err().contains("`places`"));
    }

    #[test]
    fn whoever_cannot_be_on_the_platform_is_refused_with_the_roles_that_there_are() {
        let check = |text: &str| check_allowed(&Allowed::parse(text).unwrap());
        for text in
            ["canvas", "canvas:approver", "peer:*", "peer:1a-2b", "peer:1a:user", "channel:telegram", "*"]
        {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in ["canvas:aprover", "peer:1a:aprover", "peer:", "ada"] {
            assert!(check(text).unwrap_err().contains("no role but user or approver"), "{text}");
        }
    }
}
