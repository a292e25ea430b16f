//! The hosts of one program: finds them at its start, places threads on them, retires and replaces them.
//!
//! The program reports threads and turns to the pool. The pool speaks no protocol and decides nothing about turns.
//! [`super::placement`] decides on which host a thread runs, [`super::retirement`] when a host is replaced.
//!
//! The list of hosts is under a lock that is never held over a wait: a host that boots, answers slowly or ends blocks
//! no reader. A booting host is listed from the beginning, so that no second host is started for the same threads. Its
//! processes are known from the moment that its keeper exists.

mod boot;
mod maintenance;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tracing::{error, info, warn};

use super::launcher::Client;
use super::origin::Origin;
use super::placement::HostFacts;
use super::record::{Exit, Record};
use super::retirement::{Limits, Reason};
use super::{Error, Host, Reach, in_thread, io_error};
use crate::Epoch;
use boot::Booting;
use maintenance::Inventory;

pub(crate) use maintenance::{clear_away, take_over};

/// Most changes that are kept until [`Pool::maintain`] returns them; there are fewer hosts than this.
const MOST_CHANGES: usize = 256;

/// Where a new thread goes, with the host itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// Start the thread here.
    On(Host),
    /// Ask again when a thread or a host has ended.
    Wait,
}

/// A change that [`Pool::maintain`] or [`Pool::attach`] reports.
#[derive(Debug)]
pub enum Change {
    /// A host no longer runs, or was ended because it had lost its keeper. Its known remaining processes were ended and
    /// its directory was removed, unless a [`Change::Failed`] follows or unknown processes may be left.
    Died {
        /// The record of the host.
        record: Arc<Record>,
        /// How it ended, if that is known.
        exit: Option<Exit>,
    },
    /// A host takes no new threads from now on.
    Retiring {
        /// The host.
        id: String,
        /// Why.
        reason: Reason,
    },
    /// A retired host had no turn left and was ended.
    Retired {
        /// The host.
        id: String,
    },
    /// Something failed. It is tried again: for a living host at the next [`Pool::maintain`], for the remains of a dead
    /// one at the next [`Pool::attach`].
    Failed(Error),
}

impl Change {
    fn tell(&self) {
        match self {
            Self::Died { record, exit } => {
                let (code, signal) = exit.as_ref().map(|exit| (exit.code, exit.signal)).unwrap_or_default();
                let why = exit.as_ref().and_then(|exit| exit.error.as_deref());
                let orphaned = exit.as_ref().map_or(&[][..], |exit| &exit.orphaned);
                warn!(host = record.id, code, signal, why, ?orphaned, "a host has ended");
            }
            Self::Retiring { id, reason } => info!(host = id, ?reason, "a host takes no new threads"),
            Self::Retired { id } => info!(host = id, "a retired host has ended"),
            Self::Failed(error) => error!(%error, "the maintenance of hosts failed"),
        }
    }
}

/// The hosts under one root directory. Cheap to clone; all clones are the same pool.
#[derive(Debug, Clone)]
pub struct Pool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    root: PathBuf,
    reach: Reach,
    limits: Limits,
    state: Mutex<State>,
    /// Counts the hosts that ended, for callers that wait for an end.
    ends: watch::Sender<u64>,
    /// Cancels the boots that are under way.
    given_up: watch::Sender<bool>,
}

#[derive(Debug, Default)]
struct State {
    members: Vec<Member>,
    booting: Vec<Booting>,
    /// Hosts that were ended because they had lost their keeper. Processes of theirs may be left that could not be
    /// found.
    lost: Vec<Lost>,
    /// Changes for the next [`Pool::maintain`].
    changes: Vec<Change>,
}

#[derive(Debug)]
struct Member {
    host: Host,
    origin: Origin,
    threads: BTreeSet<String>,
    active_turns: usize,
    retiring: bool,
    /// It is being ended.
    ending: bool,
}

#[derive(Debug)]
struct Lost {
    dir: PathBuf,
    origin: Origin,
}

impl Member {
    fn new(host: Host) -> Member {
        let origin = Origin::of(host.record(), host.dir().to_owned());
        Member { host, origin, threads: BTreeSet::new(), active_turns: 0, retiring: false, ending: false }
    }

    /// Whether it takes threads: a host without its keeper is about to be ended.
    fn serves(&self) -> bool {
        !self.ending && self.host.is_alive() && self.host.has_keeper()
    }

    fn facts(&self) -> HostFacts {
        HostFacts {
            id: self.host.id().to_owned(),
            identity: self.host.record().identity.clone(),
            threads: self.threads.len(),
            retiring: self.retiring,
        }
    }
}

impl Pool {
    /// Takes over the living hosts under `root` and cleans up the dead ones. One pool per root at a time. Call it
    /// within a runtime, in which the keepers are watched.
    pub async fn attach(root: &Path, limits: Limits) -> Result<(Pool, Vec<Change>), Error> {
        fs::create_dir_all(root).map_err(io_error("cannot make", root))?;
        let place = root.to_owned();
        let found = in_thread("cannot look into", root, move || Ok(maintenance::inventory(&place))).await?;
        Ok(Self::holding(root, limits, Reach::Own, found))
    }

    /// The same for the hosts of another user, which live under the launcher's root.
    pub async fn attach_through(
        launcher: &Client,
        root: &Path,
        limits: Limits,
    ) -> Result<(Pool, Vec<Change>), Error> {
        let (hosts, changes) = launcher.take_over(root).await?;
        // A launcher reports no lost hosts: their processes run as another user, so they cannot be mistaken for ours.
        let found = Inventory { hosts, lost: Vec::new(), changes };
        Ok(Self::holding(root, limits, Reach::Launcher(launcher.clone()), found))
    }

    fn holding(root: &Path, limits: Limits, reach: Reach, found: Inventory) -> (Pool, Vec<Change>) {
        let hosts = found.hosts.clone();
        let state = State {
            members: found.hosts.into_iter().map(Member::new).collect(),
            lost: found.lost,
            ..State::default()
        };
        let shared = Shared {
            root: root.to_owned(),
            reach,
            limits,
            state: Mutex::new(state),
            ends: watch::Sender::default(),
            given_up: watch::Sender::default(),
        };
        let pool = Pool { shared: Arc::new(shared) };
        for host in hosts {
            pool.watch_keeper(host);
        }
        found.changes.iter().for_each(Change::tell);
        (pool, found.changes)
    }

    /// How the hosts are reached.
    pub fn reach(&self) -> &Reach {
        &self.shared.reach
    }

    /// The running hosts.
    pub fn hosts(&self) -> Vec<Host> {
        self.state().members.iter().map(|member| member.host.clone()).collect()
    }

    /// How many hosts have ended since the pool was attached.
    pub fn ends(&self) -> u64 {
        *self.shared.ends.borrow()
    }

    /// How to recognise the processes of all hosts: running, booting, and ended ones of which processes may be left.
    /// Empty for hosts of another user, whose processes are recognised by their user.
    pub fn origins(&self) -> Vec<Origin> {
        if self.shared.reach != Reach::Own {
            return Vec::new();
        }
        let state = self.state();
        let members = state.members.iter().map(|member| &member.origin);
        let booting = state.booting.iter().filter_map(|booting| booting.origin.as_ref());
        members.chain(booting).chain(state.lost.iter().map(|lost| &lost.origin)).cloned().collect()
    }

    /// The living host of an epoch. If it is being ended, this waits for the end, so that its threads are not resumed
    /// before.
    pub async fn find(&self, epoch: &Epoch) -> Option<Host> {
        let mut ends = self.shared.ends.subscribe();
        loop {
            let (host, ending) = {
                let state = self.state();
                let member = state.members.iter().find(|member| member.host.epoch() == epoch)?;
                (member.serves().then(|| member.host.clone()), member.ending)
            };
            if !ending {
                return host;
            }
            // This cannot fail: we hold the pool.
            ends.changed().await.ok()?;
        }
    }

    /// Reports that a thread is loaded on this host.
    pub fn thread_opened(&self, host_id: &str, thread_id: &str) {
        self.change(host_id, |member| {
            member.threads.insert(thread_id.to_owned());
        });
    }

    /// Reports that a thread is no longer loaded on this host. A host with a single client is retired then.
    pub fn thread_closed(&self, host_id: &str, thread_id: &str) {
        self.change(host_id, |member| {
            member.threads.remove(thread_id);
            member.retiring |= member.threads.is_empty() && !member.host.record().identity.alone.is_empty();
        });
    }

    /// Reports that a turn began on this host.
    pub fn turn_started(&self, host_id: &str) {
        self.change(host_id, |member| member.active_turns += 1);
    }

    /// Reports that a turn on this host ended.
    pub fn turn_ended(&self, host_id: &str) {
        self.change(host_id, |member| member.active_turns = member.active_turns.saturating_sub(1));
    }

    fn change(&self, host_id: &str, change: impl FnOnce(&mut Member)) {
        if let Some(member) = self.state().members.iter_mut().find(|member| member.host.id() == host_id) {
            change(member);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn note(&mut self, changes: impl IntoIterator<Item = Change>) {
        self.changes.extend(changes.into_iter().inspect(Change::tell));
        let surplus = self.changes.len().saturating_sub(MOST_CHANGES);
        self.changes.drain(..surplus);
    }
}
