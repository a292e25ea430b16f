//! The channels that this daemon serves: which, how they are, what they said lately.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use codex_bridge_core::Bridge;
use codex_bridge_core::inbox::Rules;
use jiff::Timestamp;
use redact::Redactor;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::Channel;
use super::keep;
use super::serving;
use super::settings::{Mark, Opened};
use crate::failure::{Code, Failure};

/// Lines that are remembered of a channel.
const LINES: usize = 100;

/// The channels that this daemon serves.
#[derive(Default)]
pub struct Registry {
    bridge: OnceLock<Bridge>,
    locks: OnceLock<PathBuf>,
    served: Mutex<BTreeMap<String, Served>>,
    /// Those that the operator has, served or not, as they are configured.
    known: Mutex<BTreeMap<String, Configured>>,
    /// Why those could not be served that were to be from the beginning.
    failed: Mutex<BTreeMap<String, String>>,
}

/// A channel as it is configured, which is never served: it tells what places there are. Or why there is none.
type Configured = Result<Arc<dyn Channel>, String>;

struct Served {
    channel: Arc<dyn Channel>,
    rules: Rules,
    mark: Mark,
    journal: Arc<Journal>,
    supervisor: AbortHandle,
    _held: keep::Held,
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
            self.say(name, &format!("{}: {sentence}", standing.as_str()));
        }
    }

    /// One line, for people.
    pub fn say(&self, name: &str, line: &str) {
        let line = format!("{:.0} channel {name} {line}", Timestamp::now());
        eprintln!("{line}");
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
        let _ = standing.wait_for(|(standing, _)| *standing == Standing::Stopped).await;
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
    /// From here on channels can be served.
    pub fn ready(&self, bridge: Bridge, locks: PathBuf) {
        // The first one stands.
        let _ = self.bridge.set(bridge);
        let _ = self.locks.set(locks);
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<String, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Configured>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A channel of this name, if it is served.
    pub fn channel(&self, name: &str) -> Option<Arc<dyn Channel>> {
        Some(Arc::clone(&self.served().get(name)?.channel))
    }

    /// What tells the places of a channel: the one that is served, or else as it is configured, or why neither is there.
    /// None if the operator has no channel of this name.
    pub fn guide(&self, name: &str) -> Option<Result<Arc<dyn Channel>, String>> {
        let known = self.known().get(name)?.clone();
        Some(self.channel(name).map_or(known, Ok))
    }

    /// Whether the operator has a channel of this name.
    pub fn is_known(&self, name: &str) -> bool {
        self.known().contains_key(name)
    }

    /// The names of all that the operator has.
    pub fn names(&self) -> Vec<String> {
        self.known().keys().cloned().collect()
    }

    /// The operator has configured a channel of this name: as this one, which is not served, or so that it cannot be.
    pub fn configured(&self, name: &str, opened: Result<Opened, Failure>) {
        let channel = opened.map(|opened| opened.channel).map_err(|failure| failure.to_string());
        self.known().insert(name.to_owned(), channel);
    }

    /// There is or was a channel of this name, configured or not: what is to be said there waits for it.
    pub fn know(&self, name: &str) {
        let unknown = || Err(format!("channel {name} is not configured, and not served now"));
        self.known().entry(name.to_owned()).or_insert_with(unknown);
    }

    /// How a channel is, and the last sentence about it: of one that is not served, why it cannot be, if that is known.
    pub fn standing(&self, name: &str) -> (Standing, String) {
        if let Some(served) = self.served().get(name) {
            return served.journal.standing();
        }
        let configured = || self.known().get(name).and_then(|known| known.clone().err());
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
    pub async fn serve(&self, opened: Opened) -> Result<Arc<Journal>, Failure> {
        let name = opened.rules.channel.clone();
        let Some(bridge) = self.bridge.get() else {
            return Err(Failure::internal("the daemon is not ready"));
        };
        self.know(name.as_str());
        if let Some(journal) =
            self.journal(name.as_str()).filter(|journal| journal.standing().0 != Standing::Stopped)
        {
            self.serve_otherwise(bridge, opened).await?;
            return Ok(journal);
        }
        self.failed().remove(name.as_str());
        self.served().remove(name.as_str());
        let locks = self.locks.get().cloned().unwrap_or_default();
        let holder = format!("the daemon with pid {}", std::process::id());
        let held = keep::hold(&locks, &opened.channel.identity(), &holder)?;
        let journal = Arc::new(Journal::new(bridge.redactor().clone()));
        let (channel, rules, mark) = (Arc::clone(&opened.channel), opened.rules.clone(), opened.mark);
        let work = serving::run(bridge.clone(), opened, Arc::clone(&journal));
        let supervisor = tokio::spawn(work).abort_handle();
        let served = Served { channel, rules, mark, journal: Arc::clone(&journal), supervisor, _held: held };
        self.served().insert(name.0, served);
        Ok(journal)
    }

    /// One that is served, as it is opened now: other rules hold at once, another way to the platform has to be asked for.
    async fn serve_otherwise(&self, bridge: &Bridge, mut opened: Opened) -> Result<(), Failure> {
        let name = opened.rules.channel.clone();
        if let Some(served) = self.served().get(name.as_str()).filter(|_| opened.works_here) {
            // Whoever only looks on from elsewhere moves no conversation there.
            opened.rules.workspaces.clone_from(&served.rules.workspaces);
        }
        let is_as = |served: &Served| (served.mark == opened.mark, served.rules == opened.rules);
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
        bridge.open_channel(opened.rules.clone()).await?;
        let mut all = self.served();
        let Some(served) = all.get_mut(name.as_str()) else {
            // It was told to rest meanwhile.
            bridge.close_channel(&name);
            return Ok(());
        };
        served.supervisor.abort();
        (served.channel, served.rules) = (Arc::clone(&opened.channel), opened.rules.clone());
        let work = serving::run(bridge.clone(), opened, Arc::clone(&served.journal));
        served.supervisor = tokio::spawn(work).abort_handle();
        Ok(())
    }

    /// Looks whether a channel could work, without changing anything: the one that is served, or else this one, for as long
    /// as nobody else serves it.
    pub async fn probe(&self, opened: Opened) -> Result<String, Failure> {
        let name = opened.rules.channel.clone();
        // A platform may repeat what it was sent.
        let shown = |text: &str| match self.bridge.get() {
            Some(bridge) => bridge.redactor().redact(text).into_owned(),
            None => text.to_owned(),
        };
        let unreachable =
            |why: &str| Failure::new(Code::ChannelUnreachable, format!("channel {name}: {}", shown(why)));
        let (served, (standing, about)) = (self.channel(name.as_str()), self.standing(name.as_str()));
        let (channel, _held) = match (standing, served) {
            (Standing::Serving, Some(served)) => (served, None),
            (Standing::Starting | Standing::Retrying, _) => {
                return Err(unreachable(&format!("it is {}: {about}", standing.as_str())));
            }
            // What has stopped is still ours; it may be configured otherwise by now.
            (Standing::Stopped, _) => (opened.channel, None),
            _ => {
                let locks = self.locks.get().cloned().unwrap_or_default();
                let holder = format!("the daemon with pid {}, which looks at it", std::process::id());
                let held = keep::hold(&locks, &opened.channel.identity(), &holder)?;
                (opened.channel, Some(held))
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
        if let Some(bridge) = self.bridge.get() {
            bridge.close_channel(&name.into());
        }
    }
}
