//! A plugin: a program of the operator's, in any language, that connects a platform to the bridge. It speaks JSON-RPC lines
//! on stdin and stdout.
//!
//! The plugin is started with the channel, restarted after a pause when it exits, and ended with the daemon. A message is
//! stored before the plugin gets the confirmation; only then may the plugin confirm it at its source.

mod envelope;
mod memory;
mod outgoing;
mod process;

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use codex_bridge_core::chats::Verdict;
use codex_bridge_core::inbox::{MessageId, Receipt, Received, WhenFull};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::{DecisionWord, RequestName, RequestRecord};
use codex_wire::reason;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use redact::Redactor;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::process::Command;
use tokio::sync::Notify;

use super::secret::{Env, Secret, secrets_in_json};
use super::settings::{OpenedChannel, Opening};
use super::{
    Batch, Buttons, Channel, ChannelError, Platform, Progress, Receiving, ShowsProgress, Stored, Tap,
};
use crate::failure::parser_message;

use envelope::{Action, Capabilities, Inbound};
use memory::Memory;
use process::{Log, PluginMessage, Process};

const PROTOCOL: u32 = 1;
/// How long a plugin may take to answer `initialize` or `edit`.
const READY_TIMEOUT: Duration = Duration::from_secs(20);
/// How long to wait for messages of the plugin.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(30);
/// Why a message is put off.
const FULL: &str = "too many messages are waiting already";
/// How many put-off messages are remembered.
const MAX_PUT_OFF: usize = 1024;
/// How long a put-off message holds the cursor back.
const PUT_OFF_FOR: Duration = Duration::from_mins(2);
/// When the plugin shall offer a put-off message again.
const OFFER_AGAIN: Duration = Duration::from_secs(2);
/// The same while messages have buttons, which may have to be removed.
const SHORT_LISTEN_TIMEOUT: Duration = Duration::from_secs(2);
/// The environment variables that a plugin inherits, besides `LC_*`: enough to run and to reach the network, and no token of
/// the daemon's.
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

/// The settings of a plugin.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The program and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// The working directory; `/` by default.
    pub cwd: Option<PathBuf>,
    /// Environment variables of the plugin, such as its secrets.
    pub env: BTreeMap<String, Secret>,
    /// Further variables that the plugin inherits from the daemon.
    pub pass: Vec<String>,
    /// The places that callers may name. Replies need no entry: they go where their message came from.
    pub places: Vec<String>,
    /// Passed to the plugin with `initialize`.
    pub config: toml::Table,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        opening.receives(
            Arc::new(Plugin::new(opening.name, self, opening.context.env, opening.context.redactor)?),
            &[],
        )
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        let passed = self.pass.iter().filter_map(|name| env(name));
        let named = secrets_in_json(&json!([self.config, self.argv]));
        let own = self.env.values().filter_map(|secret| secret.reveal(env).ok());
        own.chain(passed).chain(named).collect()
    }
}

/// A plugin.
pub struct Plugin {
    name: String,
    settings: Settings,
    /// The values of `pass` and `env`.
    variables: BTreeMap<String, String>,
    log: Log,
    state: Mutex<State>,
    /// Notified when the memory has changed and has to be stored.
    changed: Notify,
}

#[derive(Default)]
struct State {
    process: Option<Arc<Process>>,
    /// The capabilities of the running process, or of the last one.
    capabilities: Capabilities,
    /// The plugin's `inbound` calls without an answer, by message.
    inbound: HashMap<String, Vec<Value>>,
    /// The plugin's `action` calls without an answer, by tap.
    actions: HashMap<String, Value>,
    taps: u64,
    memory: Memory,
    /// The memory that was stored last.
    saved: Option<String>,
    /// Messages that were put off. Until they are offered again, the cursor does not move beyond them.
    put_off: BTreeMap<String, Instant>,
    /// The cursor before the messages that were read last.
    cursor_before: Option<String>,
}

impl State {
    /// Saves the cursor, in case one of the next messages is put off.
    fn save_cursor(&mut self) {
        self.cursor_before.clone_from(&self.memory.cursor);
    }

    /// Moves the cursor, unless a message was put off.
    fn set_cursor(&mut self, place: Option<String>) {
        // A message that is not offered again in time no longer holds the cursor back.
        self.put_off.retain(|_, at| at.elapsed() < PUT_OFF_FOR);
        if self.put_off.is_empty() {
            self.memory.cursor = place.or(self.memory.cursor.take());
        }
    }

    /// Puts off a message. A restarted plugin has to begin before it, so the cursor moves back.
    fn put_off(&mut self, external_id: String) {
        self.memory.cursor.clone_from(&self.cursor_before);
        self.saved = None;
        // A message beyond the limit is held back by the others.
        if self.put_off.len() < MAX_PUT_OFF {
            self.put_off.insert(external_id, Instant::now());
        }
    }
}

impl Plugin {
    /// Builds the plugin from its settings. The redactor knows the secrets in them.
    pub fn new(name: &str, settings: &Settings, env: Env<'_>, redactor: &Redactor) -> Result<Self, String> {
        if settings.argv.is_empty() {
            return Err("`argv` is empty".to_owned());
        }
        for place in &settings.places {
            envelope::check_place(place).map_err(|why| format!("{place:?} in `places`: {why}"))?;
        }
        let mut variables = BTreeMap::new();
        for name in &settings.pass {
            let value = env(name).ok_or(format!("the variable {name} in `pass` is not set"))?;
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
            changed: Notify::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> Option<Arc<Process>> {
        self.state().process.clone()
    }

    /// The running process and its capabilities, read under one lock.
    fn running(&self) -> Option<(Arc<Process>, Capabilities)> {
        let state = self.state();
        Some((state.process.clone()?, state.capabilities.clone()))
    }

    /// Changes the memory, and has it stored soon.
    fn remember(&self, change: impl FnOnce(&mut Memory)) {
        change(&mut self.state().memory);
        self.changed.notify_one();
    }

    fn command(&self) -> Command {
        let (program, args) = self.settings.argv.split_at(1);
        let mut command = Command::new(&program[0]);
        command.args(args).current_dir(self.settings.cwd.clone().unwrap_or_else(|| "/".into()));
        command.env_clear().envs(common_variables()).envs(&self.variables);
        command
    }

    async fn start_process(&self, cursor: Option<String>) -> Result<String, ChannelError> {
        let cursor = {
            let mut state = self.state();
            let (memory, capabilities) =
                (std::mem::take(&mut state.memory), std::mem::take(&mut state.capabilities));
            *state = State { memory, capabilities, saved: cursor.clone(), ..State::default() };
            state.memory.restore(cursor.as_deref())
        };
        let (process, ready) = self.launch(cursor).await?;
        let program = &self.settings.argv[0];
        let capabilities = serde_json::from_value(ready["capabilities"].clone()).map_err(|error| {
            let error = parser_message(&error.to_string());
            ChannelError::Fatal(format!(
                "{program} answered `initialize` with `capabilities` that cannot be read: {error}"
            ))
        })?;
        let mut state = self.state();
        (state.process, state.capabilities) = (Some(Arc::new(process)), capabilities);
        Ok(format!("{} is served by {program}", ready["name"].as_str().unwrap_or(&self.name)))
    }

    /// Starts the plugin and waits for its answer to `initialize`.
    async fn launch(&self, cursor: Option<String>) -> Result<(Process, Value), ChannelError> {
        let program = &self.settings.argv[0];
        let process =
            Process::start(&mut self.command(), self.log.clone()).map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                    ChannelError::Fatal(format!("{program} cannot be run: {}", reason(&error)))
                }
                _ => ChannelError::retry(format!("{program} cannot be run: {}", reason(&error))),
            })?;
        let params = json!({ "protocol": PROTOCOL, "config": self.settings.config, "cursor": cursor });
        match process.call("initialize", params, READY_TIMEOUT).await {
            Ok(ready) => Ok((process, ready)),
            Err(process::CallError::Refused(error)) => {
                let why = error["message"].as_str().unwrap_or("without a reason");
                let why = format!("{program} refused `initialize`: {}", self.log.redactor.redact(why));
                Err(ChannelError::Retry { after: envelope::retry_after(&error), reason: why })
            }
            Err(process::CallError::Unsent(why) | process::CallError::InDoubt(why)) => {
                Err(ChannelError::retry(format!("{program}: {why}")))
            }
        }
    }

    async fn listen(&self) -> Result<Batch, ChannelError> {
        let process = self.process().ok_or_else(|| ChannelError::retry("the plugin does not run"))?;
        let timeout = if self.state().memory.request_messages.is_empty() {
            LISTEN_TIMEOUT
        } else {
            SHORT_LISTEN_TIMEOUT
        };
        let program = &self.settings.argv[0];
        let messages = tokio::select! {
            messages = process.next_messages(timeout) => messages.map_err(|why| ChannelError::retry(format!("{program}: {why}")))?,
            () = self.changed.notified() => Vec::new(),
        };
        let mut batch = Batch::default();
        self.state().save_cursor();
        for message in messages {
            if let Err((id, code, why)) = self.handle(&mut batch, message) {
                self.log.write(&why);
                if let Some(id) = id {
                    process.refuse(&id, code, &why).await;
                }
            }
        }
        let mut state = self.state();
        let saved = state.memory.to_saved();
        if saved != state.saved {
            state.saved.clone_from(&saved);
            batch.cursor = saved;
        }
        Ok(batch)
    }

    /// Handles one message of the plugin. The error is the call to refuse, with a code and a reason.
    fn handle(
        &self,
        batch: &mut Batch,
        message: PluginMessage,
    ) -> Result<(), (Option<Value>, &'static str, String)> {
        let PluginMessage { id, method, params } = message;
        let wrong = |id: Option<Value>, error: serde_json::Error| {
            (id, "reject", format!("{method}: {}", parser_message(&error.to_string())))
        };
        match (method.as_str(), id) {
            ("inbound", Some(id)) => {
                let inbound: Inbound =
                    serde_json::from_value(params).map_err(|error| wrong(Some(id.clone()), error))?;
                let cursor = inbound.cursor.clone();
                let arrival = inbound.arrival(&self.name, Timestamp::now().as_millisecond());
                let arrival = arrival.map_err(|why| (Some(id.clone()), "reject", why))?;
                let mut state = self.state();
                state.set_cursor(cursor);
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
                self.state().set_cursor(params["value"].as_str().map(str::to_owned));
            }
            ("log", _) => self.log.write(params["msg"].as_str().unwrap_or_default()),
            ("health", _) => self.log.write(&format!("health: {params}")),
            (_, id) => return Err((id, "reject", format!("unknown method {method}"))),
        }
        Ok(())
    }

    async fn send_receipts(&self, receipts: Vec<Receipt>) {
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

    async fn send_verdict(&self, tap: &Tap, verdict: &Verdict) {
        let id = self.state().actions.remove(&tap.id);
        let (Some(process), Some(id)) = (self.process(), id) else { return };
        let (outcome, is_closed) = match verdict {
            Verdict::Taken { .. } => ("resolved", true),
            Verdict::TooLate { .. } => ("expired", true),
            // A plugin's buttons choose no options and ask for no comments.
            Verdict::Forbidden { .. } | Verdict::NotAllowed | Verdict::Next { .. } | Verdict::Comment => {
                ("forbidden", false)
            }
        };
        process.answer(&id, json!({ "outcome": outcome, "text": verdict.text() })).await;
        if is_closed {
            self.close(&tap.button.request_id, verdict.text()).await;
        }
    }
}

async fn answer(process: &Process, id: &Value, receipt: Received) {
    let (inbox_id, duplicate) = match receipt {
        Received::Taken { id } => (id, false),
        Received::Known { id } => (id, true),
        Received::Refused => return process.refuse(id, "reject", "the sender may not write").await,
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
        Err(format!("callers may not name this place: add it to `places` of channel {}", self.name))
    }

    fn reaches(&self, place: &str) -> bool {
        envelope::check_place(place).is_ok()
    }

    fn repeats(&self, _place: &str) -> Repeats {
        if self.state().capabilities.idempotent_send {
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

    fn says_receipts(&self) -> bool {
        true
    }

    fn identity(&self) -> String {
        // The arguments may contain secrets, so only their digest is shown.
        let digest = Sha256::digest(self.settings.argv.join("\0"));
        let mark = u32::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
        format!("plugin {} ({}, {mark:08x}…)", self.name, self.settings.argv[0])
    }

    fn start(&self, stored: Stored) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.start_process(stored.cursor).boxed()
    }

    /// A running plugin is not asked. Otherwise the plugin is started without a cursor, and ended.
    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        async move {
            if self.process().is_some() {
                return Ok(format!("{} runs", self.settings.argv[0]));
            }
            let (_, ready) = self.launch(None).await?;
            let name = ready["name"].as_str().unwrap_or(&self.name);
            Ok(format!("{name} can be served by {}; the test run has ended", self.settings.argv[0]))
        }
        .boxed()
    }

    fn receive(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<Batch, ChannelError>> {
        self.listen().boxed()
    }

    fn received(&self, receipts: Vec<Receipt>) -> BoxFuture<'_, ()> {
        self.send_receipts(receipts).boxed()
    }

    fn buttons(&self) -> Option<&dyn Buttons> {
        Some(self)
    }

    fn progress(&self) -> Option<&dyn ShowsProgress> {
        let capabilities = &self.state().capabilities;
        (capabilities.shows_turns() || capabilities.typing).then_some(self)
    }
}

impl Buttons for Plugin {
    fn shown_requests(&self) -> Vec<RequestName> {
        self.state().memory.request_messages.iter().flat_map(|asking| asking.requests.clone()).collect()
    }

    fn close_request<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        let what = request.decision.as_ref().map_or(request.state.as_str(), DecisionWord::past_tense);
        let by = request.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        let note = format!("{}: {what}{by}", request.request_id.short());
        async move { self.close(&request.request_id, &note).await }.boxed()
    }

    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        self.send_verdict(tap, verdict).boxed()
    }
}

impl ShowsProgress for Plugin {
    fn in_progress(&self) -> Vec<MessageId> {
        self.state().memory.progress_messages.names().cloned().map(MessageId).collect()
    }

    fn show<'a>(&'a self, progress: &'a Progress) -> BoxFuture<'a, ()> {
        self.show_progress(progress).boxed()
    }
}

/// The variables of the daemon's that every program needs.
pub fn common_variables() -> impl Iterator<Item = (OsString, OsString)> {
    let is_common = |name: &str| VARIABLES.contains(&name) || name.starts_with("LC_");
    std::env::vars_os().filter(move |(name, _)| name.to_str().is_some_and(is_common))
}
