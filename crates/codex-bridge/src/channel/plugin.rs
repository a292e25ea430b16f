//! A platform that somebody else speaks to: a program of the operator's, in any language, that talks to us in lines of
//! JSON-RPC on its stdin and stdout.
//!
//! It is started with the channel, begun again after a pause when it ends, and ended with us. What it brings is durable
//! before it is told so: only then may it let go of it at its source.

mod envelope;
mod memory;
mod outgoing;
mod process;

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codex_bridge_core::chats::Verdict;
use codex_bridge_core::inbox::{MessageId, Receipt, Received, WhenFull};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::{RequestName, RequestRecord};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use redact::Redactor;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;
use tokio::sync::Notify;

use super::secret::{Env, Secret, told_by_name};
use super::settings::{Opening, Way};
use super::{Batch, Channel, Platform, Progress, Receiving, Tap, Trouble};

use envelope::{Action, Capabilities, Inbound};
use memory::Memory;
use process::{Heard, Log, Process};

/// The version of what is said.
const PROTOCOL: u32 = 1;
/// How long a plugin has to get ready.
const READY: Duration = Duration::from_secs(20);
/// How long it is listened to before other things are looked at.
const LISTEN: Duration = Duration::from_secs(30);
/// Why a message is put off.
const FULL: &str = "too many messages wait here already";
/// So many messages are remembered that were put off.
const MOST_PUT_OFF: usize = 1024;
/// How long it is waited for what was put off to be offered again.
const PUT_OFF_FOR: Duration = Duration::from_mins(2);
/// When a message is to be offered again for which there is no room.
const OFFER_AGAIN: Duration = Duration::from_secs(2);
/// The same while it shows buttons, which may have to go.
const LISTEN_SHORTLY: Duration = Duration::from_secs(2);
/// Variables of the daemon's that a plugin gets, beside those that begin with `LC_`: what a program needs to run and to
/// reach the network. The daemon's tokens are not among them.
const VARIABLES: [&str; 20] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
];

/// A program of the operator's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The program and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// Where it runs; `/` by default.
    pub cwd: Option<PathBuf>,
    /// Variables of its own: where its secrets belong. Of the daemon's it gets only those that every program needs.
    pub env: BTreeMap<String, Secret>,
    /// Names of variables of the daemon's that it gets too.
    pub pass: Vec<String>,
    /// The places that callers may name as targets. Replies need none: they go where their message came from.
    pub places: Vec<String>,
    /// What it is told at its start.
    pub config: toml::Table,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String> {
        opening.receives(
            Arc::new(Plugin::new(opening.name, self, opening.around.env, opening.around.redactor)?),
            &[],
        )
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        let passed = self.pass.iter().filter_map(|name| env(name));
        let told = told_by_name(&json!([self.config, self.argv]));
        let own = self.env.values().filter_map(|secret| secret.reveal(env).ok());
        own.chain(passed).chain(told).collect()
    }
}

/// A plugin.
pub struct Plugin {
    name: String,
    settings: Settings,
    /// The variables that it gets beside those of every program.
    variables: BTreeMap<String, String>,
    log: Log,
    state: Mutex<State>,
    /// There is something new to remember.
    stirred: Notify,
}

#[derive(Default)]
struct State {
    process: Option<Arc<Process>>,
    /// What it can do, or could in its last life.
    can: Capabilities,
    /// Calls of the plugin's that wait for our answer, by the message.
    inbound: HashMap<String, Vec<Value>>,
    /// The same, by the tap.
    actions: HashMap<String, Value>,
    taps: u64,
    memory: Memory,
    /// What was written down last.
    noted: Option<String>,
    /// Messages that were put off: until they are offered again, no place beyond them is remembered.
    put_off: BTreeMap<String, Instant>,
    /// The place before what was heard last.
    place_before: Option<String>,
}

impl State {
    /// What is heard from here on may have to be put off.
    fn note_place(&mut self) {
        self.place_before.clone_from(&self.memory.cursor);
    }

    /// How far the plugin has read, if nothing before that was put off.
    fn move_to(&mut self, place: Option<String>) {
        // What is not offered again in time is waited for no longer, as with all that is put off.
        self.put_off.retain(|_, at| at.elapsed() < PUT_OFF_FOR);
        if self.put_off.is_empty() {
            self.memory.cursor = place.or(self.memory.cursor.take());
        }
    }

    /// There is no room for a message: the next life of the plugin has to begin before it.
    fn put_off(&mut self, external_id: String) {
        self.memory.cursor.clone_from(&self.place_before);
        self.noted = None;
        // What is not among them is held back by those that are.
        if self.put_off.len() < MOST_PUT_OFF {
            self.put_off.insert(external_id, Instant::now());
        }
    }
}

impl Plugin {
    /// As configured, or what is missing. The redactor knows what the settings hold.
    pub fn new(name: &str, settings: &Settings, env: Env<'_>, redactor: &Redactor) -> Result<Self, String> {
        if settings.argv.is_empty() {
            return Err("its argv is empty".to_owned());
        }
        for place in &settings.places {
            envelope::check_place(place).map_err(|why| format!("{place:?} in `places`: {why}"))?;
        }
        let mut variables = BTreeMap::new();
        for name in &settings.pass {
            let value = env(name).ok_or(format!("the variable {name}, which it is to get, is not set"))?;
            variables.insert(name.clone(), value);
        }
        for (name, value) in &settings.env {
            variables.insert(name.clone(), value.reveal(env)?);
        }
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            variables,
            log: Log { name: name.to_owned(), redactor: redactor.clone() },
            state: Mutex::default(),
            stirred: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> Option<Arc<Process>> {
        self.state().process.clone()
    }

    /// The process that runs and what it can do: of one and the same life.
    fn running(&self) -> Option<(Arc<Process>, Capabilities)> {
        let state = self.state();
        Some((state.process.clone()?, state.can.clone()))
    }

    /// Changes what is remembered, and has it written down soon.
    fn remember(&self, change: impl FnOnce(&mut Memory)) {
        change(&mut self.state().memory);
        self.stirred.notify_one();
    }

    fn command(&self) -> Command {
        let (program, args) = self.settings.argv.split_at(1);
        let mut command = Command::new(&program[0]);
        command.args(args).current_dir(self.settings.cwd.clone().unwrap_or_else(|| "/".into()));
        let is_common = |name: &str| VARIABLES.contains(&name) || name.starts_with("LC_");
        let common = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_common));
        command.env_clear().envs(common).envs(&self.variables);
        command
    }

    async fn begin(&self, cursor: Option<String>) -> Result<String, Trouble> {
        let cursor = {
            let mut state = self.state();
            let (memory, can) = (std::mem::take(&mut state.memory), std::mem::take(&mut state.can));
            *state = State { memory, can, noted: cursor.clone(), ..State::default() };
            state.memory.recall(cursor.as_deref())
        };
        let (process, ready) = self.launch(cursor).await?;
        let program = &self.settings.argv[0];
        let can = serde_json::from_value(ready["capabilities"].clone()).map_err(|error| {
            Trouble::Stop(format!("{program} says what it can do in a way that is not known: {error}"))
        })?;
        let mut state = self.state();
        (state.process, state.can) = (Some(Arc::new(process)), can);
        Ok(format!("{} is served by {program}", ready["name"].as_str().unwrap_or(&self.name)))
    }

    /// Starts it, and waits until it says what it is.
    async fn launch(&self, cursor: Option<String>) -> Result<(Process, Value), Trouble> {
        let program = &self.settings.argv[0];
        let process =
            Process::start(&mut self.command(), self.log.clone()).map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                    Trouble::Stop(format!("{program} cannot be run: {error}"))
                }
                _ => Trouble::again(format!("{program} cannot be run: {error}")),
            })?;
        let params = json!({ "protocol": PROTOCOL, "config": self.settings.config, "cursor": cursor });
        match process.call("initialize", params, READY).await {
            Ok(ready) => Ok((process, ready)),
            Err(process::Unanswered::Refused(error)) => {
                let why = error["message"].as_str().unwrap_or("without a reason");
                let why = format!("{program} does not begin: {}", self.log.redactor.redact(why));
                Err(Trouble::Again { after: envelope::retry_after(&error), why })
            }
            Err(process::Unanswered::Unsent(_) | process::Unanswered::InDoubt(_)) => {
                let why = process.hear(Duration::ZERO).await.err();
                let why = why.unwrap_or_else(|| "it did not answer to `initialize`".to_owned());
                Err(Trouble::again(format!("{program}: {why}")))
            }
        }
    }

    async fn listen(&self) -> Result<Batch, Trouble> {
        let process = self.process().ok_or_else(|| Trouble::again("the plugin does not run"))?;
        let patience = if self.state().memory.asking.is_empty() { LISTEN } else { LISTEN_SHORTLY };
        let program = &self.settings.argv[0];
        let heard = tokio::select! {
            heard = process.hear(patience) => heard.map_err(|why| Trouble::again(format!("{program}: {why}")))?,
            () = self.stirred.notified() => Vec::new(),
        };
        let mut batch = Batch::default();
        self.state().note_place();
        for one in heard {
            if let Err((id, code, why)) = self.take(&mut batch, one) {
                self.log.say(&why);
                if let Some(id) = id {
                    process.refuse(&id, code, &why).await;
                }
            }
        }
        let mut state = self.state();
        let noted = state.memory.note();
        if noted != state.noted {
            state.noted.clone_from(&noted);
            batch.cursor = noted;
        }
        Ok(batch)
    }

    /// What a plugin says; or whom to refuse it, with a word and a reason.
    fn take(&self, batch: &mut Batch, heard: Heard) -> Result<(), (Option<Value>, &'static str, String)> {
        let Heard { id, method, params } = heard;
        let wrong =
            |id: Option<Value>, error: serde_json::Error| (id, "reject", format!("{method}: {error}"));
        match (method.as_str(), id) {
            ("inbound", Some(id)) => {
                let inbound: Inbound =
                    serde_json::from_value(params).map_err(|error| wrong(Some(id.clone()), error))?;
                let cursor = inbound.cursor.clone();
                let arrival = inbound.arrival(&self.name, Timestamp::now().as_millisecond());
                let arrival = arrival.map_err(|why| (Some(id.clone()), "reject", why))?;
                let mut state = self.state();
                state.move_to(cursor);
                state.inbound.entry(arrival.external_id.clone()).or_default().push(id);
                batch.arrivals.push(arrival);
            }
            ("action", Some(id)) => {
                let action: Action =
                    serde_json::from_value(params).map_err(|error| wrong(Some(id.clone()), error))?;
                let mut state = self.state();
                state.taps += 1;
                let name = state.taps.to_string();
                let tap = action.tap(name.clone());
                batch.taps.push(tap.map_err(|why| (Some(id.clone()), "reject", why.to_owned()))?);
                state.actions.insert(name, id);
            }
            ("cursor", _) => {
                self.state().move_to(params["value"].as_str().map(str::to_owned));
            }
            ("log", _) => self.log.say(params["msg"].as_str().unwrap_or_default()),
            ("health", _) => self.log.say(&format!("health: {params}")),
            (_, id) => return Err((id, "reject", format!("there is no method {method}"))),
        }
        Ok(())
    }

    async fn tell(&self, receipts: Vec<Receipt>) {
        let Some(process) = self.process() else { return };
        for Receipt { external_id, receipt } in receipts {
            let waiting = self
                .state()
                .inbound
                .get_mut(&external_id)
                .filter(|ids| !ids.is_empty())
                .map(|ids| ids.remove(0));
            self.state().inbound.retain(|_, ids| !ids.is_empty());
            if receipt == Received::NoRoom {
                self.state().put_off(external_id);
            } else {
                self.state().put_off.remove(&external_id);
            }
            let Some(id) = waiting else { continue };
            answer(&process, &id, receipt).await;
        }
    }

    async fn tell_verdict(&self, tap: &Tap, verdict: &Verdict) {
        let id = self.state().actions.remove(&tap.id);
        let (Some(process), Some(id)) = (self.process(), id) else { return };
        let outcome = match verdict {
            Verdict::Taken { .. } => "resolved",
            Verdict::TooLate { .. } => "expired",
            Verdict::Forbidden { .. } | Verdict::Unheard => "forbidden",
        };
        process.answer(&id, json!({ "outcome": outcome, "text": verdict.text() })).await;
        if outcome != "forbidden" {
            self.close(&tap.button.request_id, verdict.text()).await;
        }
    }
}

/// Tells what became of a message.
async fn answer(process: &Process, id: &Value, receipt: Received) {
    let (inbox_id, duplicate) = match receipt {
        Received::Taken { id } => (id, false),
        Received::Known { id } => (id, true),
        Received::Refused => return process.refuse(id, "reject", "its sender may not write").await,
        Received::NoRoom => return process.put_off(id, FULL, OFFER_AGAIN).await,
    };
    process.answer(id, json!({ "accepted": true, "inbox_id": inbox_id, "duplicate": duplicate })).await;
}

impl Channel for Plugin {
    fn places(&self) -> Vec<String> {
        self.settings.places.clone()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        if self.settings.places.iter().any(|known| known == place) {
            return Ok(());
        }
        Err(format!("that is no place of the operator's: add it to `places` of channel {}", self.name))
    }

    fn reaches(&self, place: &str) -> bool {
        envelope::check_place(place).is_ok()
    }

    fn repeats(&self, _place: &str) -> Repeats {
        if self.state().can.idempotent_send {
            Repeats::Idempotent { within: None }
        } else {
            Repeats::MayDouble
        }
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.say(place, attempt).boxed()
    }
}

impl Receiving for Plugin {
    fn when_full(&self) -> WhenFull {
        WhenFull::PutOff
    }

    fn identity(&self) -> String {
        // Its arguments may hold what nobody else should read, and make it another one all the same.
        let digest = Sha256::digest(self.settings.argv.join("\0"));
        let mark = u32::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
        format!("plugin {} ({}, {mark:08x}…)", self.name, self.settings.argv[0])
    }

    fn start(&self, cursor: Option<String>) -> BoxFuture<'_, Result<String, Trouble>> {
        self.begin(cursor).boxed()
    }

    /// One that runs is asked nothing; one that does not is begun, without its place in the source, and ended.
    fn probe(&self) -> BoxFuture<'_, Result<String, Trouble>> {
        async move {
            if self.process().is_some() {
                return Ok(format!("{} runs", self.settings.argv[0]));
            }
            let (_, ready) = self.launch(None).await?;
            let name = ready["name"].as_str().unwrap_or(&self.name);
            Ok(format!("{name} could be served by {}; it has ended again", self.settings.argv[0]))
        }
        .boxed()
    }

    fn receive(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<Batch, Trouble>> {
        self.listen().boxed()
    }

    fn received(&self, receipts: Vec<Receipt>) -> BoxFuture<'_, ()> {
        self.tell(receipts).boxed()
    }

    fn asked(&self) -> Vec<RequestName> {
        self.state().memory.asking.iter().flat_map(|asking| asking.requests.clone()).collect()
    }

    fn close_asked<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        let what = request.decision.as_deref().unwrap_or(request.state.as_str());
        let by = request.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        let note = format!("{}: {what}{by}", request.request_id.short());
        async move { self.close(&request.request_id, &note).await }.boxed()
    }

    fn shows_progress(&self) -> bool {
        let can = &self.state().can;
        can.shows_turns() || can.typing
    }

    fn in_progress(&self) -> Vec<MessageId> {
        self.state().memory.shown.names().cloned().map(MessageId).collect()
    }

    fn progress<'a>(&'a self, progress: &'a Progress) -> BoxFuture<'a, ()> {
        self.show(progress).boxed()
    }

    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        self.tell_verdict(tap, verdict).boxed()
    }
}
