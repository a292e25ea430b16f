//! The channels that the operator has: which, how those are that this daemon serves, what they said lately.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
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

use super::hook::{Hook, Posted};
use super::lock;
use super::settings::{Kind, Mark, Service, Settings, Surroundings, Way};
use super::supervisor;
use super::targets::{Candidate, place_in};
use super::{Channel, KINDS, Receiving};
use crate::failure::{Code, Failure};

/// Lines that are remembered of a channel.
const LINES: usize = 100;

/// The channels that the operator has: those that only send, and those that this daemon serves.
pub struct Registry {
    begun: Instant,
    chats: OnceLock<Chats>,
    locks: OnceLock<PathBuf>,
    served: Mutex<BTreeMap<String, Served>>,
    /// All that the operator has, as they are configured.
    known: Mutex<BTreeMap<String, Known>>,
    /// Those of `[notify]`, by their targets.
    old: BTreeMap<String, Known>,
    /// Why those could not be served that were to be from the beginning.
    failed: Mutex<BTreeMap<String, String>>,
}

/// A channel as it is configured. One that receives is never served as such: it tells what places there are.
struct Known {
    kind: Option<&'static Kind>,
    channel: Result<Arc<dyn Channel>, String>,
    receives: bool,
    /// Whether it was served once, by this daemon or an earlier one.
    was_served: bool,
    /// Whether the settings of its platform stand in a table of their own, the old spelling.
    has_own_table: bool,
}

impl Known {
    fn new(settings: &Settings, opened: &Result<Way, Failure>) -> Self {
        let kind = settings.kind().and_then(Kind::named);
        let receives = match opened {
            Ok(way) => matches!(way, Way::Receives(_)),
            // Once it is put right, it may receive, unless its kind never does.
            Err(_) => kind.is_none_or(|kind| kind.receives),
        };
        let channel = opened.as_ref().map(Way::channel).map_err(ToString::to_string);
        Self { kind, channel, receives, was_served: false, has_own_table: settings.has_own_table }
    }

    /// One of which the channels of the file say nothing.
    fn of_no_kind(channel: Result<Arc<dyn Channel>, String>, receives: bool) -> Self {
        Self { kind: None, channel, receives, was_served: false, has_own_table: false }
    }

    /// The place of a target here, if it is one of this channel. A place of any channel can be named as a plugin's.
    fn place<'a>(&self, name: &str, target: &'a str) -> Option<&'a str> {
        let of_kind = |kind: &Kind| {
            let is_named = match self.kind {
                Some(own) => kind.name == own.name || kind.name == "plugin",
                // Of what kind it was is not known; `[notify]` has its kinds in its targets.
                None => self.was_served,
            };
            place_in(target.strip_prefix(kind.name).filter(|_| is_named)?.strip_prefix(':')?, name)
        };
        KINDS.iter().find_map(of_kind).or_else(|| place_in(target, name))
    }
}

/// What a look at a channel found.
pub struct Surveyed {
    /// Its name.
    pub name: String,
    /// Whether it receives.
    pub receives: bool,
    /// Its targets, or why it cannot be used.
    pub targets: Result<Vec<String>, String>,
}

struct Served {
    channel: Arc<dyn Receiving>,
    rules: Rules,
    mark: Mark,
    journal: Arc<Journal>,
    supervisor: AbortHandle,
    _held: lock::Held,
}

/// How a channel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is being reached.
    Starting,
    /// Messages come in.
    Serving,
    /// It failed, and is tried again.
    Retrying,
    /// Somebody has it rest.
    Paused,
    /// It cannot go on by itself.
    Stopped,
    /// Nobody has started it.
    Idle,
}

impl Standing {
    /// As it is written everywhere.
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

/// What a channel said lately, and how it is.
#[derive(Debug)]
pub struct Journal {
    redactor: Redactor,
    standing: watch::Sender<(Standing, String)>,
    said: Mutex<Said>,
}

#[derive(Debug, Default)]
struct Said {
    /// How many lines were said in all.
    count: u64,
    /// The last of them.
    lines: VecDeque<String>,
}

impl Journal {
    fn new(redactor: Redactor) -> Self {
        Self {
            redactor,
            standing: watch::Sender::new((Standing::Starting, String::new())),
            said: Mutex::default(),
        }
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How it is now, and a sentence about it, which is said if it is new.
    pub fn set(&self, name: &str, standing: Standing, sentence: &str) {
        // A platform may repeat what it was sent.
        let sentence = &*self.redactor.redact(sentence);
        let now = (standing, sentence.to_owned());
        let is_new = self.standing.send_if_modified(|before| {
            let is_new = *before != now;
            before.clone_from(&now);
            is_new
        });
        if is_new {
            let said = format!("{}: {sentence}", standing.as_str());
            match standing {
                Standing::Stopped => tracing::error!(channel = name, "{said}"),
                Standing::Retrying => tracing::warn!(channel = name, "{said}"),
                _ => tracing::info!(channel = name, "{said}"),
            }
            self.remember(name, &said);
        }
    }

    /// Keeps a line for those who follow the channel.
    fn remember(&self, name: &str, line: &str) {
        let line = format!("{:.0} channel {name} {line}", Timestamp::now());
        let mut said = self.said();
        said.count += 1;
        said.lines.push_back(line);
        if said.lines.len() > LINES {
            said.lines.pop_front();
        }
    }

    /// How it is, and the last sentence about it.
    pub fn standing(&self) -> (Standing, String) {
        self.standing.borrow().clone()
    }

    /// Comes back with the reason when it cannot go on by itself.
    pub async fn stopped(&self) -> String {
        let mut standing = self.standing.subscribe();
        // An error would mean that the sender, which we hold, has gone.
        standing.wait_for(|(standing, _)| *standing == Standing::Stopped).await.ok();
        self.standing().1
    }

    /// The lines after so many, as far as they are remembered, and how many there are in all.
    pub fn lines_after(&self, count: u64) -> (Vec<String>, u64) {
        let said = self.said();
        let first = said.count - said.lines.len() as u64;
        let skip = usize::try_from(count.saturating_sub(first)).unwrap_or(usize::MAX);
        (said.lines.iter().skip(skip).cloned().collect(), said.count)
    }
}

impl Registry {
    /// The channels of a file; `notify` are those of its old section.
    pub fn new(
        channels: &BTreeMap<String, Settings>,
        notify: &BTreeMap<String, Settings>,
        around: Surroundings<'_>,
    ) -> Self {
        // One that is served only when somebody runs it works where that is.
        let cwd = std::env::current_dir().ok();
        let open = |(name, settings): (&String, &Settings)| {
            let around = Surroundings { cwd: cwd.as_ref().filter(|_| settings.common.manual), ..around };
            (name.clone(), Known::new(settings, &settings.open(name, around)))
        };
        let old = notify.iter().map(|(target, settings)| {
            let channel = settings.way(target, around).map(|way| way.channel());
            // One that cannot be used is given up, as ever, and not waited for.
            (target.clone(), Known::of_no_kind(channel, false))
        });
        Self {
            begun: Instant::now(),
            chats: OnceLock::new(),
            locks: OnceLock::new(),
            served: Mutex::default(),
            known: Mutex::new(channels.iter().map(open).collect()),
            old: old.collect(),
            failed: Mutex::default(),
        }
    }

    /// From here on channels can be served.
    pub fn ready(&self, chats: Chats, locks: PathBuf) {
        // The first one stands.
        self.chats.set(chats).ok();
        self.locks.set(locks).ok();
    }

    /// For how long there have been channels here.
    pub(super) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<String, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receiver(&self, name: &str) -> Option<Arc<dyn Receiving>> {
        Some(Arc::clone(&self.served().get(name)?.channel))
    }

    /// A channel of this name, if it is served.
    pub fn channel(&self, name: &str) -> Option<Arc<dyn Channel>> {
        Some(self.receiver(name)?)
    }

    /// What somebody posted to a hook of this name; none if there is no such hook, or it is not served.
    pub fn posted(&self, name: &str, posted: &Posted<'_>) -> Option<Result<Arrival, Failure>> {
        let channel: Arc<dyn Any> = self.receiver(name)?;
        Some(channel.downcast_ref::<Hook>()?.posted(posted))
    }

    /// The channels that a target may lead to, the one whose name says most first; those of the old section come last.
    pub(super) fn candidates<'a>(&self, target: &'a str) -> Vec<Candidate<'a>> {
        let known = self.known();
        let candidate = |(name, known): (&String, &Known)| {
            let place = known.place(name, target)?;
            let can_receive = known.kind.is_some_and(|kind| kind.receives);
            Some(Candidate {
                name: name.clone(),
                place,
                channel: known.channel.clone(),
                receives: known.receives,
                was_served: known.was_served && can_receive,
                can_receive,
                has_own_table: known.has_own_table,
            })
        };
        let mut all: Vec<_> = known.iter().chain(&self.old).filter_map(candidate).collect();
        drop(known);
        for one in all.iter_mut().filter(|one| one.receives) {
            one.channel = self.channel(&one.name).map_or_else(|| one.channel.clone(), Ok);
        }
        all.sort_by_key(|one| one.place.len());
        all
    }

    /// The targets of each channel, or why it cannot be used.
    pub fn survey(&self) -> Vec<Surveyed> {
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
            Surveyed { name: name.clone(), receives: known.receives, targets }
        });
        all.collect()
    }

    /// Whether the operator has a channel of this name.
    pub fn is_known(&self, name: &str) -> bool {
        self.known().contains_key(name)
    }

    /// Whether nothing comes in by the channel of this name.
    pub fn only_sends(&self, name: &str) -> bool {
        self.known().get(name).is_some_and(|known| !known.receives)
    }

    /// The names of all that the operator has, but for those of the old section.
    pub fn names(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    /// The operator has configured a channel of this name anew.
    pub fn configured(&self, name: &str, settings: &Settings, way: Way) {
        self.known().insert(name.to_owned(), Known::new(settings, &Ok(way)));
    }

    /// A channel of this name is or was served, configured or not: what is to be said there waits for it.
    pub fn know(&self, name: &str) {
        let unknown = || {
            let why = format!("channel {name} is not configured, and not served now");
            Known::of_no_kind(Err(why), true)
        };
        self.known().entry(name.to_owned()).or_insert_with(unknown).was_served = true;
    }

    /// How a channel is, and the last sentence about it: of one that is not served, why it cannot be, if that is known.
    pub fn standing(&self, name: &str) -> (Standing, String) {
        if let Some(served) = self.served().get(name) {
            return served.journal.standing();
        }
        let configured = || match self.known().get(name)? {
            Known { channel: Err(why), .. } => Some(why.clone()),
            Known { receives, .. } => (!receives).then(|| "it only sends".to_owned()),
        };
        let failed = self.failed().get(name).cloned();
        (Standing::Idle, failed.or_else(configured).unwrap_or_default())
    }

    /// It could not be served, for this reason.
    pub fn not_served(&self, name: &str, why: String) {
        self.failed().insert(name.to_owned(), why);
    }

    /// What a channel said, and will say.
    pub fn journal(&self, name: &str) -> Option<Arc<Journal>> {
        Some(Arc::clone(&self.served().get(name)?.journal))
    }

    /// Serves a channel from here on. One that is served already goes on as it is, unless it has stopped; under other rules
    /// it begins anew.
    pub async fn serve(&self, service: Service) -> Result<Arc<Journal>, Failure> {
        let name = service.rules.channel.clone();
        let Some(chats) = self.chats.get() else {
            return Err(Failure::internal("the daemon is not ready"));
        };
        self.know(name.as_str());
        if let Some(known) = self.known().get_mut(name.as_str()) {
            // One that only sends by the file may be run for people whom the caller names.
            known.receives = true;
        }
        if let Some(journal) =
            self.journal(name.as_str()).filter(|journal| journal.standing().0 != Standing::Stopped)
        {
            self.serve_otherwise(chats, service).await?;
            return Ok(journal);
        }
        self.failed().remove(name.as_str());
        self.served().remove(name.as_str());
        let locks = self.locks.get().cloned().unwrap_or_default();
        let holder = format!("the daemon with pid {}", std::process::id());
        let held = lock::hold(&locks, &service.channel.identity(), &holder)?;
        let journal = Arc::new(Journal::new(chats.bridge().redactor().clone()));
        // A hook can be posted to from the moment that it is found here: the bridge has to know what to make of it.
        if is_hook(&service) {
            chats.open_channel(service.rules.clone()).await?;
        }
        let (channel, rules, mark) = (Arc::clone(&service.channel), service.rules.clone(), service.mark);
        let work = supervisor::run(chats.clone(), service, Arc::clone(&journal));
        let supervisor = tokio::spawn(work).abort_handle();
        let served = Served { channel, rules, mark, journal: Arc::clone(&journal), supervisor, _held: held };
        self.served().insert(name.0, served);
        Ok(journal)
    }

    /// One that is served, as it is opened now: other rules hold at once, another way to the platform has to be asked for.
    async fn serve_otherwise(&self, chats: &Chats, mut service: Service) -> Result<(), Failure> {
        let name = service.rules.channel.clone();
        if let Some(served) = self.served().get(name.as_str()).filter(|_| service.works_here) {
            // Whoever only looks on from elsewhere moves no conversation there.
            service.rules.workspaces.clone_from(&served.rules.workspaces);
        }
        let is_as = |served: &Served| (served.mark == service.mark, served.rules == service.rules);
        match self.served().get(name.as_str()).map(is_as) {
            Some((true, true)) | None => return Ok(()),
            Some((true, false)) => {}
            Some((false, _)) => {
                let message = format!("channel {name} is served already, with other settings");
                return Err(Failure::new(Code::WrongState, message)
                    .hint(format!("`codex-bridge channel pause {name}` first, then run it again")));
            }
        }
        // Whatever its platform does now: somebody may have been taken off the list.
        chats.open_channel(service.rules.clone()).await?;
        let mut all = self.served();
        let Some(served) = all.get_mut(name.as_str()) else {
            // It was told to rest meanwhile.
            chats.close_channel(&name);
            return Ok(());
        };
        served.supervisor.abort();
        (served.channel, served.rules) = (Arc::clone(&service.channel), service.rules.clone());
        let work = supervisor::run(chats.clone(), service, Arc::clone(&served.journal));
        served.supervisor = tokio::spawn(work).abort_handle();
        Ok(())
    }

    /// Looks whether a channel could work, without changing anything: the one that is served, or else this one, for as long
    /// as nobody else serves it.
    pub async fn probe(&self, service: Service) -> Result<String, Failure> {
        let name = service.rules.channel.clone();
        // A platform may repeat what it was sent.
        let shown = |text: &str| match self.chats.get() {
            Some(chats) => chats.bridge().redactor().redact(text).into_owned(),
            None => text.to_owned(),
        };
        let unreachable =
            |why: &str| Failure::new(Code::ChannelUnreachable, format!("channel {name}: {}", shown(why)));
        let (served, (standing, about)) = (self.receiver(name.as_str()), self.standing(name.as_str()));
        let (channel, _held) = match (standing, served) {
            (Standing::Serving, Some(served)) => (served, None),
            (Standing::Starting | Standing::Retrying, _) => {
                return Err(unreachable(&format!("it is {}: {about}", standing.as_str())));
            }
            // What has stopped is still ours; it may be configured otherwise by now.
            (Standing::Stopped, _) => (service.channel, None),
            _ => {
                let locks = self.locks.get().cloned().unwrap_or_default();
                let holder = format!("the daemon with pid {}, which looks at it", std::process::id());
                let held = lock::hold(&locks, &service.channel.identity(), &holder)?;
                (service.channel, Some(held))
            }
        };
        let probed = channel.probe().await.map_err(|trouble| unreachable(trouble.sentence()))?;
        Ok(shown(&probed))
    }

    /// Serves a channel no more.
    pub fn rest(&self, name: &str) {
        if let Some(served) = self.served().remove(name) {
            served.supervisor.abort();
            served.journal.set(name, Standing::Paused, "it rests");
        }
        if let Some(chats) = self.chats.get() {
            chats.close_channel(&name.into());
        }
    }
}

fn is_hook(service: &Service) -> bool {
    let channel: &dyn Any = &*service.channel;
    channel.is::<Hook>()
}
