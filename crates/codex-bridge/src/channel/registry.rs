//! All channels of the daemon: which exist, the state of those that are served, and their recent log lines.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use codex_bridge_core::Chats;
use codex_bridge_core::inbox::{Arrival, Rules};
use jiff::Timestamp;
use redact::Redactor;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::hook::SignedPost;
use super::lock;
use super::settings::{Context, Fingerprint, Kind, OpenedChannel, Service, Settings};
use super::supervisor;
use super::targets::{Candidate, place_in};
use super::{Channel, KINDS, Receiving};
use crate::failure::{Code, Failure};

/// How many log lines of a channel are kept.
const LINES: usize = 100;

/// The operator's channels: those that only send, and those that this daemon serves.
pub struct Registry {
    opened_at: Instant,
    chats: OnceLock<Chats>,
    locks: OnceLock<PathBuf>,
    served: Mutex<BTreeMap<String, Served>>,
    /// All channels by name, as configured or as served once.
    known: Mutex<BTreeMap<String, KnownChannel>>,
    /// The channels of `[notify]`, by target.
    old: BTreeMap<String, KnownChannel>,
    /// Why a channel could not be served when the daemon started.
    failed: Mutex<BTreeMap<String, String>>,
}

/// A channel as configured. A receiving channel in here is only asked for its places; [`Served`] holds the served one.
struct KnownChannel {
    kind: Option<&'static Kind>,
    channel: Result<Arc<dyn Channel>, String>,
    receives: bool,
    /// Whether the channel was served before, by this daemon or an earlier one.
    was_served: bool,
    /// Whether the platform's settings have a table of their own (the old spelling).
    has_platform_table: bool,
}

impl KnownChannel {
    fn new(settings: &Settings, opened: &Result<OpenedChannel, Failure>) -> Self {
        let kind = settings.kind().and_then(Kind::named);
        let receives = match opened {
            Ok(opened) => matches!(opened, OpenedChannel::Receives(_)),
            // A corrected configuration may receive, unless the kind never does.
            Err(_) => kind.is_none_or(|kind| kind.receives),
        };
        let channel = opened.as_ref().map(OpenedChannel::channel).map_err(ToString::to_string);
        Self { kind, channel, receives, was_served: false, has_platform_table: settings.has_platform_table }
    }

    /// A channel that is not in `[channels]`.
    fn without_kind(channel: Result<Arc<dyn Channel>, String>, receives: bool) -> Self {
        Self { kind: None, channel, receives, was_served: false, has_platform_table: false }
    }

    /// The place of a target, if the target is one of this channel. `plugin:NAME:PLACE` works for any channel.
    fn place<'a>(&self, name: &str, target: &'a str) -> Option<&'a str> {
        let of_kind = |kind: &Kind| {
            let is_named = match self.kind {
                Some(own) => kind.name == own.name || kind.name == "plugin",
                // The kind of a channel that is no longer configured is unknown. `[notify]` has the kind in its targets.
                None => self.was_served,
            };
            place_in(target.strip_prefix(kind.name).filter(|_| is_named)?.strip_prefix(':')?, name)
        };
        KINDS.iter().find_map(of_kind).or_else(|| place_in(target, name))
    }
}

/// The targets of one channel.
pub struct ChannelTargets {
    /// The channel's name.
    pub name: String,
    /// Whether the channel receives.
    pub receives: bool,
    /// The targets, or why the channel cannot be used.
    pub targets: Result<Vec<String>, String>,
}

struct Served {
    channel: Arc<dyn Receiving>,
    rules: Rules,
    fingerprint: Fingerprint,
    journal: Arc<Journal>,
    supervisor: AbortHandle,
    _lock: File,
}

/// The state of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ChannelStatus {
    /// The channel connects to its platform.
    Starting,
    /// Messages come in.
    Serving,
    /// The channel failed and is retried.
    Retrying,
    /// Somebody paused the channel.
    Paused,
    /// The channel failed and is not retried.
    Stopped,
    /// The channel is not served.
    Idle,
}

impl ChannelStatus {
    /// The state as a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Serving => "serving",
            Self::Retrying => "retrying",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
            Self::Idle => "idle",
        }
    }
}

/// The state of a served channel and its recent log lines.
#[derive(Debug)]
pub struct Journal {
    redactor: Redactor,
    standing: watch::Sender<(ChannelStatus, String)>,
    lines: Mutex<JournalLines>,
}

#[derive(Debug, Default)]
struct JournalLines {
    /// How many lines there were in all.
    count: u64,
    /// The last lines.
    last: VecDeque<String>,
}

impl Journal {
    fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            standing: watch::Sender::new((ChannelStatus::Starting, String::new())),
            lines: Mutex::default(),
        }
    }

    fn lines(&self) -> MutexGuard<'_, JournalLines> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the state with a sentence about it. A change is logged.
    pub fn set(&self, name: &str, standing: ChannelStatus, sentence: &str) {
        // The sentence may repeat a secret that the platform was sent.
        let sentence = &*self.redactor.redact(sentence);
        let now = (standing, sentence.to_owned());
        let is_new = self.standing.send_if_modified(|before| {
            let is_new = *before != now;
            before.clone_from(&now);
            is_new
        });
        if is_new {
            let line = format!("{}: {sentence}", standing.as_str());
            match standing {
                ChannelStatus::Stopped => tracing::error!(channel = name, "{line}"),
                ChannelStatus::Retrying => tracing::warn!(channel = name, "{line}"),
                _ => tracing::info!(channel = name, "{line}"),
            }
            self.remember(name, &line);
        }
    }

    /// Keeps a line for callers who follow the channel.
    fn remember(&self, name: &str, line: &str) {
        let line = format!("{:.0} channel {name} {line}", Timestamp::now());
        let mut lines = self.lines();
        lines.count += 1;
        lines.last.push_back(line);
        if lines.last.len() > LINES {
            lines.last.pop_front();
        }
    }

    /// The state, and the last sentence about it.
    pub fn standing(&self) -> (ChannelStatus, String) {
        self.standing.borrow().clone()
    }

    /// Waits until the channel is stopped, and returns the reason.
    pub async fn stopped(&self) -> String {
        let mut standing = self.standing.subscribe();
        // An error is impossible: we hold the sender.
        standing.wait_for(|(standing, _)| *standing == ChannelStatus::Stopped).await.ok();
        self.standing().1
    }

    /// The kept lines after the first `count` ones, and how many there were in all.
    pub fn lines_after(&self, count: u64) -> (Vec<String>, u64) {
        let lines = self.lines();
        let first = lines.count - lines.last.len() as u64;
        let skip = usize::try_from(count.saturating_sub(first)).unwrap_or(usize::MAX);
        (lines.last.iter().skip(skip).cloned().collect(), lines.count)
    }
}

impl Registry {
    /// The channels of a configuration; `notify` is its old section.
    pub fn new(
        channels: &BTreeMap<String, Settings>,
        notify: &BTreeMap<String, Settings>,
        context: Context<'_>,
    ) -> Self {
        // A channel that is only served when run works in the directory of its caller.
        let cwd = std::env::current_dir().ok();
        let open = |(name, settings): (&String, &Settings)| {
            let context = Context { cwd: cwd.as_ref().filter(|_| settings.common.manual), ..context };
            (name.clone(), KnownChannel::new(settings, &settings.open(name, context)))
        };
        let old = notify.iter().map(|(target, settings)| {
            let channel = settings.try_open(target, context).map(|opened| opened.channel());
            // A delivery to an unusable target of `[notify]` fails at once, and does not wait for a correction.
            (target.clone(), KnownChannel::without_kind(channel, false))
        });
        Self {
            opened_at: Instant::now(),
            chats: OnceLock::new(),
            locks: OnceLock::new(),
            served: Mutex::default(),
            known: Mutex::new(channels.iter().map(open).collect()),
            old: old.collect(),
            failed: Mutex::default(),
        }
    }

    /// Allows channels to be served from now on.
    pub fn ready(&self, chats: Chats, locks: PathBuf) {
        // A second call changes nothing.
        self.chats.set(chats).ok();
        self.locks.set(locks).ok();
    }

    /// How long the registry has existed.
    pub(super) fn uptime(&self) -> Duration {
        self.opened_at.elapsed()
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<String, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, KnownChannel>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receiver(&self, name: &str) -> Option<Arc<dyn Receiving>> {
        Some(Arc::clone(&self.served().get(name)?.channel))
    }

    /// The channel of this name, if it is served.
    pub fn channel(&self, name: &str) -> Option<Arc<dyn Channel>> {
        Some(self.receiver(name)?)
    }

    /// Reads a POST to the hook of this name; none if no such hook is served.
    pub fn post(&self, name: &str, post: &SignedPost<'_>) -> Option<Result<Arrival, Failure>> {
        Some(self.receiver(name)?.hook()?.post(post))
    }

    /// The channels that a target may name, the longest name first; those of `[notify]` come last.
    pub(super) fn candidates<'a>(&self, target: &'a str) -> Vec<Candidate<'a>> {
        let known = self.known();
        let candidate = |(name, known): (&String, &KnownChannel)| {
            let place = known.place(name, target)?;
            let can_receive = known.kind.is_some_and(|kind| kind.receives);
            Some(Candidate {
                name: name.clone(),
                place,
                channel: known.channel.clone(),
                receives: known.receives,
                was_served: known.was_served && can_receive,
                can_receive,
                has_platform_table: known.has_platform_table,
            })
        };
        let mut all: Vec<_> = known.iter().chain(&self.old).filter_map(candidate).collect();
        drop(known);
        for candidate in all.iter_mut().filter(|candidate| candidate.receives) {
            candidate.channel = self.channel(&candidate.name).map_or_else(|| candidate.channel.clone(), Ok);
        }
        all.sort_by_key(|candidate| candidate.place.len());
        all
    }

    /// The targets of every channel.
    pub fn targets(&self) -> Vec<ChannelTargets> {
        let targets = |name: &str, channel: Arc<dyn Channel>| {
            let place =
                |place: String| if place.is_empty() { name.to_owned() } else { format!("{name}:{place}") };
            channel.places().into_iter().map(place).collect()
        };
        let known = self.known();
        let all = known.iter().chain(&self.old).map(|(name, known)| {
            let channel =
                self.channel(name).filter(|_| known.receives).map_or_else(|| known.channel.clone(), Ok);
            let targets = channel.map(|channel| targets(name, channel));
            ChannelTargets { name: name.clone(), receives: known.receives, targets }
        });
        all.collect()
    }

    /// Whether the operator has a channel of this name.
    pub fn is_known(&self, name: &str) -> bool {
        self.known().contains_key(name)
    }

    /// Whether the channel of this name does not receive.
    pub fn only_sends(&self, name: &str) -> bool {
        self.known().get(name).is_some_and(|known| !known.receives)
    }

    /// The names of all channels, without those of `[notify]`.
    pub fn names(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    /// Replaces the configuration of a channel.
    pub fn set_configured(&self, name: &str, settings: &Settings, opened: OpenedChannel) {
        self.known().insert(name.to_owned(), KnownChannel::new(settings, &Ok(opened)));
    }

    /// Notes that a channel is or was served, configured or not: deliveries to it wait until it is served again.
    pub fn mark_served(&self, name: &str) {
        let unknown = || {
            let why = format!("channel {name} is neither configured nor served");
            KnownChannel::without_kind(Err(why), true)
        };
        self.known().entry(name.to_owned()).or_insert_with(unknown).was_served = true;
    }

    /// The state of a channel and the last sentence about it. For a channel that is not served: the reason, if known.
    pub fn standing(&self, name: &str) -> (ChannelStatus, String) {
        if let Some(served) = self.served().get(name) {
            return served.journal.standing();
        }
        let configured = || match self.known().get(name)? {
            KnownChannel { channel: Err(why), .. } => Some(why.clone()),
            KnownChannel { receives, .. } => (!receives).then(|| "the channel only sends".to_owned()),
        };
        let failed = self.failed().get(name).cloned();
        (ChannelStatus::Idle, failed.or_else(configured).unwrap_or_default())
    }

    /// Notes why a channel could not be served.
    pub fn record_failure(&self, name: &str, why: String) {
        self.failed().insert(name.to_owned(), why);
    }

    /// The journal of a served channel.
    pub fn journal(&self, name: &str) -> Option<Arc<Journal>> {
        Some(Arc::clone(&self.served().get(name)?.journal))
    }

    /// Starts to serve a channel. If the channel is already served, only changed rules are applied.
    pub async fn serve(&self, service: Service) -> Result<Arc<Journal>, Failure> {
        let name = service.rules.channel.clone();
        let Some(chats) = self.chats.get() else {
            return Err(Failure::internal("the daemon is not ready"));
        };
        self.mark_served(name.as_str());
        if let Some(known) = self.known().get_mut(name.as_str()) {
            // A caller may run a send-only channel with an `allow` list of its own.
            known.receives = true;
        }
        if let Some(journal) =
            self.journal(name.as_str()).filter(|journal| journal.standing().0 != ChannelStatus::Stopped)
        {
            self.update_served(chats, service).await?;
            return Ok(journal);
        }
        self.failed().remove(name.as_str());
        self.served().remove(name.as_str());
        let locks = self.locks.get().cloned().unwrap_or_default();
        let holder = format!("the daemon with pid {}", std::process::id());
        let lock = lock::acquire(&locks, &service.channel.identity(), &holder)?;
        let journal = Arc::new(Journal::new(chats.bridge().redactor().clone()));
        // A hook gets messages as soon as it is in `served`, so the bridge must know its rules before.
        if service.channel.hook().is_some() {
            chats.open_channel(service.rules.clone()).await?;
        }
        let (channel, rules, fingerprint) =
            (Arc::clone(&service.channel), service.rules.clone(), service.fingerprint);
        let work = supervisor::run(chats.clone(), service, Arc::clone(&journal));
        let supervisor = tokio::spawn(work).abort_handle();
        let served =
            Served { channel, rules, fingerprint, journal: Arc::clone(&journal), supervisor, _lock: lock };
        self.served().insert(name.0, served);
        Ok(journal)
    }

    /// Applies a new configuration to a served channel. New rules apply at once; other platform settings need a pause first.
    async fn update_served(&self, chats: &Chats, mut service: Service) -> Result<(), Failure> {
        let name = service.rules.channel.clone();
        if let Some(served) = self.served().get(name.as_str()).filter(|_| service.uses_caller_dir) {
            // A caller in another directory does not move existing conversations there.
            service.rules.workspaces.clone_from(&served.rules.workspaces);
        }
        let is_same =
            |served: &Served| (served.fingerprint == service.fingerprint, served.rules == service.rules);
        match self.served().get(name.as_str()).map(is_same) {
            Some((true, true)) | None => return Ok(()),
            Some((true, false)) => {}
            Some((false, _)) => {
                let message = format!("channel {name} is already served, with other settings");
                return Err(Failure::new(Code::WrongState, message)
                    .hint(format!("`codex-bridge channel pause {name}` first, then run it again")));
            }
        }
        // Before the restart, since a person may have been removed from `allow`.
        chats.open_channel(service.rules.clone()).await?;
        let mut all = self.served();
        let Some(served) = all.get_mut(name.as_str()) else {
            // The channel was paused meanwhile.
            chats.close_channel(&name);
            return Ok(());
        };
        served.supervisor.abort();
        (served.channel, served.rules) = (Arc::clone(&service.channel), service.rules.clone());
        let work = supervisor::run(chats.clone(), service, Arc::clone(&served.journal));
        served.supervisor = tokio::spawn(work).abort_handle();
        Ok(())
    }

    /// Checks that a channel could be served, without changing anything. Asks the served channel if there is one, else the
    /// given one under its lock.
    pub async fn probe(&self, service: Service) -> Result<String, Failure> {
        let name = service.rules.channel.clone();
        // The text may repeat a secret that the platform was sent.
        let shown = |text: &str| match self.chats.get() {
            Some(chats) => chats.bridge().redactor().redact(text).into_owned(),
            None => text.to_owned(),
        };
        let unreachable =
            |why: &str| Failure::new(Code::ChannelUnreachable, format!("channel {name}: {}", shown(why)));
        let (served, (standing, about)) = (self.receiver(name.as_str()), self.standing(name.as_str()));
        let (channel, _lock) = match (standing, served) {
            (ChannelStatus::Serving, Some(served)) => (served, None),
            (ChannelStatus::Starting | ChannelStatus::Retrying, _) => {
                return Err(unreachable(&format!("{}: {about}", standing.as_str())));
            }
            // A stopped channel keeps its lock. Its configuration may have changed, so the given one is asked.
            (ChannelStatus::Stopped, _) => (service.channel, None),
            _ => {
                let locks = self.locks.get().cloned().unwrap_or_default();
                let holder = format!("the daemon with pid {}, which tests it", std::process::id());
                let lock = lock::acquire(&locks, &service.channel.identity(), &holder)?;
                (service.channel, Some(lock))
            }
        };
        let probed = channel.probe().await.map_err(|error| unreachable(error.reason()))?;
        Ok(shown(&probed))
    }

    /// Stops serving a channel.
    pub fn pause(&self, name: &str) {
        if let Some(served) = self.served().remove(name) {
            served.supervisor.abort();
            served.journal.set(name, ChannelStatus::Paused, "no messages are read");
        }
        if let Some(chats) = self.chats.get() {
            chats.close_channel(&name.into());
        }
    }
}
