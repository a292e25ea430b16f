//! A workspace of the Molecule platform: its people on the canvas, and its other agents.
//!
//! The platform is asked every few seconds; there is no long poll. Our place in the activity log is remembered with what
//! was read; the platform's own mark (`activity/ack`) moves only over what was answered. A reply on the canvas has no
//! key, but leaves a row behind, so it is looked for before it is repeated; a reply to an agent has a key. What Codex
//! asks becomes a request on the canvas, which a person answers there.

mod api;
mod asked;
mod history;
mod row;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use codex_bridge_core::chats::Verdict;
use codex_bridge_core::inbox::{Allowed, Message};
use codex_bridge_core::outbox::sender::{LOOK_BACK_MS, Refusal, Seen};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::Button;
use codex_bridge_core::request::{RequestName, RequestRecord};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::secret::{Env, Secret, all_found};
use super::settings::{Opening, Way};
use super::text::{self, Limit};
use super::{Batch, Channel, Doing, Platform, Receiving, Tap, Trouble};

use api::Api;
use asked::{Adopted, Asked, Put};
use row::Row;

/// Who may write unless the operator says otherwise. Nobody decides on what Codex asks unless the operator names them.
const ALLOWED: [&str; 2] = ["canvas", "peer:*"];
/// What is read from the environment where the settings say nothing.
pub const VARIABLES: [&str; 7] = [
    "WORKSPACE_ID",
    "PLATFORM_URL",
    "MOLECULE_WORKSPACE_ID",
    "MOLECULE_PLATFORM_URL",
    "MOLECULE_WORKSPACE_TOKEN",
    "MOLECULE_ORG_ID",
    "MOLECULE_AGENT_NAME",
];
/// The platform has no limit of its own; nobody reads more than this.
const LIMIT: Limit = Limit::Chars(60_000);
/// How often it is asked for news, unless told otherwise.
const POLL_MS: u64 = 5_000;
/// How often it is told that we live. Older servers forget us after a minute.
const HEARTBEAT: Duration = Duration::from_secs(20);
/// So many heartbeats in a row that are refused mean that we are not wanted.
const REFUSALS: u32 = 3;

/// A workspace of Molecule's. What is absent comes from the environment, as the platform sets it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The workspace; else `WORKSPACE_ID` or `MOLECULE_WORKSPACE_ID`.
    pub workspace_id: Option<String>,
    /// The platform; else `PLATFORM_URL` or `MOLECULE_PLATFORM_URL`.
    pub url: Option<String>,
    /// The workspace's token; else `MOLECULE_WORKSPACE_TOKEN`.
    pub token: Option<Secret>,
    /// How we are called there.
    pub agent_name: Option<String>,
    /// How often the platform is asked for news.
    pub poll_ms: Option<u64>,
    /// `peer:ID` of those that callers may name as targets, beside those that `allow` names whole. Replies need none: they go
    /// where their message came from.
    pub places: Vec<String>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String> {
        opening.receives(
            Arc::new(Molecule::new(opening.name, self, &opening.common.allow, opening.around.env)?),
            &ALLOWED,
        )
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        all_found([&self.token], env)
    }
}

/// A workspace of Molecule's.
pub struct Molecule {
    name: String,
    api: Api,
    agent_name: String,
    poll: Duration,
    /// What callers may name.
    places: Vec<String>,
    begun: Instant,
    /// Whether nothing came when it was last asked.
    is_quiet: AtomicBool,
    /// What is put before people as requests of the platform.
    asked: Asked,
    /// Whether the platform is too old to be told what is done with.
    takes_no_ack: AtomicBool,
    refusals: AtomicU32,
}

/// Our place in the log, with what must not be forgotten beside it.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Cursor {
    since_id: Option<String>,
    /// When that row was written: the platform forgets rows, and then this says how far back it must be read.
    at: Option<i64>,
    asked: Vec<(String, String)>,
}

impl Cursor {
    fn of(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

impl Molecule {
    /// As configured, or what is missing. `allow` are those who may write.
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
            return Err(format!("{workspace:?} is no workspace id"));
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
            begun: Instant::now(),
            is_quiet: AtomicBool::new(false),
            asked: Asked::default(),
            takes_no_ack: AtomicBool::new(false),
            refusals: AtomicU32::new(0),
        })
    }

    async fn register(&self) -> Result<String, Trouble> {
        let body = json!({
            "id": self.api.workspace(), "url": "", "delivery_mode": "poll",
            "agent_card": {
                "name": self.agent_name,
                "description": "Codex, under codex-bridge",
                "skills": [{ "name": "code" }],
            },
        });
        let reply = self.api.post("/registry/register", &body).await.map_err(|error| api::trouble(&error))?;
        match reply.status {
            200..300 => Ok(format!("workspace {} is served as {}", self.api.workspace(), self.agent_name)),
            401 | 403 => Err(self.refused(reply.status)),
            429 | 500.. => Err(api::later(&reply)),
            // Messages may come all the same.
            status => Ok(format!(
                "workspace {} is served; the platform answered {status} to its registration",
                self.api.workspace()
            )),
        }
    }

    fn refused(&self, status: u16) -> Trouble {
        Trouble::Stop(format!(
            "Molecule refuses the token of workspace {} ({status}): make a new one on the canvas and set \
             MOLECULE_WORKSPACE_TOKEN, or look whether the workspace still exists",
            self.api.workspace()
        ))
    }

    async fn read(&self, before: Option<String>) -> Result<Batch, Trouble> {
        let mut cursor = Cursor::of(before.as_deref());
        let rows = history::read(self, &cursor).await?;
        if let Some(last) = rows.last() {
            (cursor.since_id, cursor.at) = (Some(last.id.clone()), Some(last.at()));
        }
        let arrivals = rows.iter().filter_map(|row| row.arrival(&self.name, self.api.workspace())).collect();
        let taps = self.asked.answered(&self.api).await;
        cursor.asked = self.asked.all();
        let text = serde_json::to_string(&cursor).ok();
        let is_new = text != before;
        Ok(Batch { arrivals, taps, cursor: text.filter(|_| is_new), ..Batch::default() })
    }

    async fn heartbeat(&self, doing: &Doing) -> Result<(), Trouble> {
        let body = json!({
            "workspace_id": self.api.workspace(), "error_rate": 0.0, "sample_error": "",
            "active_tasks": doing.running, "current_task": doing.summary,
            "uptime_seconds": self.begun.elapsed().as_secs(), "is_busy": doing.running > 0,
        });
        let Ok(reply) = self.api.post("/registry/heartbeat", &body).await else { return Ok(()) };
        if !matches!(reply.status, 401 | 403) {
            self.refusals.store(0, Ordering::Relaxed);
            return Ok(());
        }
        let count = self.refusals.fetch_add(1, Ordering::Relaxed) + 1;
        if count < REFUSALS { Ok(()) } else { Err(self.refused(reply.status)) }
    }

    async fn on_canvas(&self, attempt: &Attempt) -> Outcome {
        let (decidable, rest) = asked::parted(attempt);
        let mut shown = match self.asked.ask(&self.api, &decidable).await {
            Put::All => asked::ids(&decidable),
            Put::NoWay => return self.in_words(attempt).await,
            Put::Failed(failed) => return failed,
        };
        let Some(rest) = rest else {
            return Outcome::Delivered { message_id: self.asked.ids_of(&decidable), shown };
        };
        let mut said = self.in_words(&rest).await;
        if let Outcome::Delivered { shown: in_words, .. } = &mut said {
            in_words.append(&mut shown);
        }
        said
    }

    async fn in_words(&self, attempt: &Attempt) -> Outcome {
        let mut said = self.api.notify(&asked::words(attempt)).await;
        if let Outcome::Delivered { shown, .. } = &mut said {
            *shown = asked::shown_in_words(attempt);
        }
        said
    }

    async fn to_agent(&self, peer: &str, attempt: &Attempt) -> Outcome {
        let body = json!({
            "target_id": peer, "task": text::chat(&attempt.notice, attempt.may_be_duplicate, LIMIT), "idempotency_key": attempt.key,
        });
        match self.api.post(&self.api.of_workspace("delegate"), &body).await {
            Ok(reply) if reply.is_success() => {
                let id = reply.body["delegation_id"].as_str().map(str::to_owned);
                Outcome::delivered(id)
            }
            Ok(reply) if matches!(reply.status, 400 | 403) => Outcome::failed(
                Refusal::Never,
                format!("it answered {}: {}", reply.status, api::said(&reply)),
            ),
            Ok(reply) => reply.refusal(),
            Err(error) => error.into(),
        }
    }

    /// Whether all of it is there: what can be decided among our requests, what is only said among our words.
    async fn was_said(&self, attempt: &Attempt) -> Result<Seen, String> {
        let (decidable, rest) = asked::parted(attempt);
        if !decidable.notice.requests().is_empty() {
            let adopted = self.asked.adopt(&self.api, &decidable).await;
            let adopted =
                adopted.map_err(|trouble| format!("it could not be looked: {}", trouble.sentence()))?;
            if adopted == Adopted::NoWay {
                return self.was_written(attempt).await;
            }
        }
        let message_id = self.asked.ids_of(&decidable);
        let mut ids = asked::ids(&decidable);
        Ok(match rest {
            _ if !self.asked.has_all(&decidable) => Seen::No,
            None => Seen::Yes { message_id, shown: ids },
            Some(rest) => {
                let mut written = self.was_written(&rest).await?;
                if let Seen::Yes { shown, .. } = &mut written {
                    shown.append(&mut ids);
                }
                written
            }
        })
    }

    /// Whether more rows say this than others of ours account for.
    async fn was_written(&self, attempt: &Attempt) -> Result<Seen, String> {
        let text = asked::words(attempt);
        let mut same: Vec<Row> = Vec::new();
        let looked = history::back(self, LOOK_BACK_MS.unsigned_abs() / 1000, |rows| {
            same.extend(rows.iter().filter(|row| row.is_notice_of(&text)).cloned());
        });
        looked.await.map_err(|trouble| format!("it could not be looked: {}", trouble.sentence()))?;
        same.sort_by(|one, other| one.id.cmp(&other.id));
        same.dedup_by(|one, other| one.id == other.id);
        same.sort_by_key(Row::at);
        Ok(match same.last() {
            Some(last) if same.len() > attempt.twins => {
                Seen::Yes { message_id: Some(last.id.clone()), shown: asked::shown_in_words(attempt) }
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
            return Err(NO_PLACE.to_owned());
        }
        let name = &self.name;
        Err(format!("that agent is not one of the operator's: add {place:?} to `places` of channel {name}"))
    }

    fn reaches(&self, place: &str) -> bool {
        is_place(place)
    }

    fn repeats(&self, place: &str) -> Repeats {
        if place == "canvas" { Repeats::LookFirst } else { Repeats::Idempotent { within: None } }
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        match place.strip_prefix("peer:") {
            Some(peer) => self.to_agent(peer, attempt).boxed(),
            None => self.on_canvas(attempt).boxed(),
        }
    }

    fn look<'a>(&'a self, attempt: &'a Attempt) -> BoxFuture<'a, Result<Seen, String>> {
        self.was_said(attempt).boxed()
    }
}

impl Receiving for Molecule {
    fn has_watermark(&self) -> bool {
        true
    }

    fn identity(&self) -> String {
        format!("Molecule workspace {} at {}", self.api.workspace(), self.api.base())
    }

    fn start(&self, cursor: Option<String>) -> BoxFuture<'_, Result<String, Trouble>> {
        self.asked.know(Cursor::of(cursor.as_deref()).asked);
        self.is_quiet.store(false, Ordering::Relaxed);
        self.register().boxed()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, Trouble>> {
        async move {
            history::page(self, "since_secs=1&limit=1").await?;
            Ok(format!("workspace {} can be read; nothing was changed", self.api.workspace()))
        }
        .boxed()
    }

    fn receive(&self, cursor: Option<String>) -> BoxFuture<'_, Result<Batch, Trouble>> {
        async move {
            if self.is_quiet.load(Ordering::Relaxed) {
                tokio::time::sleep(self.poll).await;
            }
            let batch = self.read(cursor).await?;
            self.is_quiet.store(batch.arrivals.is_empty() && batch.taps.is_empty(), Ordering::Relaxed);
            Ok(batch)
        }
        .boxed()
    }

    fn acknowledge<'a>(&'a self, done: &'a [Message]) -> BoxFuture<'a, Result<(), Trouble>> {
        async move {
            let Some(position) = done.iter().filter_map(|message| message.position).max() else {
                return Ok(());
            };
            if self.takes_no_ack.load(Ordering::Relaxed) {
                return Ok(());
            }
            let body = json!({ "acked_seq": position });
            let reply = self.api.post(&self.api.of_workspace("activity/ack"), &body).await;
            let reply = reply.map_err(|error| api::trouble(&error))?;
            match reply.status {
                200..300 => Ok(()),
                // An older server, which keeps everything for its own time.
                404 => {
                    self.takes_no_ack.store(true, Ordering::Relaxed);
                    Ok(())
                }
                401 | 403 => Err(self.refused(reply.status)),
                _ => Err(api::later(&reply)),
            }
        }
        .boxed()
    }

    fn beside(&self, doing: watch::Receiver<Doing>) -> BoxFuture<'_, Trouble> {
        async move {
            loop {
                let now = doing.borrow().clone();
                if let Err(trouble) = self.heartbeat(&now).await {
                    return trouble;
                }
                tokio::time::sleep(HEARTBEAT).await;
            }
        }
        .boxed()
    }

    fn asked(&self) -> Vec<RequestName> {
        self.asked.all().iter().map(|(_, name)| Button::named(name).request_id).collect()
    }

    fn close_asked<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        self.asked.close(&self.api, &request.request_id).boxed()
    }

    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        async move {
            self.asked.forget(&tap.button.request_id);
            if !matches!(verdict, Verdict::Taken { .. } | Verdict::Unheard) {
                // Best effort: the request itself says what became of it elsewhere too.
                let told = self.api.notify(verdict.text()).await;
                if !matches!(told, Outcome::Delivered { .. }) {
                    let request = tap.button.request_id.as_str();
                    tracing::warn!(channel = self.name, request, outcome = ?told, "what came of a decision could not be told");
                }
            }
        }
        .boxed()
    }
}

/// What callers may name: the canvas, whom the operator listed, and whom they let write, if not as one of many.
fn places(settings: &Settings, allow: &[String]) -> Result<Vec<String>, String> {
    if let Some(wrong) = settings.places.iter().find(|place| !is_place(place)) {
        return Err(format!("{wrong:?} in `places`: {NO_PLACE}"));
    }
    let mut places = vec!["canvas".to_owned()];
    for one in allow {
        let allowed = Allowed::parse(one)?;
        check_allowed(&allowed)?;
        places.push(allowed.sender);
    }
    places.extend(settings.places.iter().cloned());
    places.retain(|place| is_place(place));
    places.sort();
    places.dedup();
    Ok(places)
}

/// What is wrong with a place that is none.
const NO_PLACE: &str = "it is canvas, or peer: and a workspace id";

fn is_place(place: &str) -> bool {
    let is_id =
        |id: &str| !id.is_empty() && id.chars().all(|char| char.is_ascii_alphanumeric() || char == '-');
    place == "canvas" || place.strip_prefix("peer:").is_some_and(is_id)
}

/// Somebody who may write, or what is wrong with how they are named.
fn check_allowed(allowed: &Allowed) -> Result<(), String> {
    let sender = &allowed.sender;
    let of = |start: &str| sender.strip_prefix(start).filter(|rest| !rest.is_empty());
    // What passes messages on is named by the platform, whichever way it likes.
    let is_one = sender == "canvas"
        || sender.ends_with('*')
        || of("channel:").is_some()
        || of("peer:").is_some_and(|id| !id.contains(':'));
    if is_one {
        return Ok(());
    }
    let roles = Allowed::ROLES.join(" or ");
    Err(format!(
        "{sender:?} is nobody: write canvas, peer:ID or channel:SOURCE, and behind it no role but {roles}"
    ))
}

/// A text of a row, whatever it is.
fn text_of(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(settings: &str, allow: &[&str], place: &str) -> Result<(), String> {
        let account = "workspace_id = \"w-1\"\nurl = \"https://platform.example\"\ntoken = \"t\"\n";
        let settings: Settings = toml::from_str(&format!("{account}{settings}")).unwrap();
        let allow: Vec<String> = allow.iter().map(|&one| one.to_owned()).collect();
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
        assert_eq!(check("", &[], "room").unwrap_err(), NO_PLACE);
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
