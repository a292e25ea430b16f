//! Keeps the hosts of one program: finds them at its start, places threads on them, retires and replaces them.
//!
//! One owner holds the pool and tells it what happens to threads and turns; it speaks no protocol and decides nothing
//! about turns. Where a thread goes is decided in [`super::placement`], when a host goes in [`super::retirement`].

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::find::{Found, find_all};
use super::placement::{HostFacts, Placement, place};
use super::record::{Exit, Record};
use super::retirement::{Facts, Limits, Reason, retire_reason};
use super::stop::{sweep, sweep_unfinished};
use super::{Error, Host, Launch, Stop, in_thread, io_error, proc};

/// A quiet host has no turn to finish.
const QUIET_GRACE: Duration = Duration::from_secs(2);

/// Where a new thread goes, with the host at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// Start the thread here.
    On(Host),
    /// Ask again when a thread or a host has ended.
    Wait,
}

/// What [`Pool::maintain`] and [`Pool::attach`] found out.
#[derive(Debug)]
pub enum Change {
    /// A host does not run any more. Whatever it left behind has been ended and its directory removed, unless a
    /// [`Change::Failed`] follows.
    Died {
        /// What ran.
        record: Arc<Record>,
        /// How it ended, if that was seen.
        exit: Option<Exit>,
    },
    /// A host takes no new threads from now on.
    Retiring {
        /// The host.
        id: String,
        /// Why.
        reason: Reason,
    },
    /// A retiring host had no turn left and was ended.
    Retired {
        /// The host.
        id: String,
    },
    /// Something could not be done. It is tried again: for a living host at the next [`Pool::maintain`], for what a
    /// dead one left at the next [`Pool::attach`].
    Failed(Error),
}

/// The hosts under one root directory.
#[derive(Debug)]
pub struct Pool {
    root: PathBuf,
    limits: Limits,
    members: Vec<Member>,
}

#[derive(Debug)]
struct Member {
    host: Host,
    threads: BTreeSet<String>,
    active_turns: usize,
    retiring: bool,
}

impl Member {
    fn new(host: Host) -> Member {
        Member { host, threads: BTreeSet::new(), active_turns: 0, retiring: false }
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
    /// Takes over the hosts that live under `root` and clears away the dead ones. One pool per root at a time.
    pub async fn attach(root: &Path, limits: Limits) -> Result<(Pool, Vec<Change>), Error> {
        fs::create_dir_all(root).map_err(io_error("cannot make", root))?;
        let place = root.to_owned();
        let (hosts, changes) = in_thread("cannot look into", root, move || Ok(take_over(&place))).await?;
        let members = hosts.into_iter().map(Member::new).collect();
        Ok((Pool { root: root.to_owned(), limits, members }, changes))
    }

    /// The hosts at hand.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.members.iter().map(|member| &member.host)
    }

    /// A host for one more thread, started if need be. The directory in `wanted` is chosen here.
    pub async fn host_for(&mut self, wanted: &Launch) -> Result<Placed, Error> {
        // The dead ones stay listed until they are cleared away, and told, by `maintain`.
        let living = self.members.iter().filter(|member| member.host.is_alive());
        let facts: Vec<HostFacts> = living.map(Member::facts).collect();
        match place(&facts, &wanted.identity, &self.limits) {
            Placement::Wait => Ok(Placed::Wait),
            Placement::Use(id) => match self.members.iter().find(|member| member.host.id() == id) {
                Some(member) => Ok(Placed::On(member.host.clone())),
                None => Ok(Placed::Wait),
            },
            Placement::Start => {
                let launch = Launch { dir: self.new_dir()?, ..wanted.clone() };
                let host = Host::launch(&launch).await?;
                self.members.push(Member::new(host.clone()));
                Ok(Placed::On(host))
            }
        }
    }

    /// A thread is loaded on this host.
    pub fn thread_opened(&mut self, host_id: &str, thread_id: &str) {
        if let Some(member) = self.member(host_id) {
            member.threads.insert(thread_id.to_owned());
        }
    }

    /// A thread is not loaded there any more. A host that served one alone has nobody to wait for then.
    pub fn thread_closed(&mut self, host_id: &str, thread_id: &str) {
        if let Some(member) = self.member(host_id) {
            member.threads.remove(thread_id);
            member.retiring |= member.threads.is_empty() && !member.host.record().identity.alone.is_empty();
        }
    }

    /// A turn began on this host.
    pub fn turn_started(&mut self, host_id: &str) {
        if let Some(member) = self.member(host_id) {
            member.active_turns += 1;
        }
    }

    /// A turn on this host ended.
    pub fn turn_ended(&mut self, host_id: &str) {
        if let Some(member) = self.member(host_id) {
            member.active_turns = member.active_turns.saturating_sub(1);
        }
    }

    /// Looks after the hosts; to be called now and then. Dead ones are cleared away, those that should go take no new
    /// threads, and of these the ones without a turn are ended.
    pub async fn maintain(&mut self, wanted_version: &str) -> Vec<Change> {
        let mut changes = Vec::new();
        for mut member in std::mem::take(&mut self.members) {
            if !member.host.is_alive() {
                changes.extend(cleared(&member.host).await);
                continue;
            }
            if !member.retiring {
                let facts = facts_of(&member.host, &self.limits).await;
                if let Some(reason) = retire_reason(&facts, &self.limits, wanted_version) {
                    member.retiring = true;
                    changes.push(Change::Retiring { id: member.host.id().to_owned(), reason });
                }
            }
            if member.retiring && member.active_turns == 0 {
                match ended(&member.host).await {
                    Ok(()) => {
                        changes.push(Change::Retired { id: member.host.id().to_owned() });
                        continue;
                    }
                    Err(error) => changes.push(Change::Failed(error)),
                }
            }
            self.members.push(member);
        }
        changes
    }

    fn member(&mut self, host_id: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.host.id() == host_id)
    }

    /// Short, since a socket's path has to fit in its address.
    fn new_dir(&self) -> Result<PathBuf, Error> {
        let id = proc::random_id().map_err(io_error("cannot make an id from", Path::new("/proc")))?;
        Ok(self.root.join(id.get(..8).unwrap_or(&id)))
    }
}

fn take_over(root: &Path) -> (Vec<Host>, Vec<Change>) {
    let mut hosts = Vec::new();
    let mut changes = Vec::new();
    for (dir, found) in find_all(root) {
        match found {
            Ok(Found::Alive(host) | Found::KeeperGone(host)) => hosts.push(host),
            Ok(Found::Dead { record, exit }) => {
                changes.extend(sweep(&record).and_then(|()| remove(&dir)).err().map(Change::Failed));
                changes.push(Change::Died { record, exit });
            }
            Ok(Found::Unfinished { id }) => {
                changes.extend(sweep_unfinished(&id).and_then(|()| remove(&dir)).err().map(Change::Failed));
            }
            Err(error) => changes.push(Change::Failed(error)),
        }
    }
    (hosts, changes)
}

async fn cleared(host: &Host) -> Vec<Change> {
    let died = Change::Died { record: Arc::clone(&host.record), exit: host.exit() };
    let (record, dir) = (Arc::clone(&host.record), host.dir().to_owned());
    let work = move || sweep(&record).and_then(|()| remove(&dir));
    let failed = in_thread("cannot clear", host.dir(), work).await.err();
    std::iter::once(died).chain(failed.map(Change::Failed)).collect()
}

async fn ended(host: &Host) -> Result<(), Error> {
    host.stop(Stop::Drain { grace: QUIET_GRACE }).await?;
    remove(host.dir())
}

fn remove(dir: &Path) -> Result<(), Error> {
    fs::remove_dir_all(dir).map_err(io_error("cannot remove", dir))
}

async fn facts_of(host: &Host, limits: &Limits) -> Facts {
    Facts {
        age: host.age(),
        rss_bytes: host.rss_bytes(),
        version: host.record().codex_version.clone(),
        answers: host.is_healthy(limits.answer_within).await,
    }
}
