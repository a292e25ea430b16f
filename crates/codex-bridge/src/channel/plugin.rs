//! A platform that somebody else speaks to: a program of the operator's, in any language, that talks to us in lines of
//! JSON-RPC on its stdin and stdout.
//!
//! It is started with the channel, begun again after a pause when it ends, and ended with us. What it brings is durable
//! before it is told so: only then may it let go of it at its source.

mod envelope;
mod process;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codex_bridge_core::bridge::Verdict;
use codex_bridge_core::inbox::{Receipt, Received};
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::request::RequestRecord;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use redact::Redactor;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::process::Command;

use super::{Batch, Channel, Tap, Trouble};
use crate::config::notify::Secret;
use crate::deliver::text;

use envelope::{Action, Capabilities, Inbound};
use process::{Heard, Log, Process};

/// The version of what is said.
const PROTOCOL: u32 = 1;
/// How long a plugin has to get ready.
const READY: Duration = Duration::from_secs(20);
/// How long it has to say something somewhere.
const SAID: Duration = Duration::from_secs(40);
/// How long it is listened to before other things are looked at.
const LISTEN: Duration = Duration::from_secs(30);
/// The same while it shows buttons, which may have to go.
const LISTEN_SHORTLY: Duration = Duration::from_secs(2);
/// So many messages with buttons are remembered.
const MOST_ASKING: usize = 64;

/// A program of the operator's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// Where it runs; `/` by default.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Variables beside those of the daemon: where its secrets belong.
    #[serde(default)]
    pub env: BTreeMap<String, Secret>,
    /// What it is told at its start.
    #[serde(default)]
    pub config: toml::Table,
}

/// A plugin.
pub struct Plugin {
    name: String,
    settings: Settings,
    log: Log,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    process: Option<Arc<Process>>,
    can: Capabilities,
    /// Calls of the plugin's that wait for our answer, by the message.
    inbound: HashMap<String, Vec<Value>>,
    /// The same, by the tap.
    actions: HashMap<String, Value>,
    taps: u64,
    asking: VecDeque<Asking>,
}

/// A message with buttons.
#[derive(Debug, Clone)]
struct Asking {
    message_id: String,
    text: String,
    requests: Vec<String>,
    actions: Vec<Value>,
}

impl Plugin {
    /// As configured, or what is missing.
    pub fn new(name: &str, settings: &Settings) -> Result<Self, String> {
        if settings.argv.is_empty() {
            return Err("its argv is empty".to_owned());
        }
        let secrets = settings.env.values().map(|secret| secret.reveal().to_owned());
        Ok(Self {
            name: name.to_owned(),
            settings: settings.clone(),
            log: Log { name: name.to_owned(), redactor: Redactor::knowing(secrets) },
            state: Mutex::default(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn process(&self) -> Option<Arc<Process>> {
        self.state().process.clone()
    }

    fn command(&self) -> Command {
        let (program, args) = self.settings.argv.split_at(1);
        let mut command = Command::new(&program[0]);
        command.args(args).current_dir(self.settings.cwd.clone().unwrap_or_else(|| "/".into()));
        command.envs(self.settings.env.iter().map(|(name, secret)| (name, secret.reveal())));
        command
    }

    async fn begin(&self, cursor: Option<String>) -> Result<String, Trouble> {
        let program = &self.settings.argv[0];
        {
            let mut state = self.state();
            let asking = std::mem::take(&mut state.asking);
            *state = State { asking, ..State::default() };
        }
        let process =
            Process::start(&mut self.command(), self.log.clone()).map_err(|error| match error.kind() {
                ErrorKind::NotFound | ErrorKind::PermissionDenied => {
                    Trouble::Stop(format!("{program} cannot be run: {error}"))
                }
                _ => Trouble::again(format!("{program} cannot be run: {error}")),
            })?;
        let params = json!({ "protocol": PROTOCOL, "config": self.settings.config, "cursor": cursor });
        let ready = match process.call("initialize", params, READY).await {
            Ok(ready) => ready,
            Err(process::Unanswered::Refused(error)) => {
                let why = error["message"].as_str().unwrap_or("without a reason");
                return Err(Trouble::again(format!(
                    "{program} does not begin: {}",
                    self.log.redactor.redact(why)
                )));
            }
            Err(process::Unanswered::Unsent(_) | process::Unanswered::InDoubt(_)) => {
                let why = process.hear(Duration::ZERO).await.err();
                let why = why.unwrap_or_else(|| "it did not answer to `initialize`".to_owned());
                return Err(Trouble::again(format!("{program}: {why}")));
            }
        };
        let can = serde_json::from_value(ready["capabilities"].clone());
        let can = can.map_err(|error| {
            Trouble::Stop(format!("{program} says what it can do in a way that is not known: {error}"))
        })?;
        let mut state = self.state();
        (state.process, state.can) = (Some(Arc::new(process)), can);
        Ok(format!("{} is served by {program}", ready["name"].as_str().unwrap_or(&self.name)))
    }

    async fn listen(&self) -> Result<Batch, Trouble> {
        let process = self.process().ok_or_else(|| Trouble::again("the plugin does not run"))?;
        let patience = if self.state().asking.is_empty() { LISTEN } else { LISTEN_SHORTLY };
        let program = &self.settings.argv[0];
        let heard =
            process.hear(patience).await.map_err(|why| Trouble::again(format!("{program}: {why}")))?;
        let mut batch = Batch::default();
        for one in heard {
            if let Err((id, code, why)) = self.take(&mut batch, one) {
                self.log.say(&why);
                if let Some(id) = id {
                    process.refuse(&id, code, &why).await;
                }
            }
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
                batch.cursor = inbound.cursor.clone().or(batch.cursor.take());
                let arrival = inbound.arrival(&self.name, Timestamp::now().as_millisecond());
                self.state().inbound.entry(arrival.external_id.clone()).or_default().push(id);
                batch.arrivals.push(arrival);
            }
            ("action", Some(id)) => {
                let action: Action =
                    serde_json::from_value(params).map_err(|error| wrong(Some(id.clone()), error))?;
                let mut state = self.state();
                state.taps += 1;
                let name = state.taps.to_string();
                let unknown = || (Some(id.clone()), "reject", "there is no such action".to_owned());
                batch.taps.push(action.tap(name.clone()).ok_or_else(unknown)?);
                state.actions.insert(name, id);
            }
            ("cursor", _) => {
                batch.cursor = params["value"].as_str().map(str::to_owned).or(batch.cursor.take());
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
            let Some(id) = waiting else { continue };
            let (inbox_id, duplicate) = match receipt {
                Received::Taken { id } => (id, false),
                Received::Known { id } => (id, true),
                Received::Refused => {
                    process.refuse(&id, "reject", "its sender may not write").await;
                    continue;
                }
            };
            process
                .answer(&id, json!({ "accepted": true, "inbox_id": inbox_id, "duplicate": duplicate }))
                .await;
        }
    }

    async fn tell_verdict(&self, tap: &Tap, verdict: &Verdict) {
        let id = self.state().actions.remove(&tap.id);
        let (Some(process), Some(id)) = (self.process(), id) else { return };
        let outcome = match verdict {
            Verdict::Taken { .. } => "resolved",
            Verdict::TooLate { .. } => "expired",
            Verdict::Forbidden { .. } => "forbidden",
        };
        process.answer(&id, json!({ "outcome": outcome, "text": verdict.text() })).await;
        if outcome != "forbidden" {
            self.close(&tap.request_id, verdict.text()).await;
        }
    }

    /// What asked for this says from now on what became of it.
    async fn close(&self, request_id: &str, note: &str) {
        let (can, process, all) = {
            let mut state = self.state();
            (state.can.clone(), state.process.clone(), std::mem::take(&mut state.asking))
        };
        for mut asking in all {
            if asking.requests.iter().any(|id| id == request_id) {
                asking.requests.retain(|id| id != request_id);
                asking.actions.retain(|action| {
                    action["id"].as_str().and_then(|id| id.split('/').nth(1)) != Some(request_id)
                });
                asking.text = text::appended(&asking.text, note, can.limit());
                if let Some(process) = process.as_ref().filter(|_| can.edit) {
                    let edit = json!({ "message_id": asking.message_id, "text": asking.text, "actions": asking.actions });
                    // Best effort: a tap on what is left says the same.
                    let _ = process.call("edit", edit, READY).await;
                }
            }
            if !asking.requests.is_empty() {
                self.state().asking.push_back(asking);
            }
        }
    }

    async fn say(&self, place: &str, attempt: &Attempt) -> Outcome {
        let can = self.state().can.clone();
        let Some(process) = self.process() else { return not_now() };
        if !can.send {
            return Outcome::failed(Refusal::Never, "the plugin says nothing: it only brings messages");
        }
        let said = envelope::send(place, attempt, &can);
        let outcome = envelope::outcome(process.call("send", said.clone(), SAID).await);
        if let Outcome::Delivered { message_id: Some(message_id) } = &outcome
            && !attempt.notice.requests.is_empty()
        {
            let mut state = self.state();
            state.asking.push_back(Asking {
                message_id: message_id.clone(),
                text: said["text"].as_str().unwrap_or_default().to_owned(),
                requests: attempt.notice.requests.iter().map(|asked| asked.request_id.clone()).collect(),
                actions: said["actions"].as_array().cloned().unwrap_or_default(),
            });
            if state.asking.len() > MOST_ASKING {
                state.asking.pop_front();
            }
        }
        outcome
    }
}

/// It is being begun, or begun again: that costs no attempt.
fn not_now() -> Outcome {
    Outcome::failed(Refusal::NotBefore(Duration::from_secs(1)), "the plugin does not run now")
}

impl Channel for Plugin {
    fn identity(&self) -> String {
        let program = self.settings.argv.join(" ");
        format!("plugin {} ({program})", self.name)
    }

    fn start(&self, cursor: Option<String>) -> BoxFuture<'_, Result<String, Trouble>> {
        self.begin(cursor).boxed()
    }

    fn receive(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<Batch, Trouble>> {
        self.listen().boxed()
    }

    fn received(&self, receipts: Vec<Receipt>) -> BoxFuture<'_, ()> {
        self.tell(receipts).boxed()
    }

    fn asked(&self) -> Vec<String> {
        self.state().asking.iter().flat_map(|asking| asking.requests.clone()).collect()
    }

    fn close_asked<'a>(&'a self, request: &'a RequestRecord) -> BoxFuture<'a, ()> {
        let what = request.decision.as_deref().unwrap_or(request.state.as_str());
        let by = request.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
        let note = format!("{}: {what}{by}", request.request_id);
        async move { self.close(&request.request_id, &note).await }.boxed()
    }

    fn decided<'a>(&'a self, tap: &'a Tap, verdict: &'a Verdict) -> BoxFuture<'a, ()> {
        self.tell_verdict(tap, verdict).boxed()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        if place.is_empty() { Err("it needs a place after the colon".to_owned()) } else { Ok(()) }
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
