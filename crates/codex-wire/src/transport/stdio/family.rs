//! A child and all that it started, remembered so that none of them outlives its end.
//!
//! MCP servers and commands have process groups of their own (codex 0.166), so a signal to the child's group does not
//! reach them; and once the child is gone nothing says whose they were. So they are looked up while it lives, and
//! every signal goes to a process that is known by number and start time.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;

use crate::os::process::{self, Process};

/// There is no event for the end of processes that are not our children.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How a signal is sent: [`Process::signal`].
pub(super) type Send = fn(Process, Signal) -> io::Result<bool>;

/// A child and its descendants, as far as they were seen.
#[derive(Debug)]
pub(super) struct Family {
    child: Process,
    known: Mutex<BTreeSet<Process>>,
}

impl Family {
    /// The family of a child that has just been started.
    pub(super) fn of(child: Process) -> Self {
        Self { child, known: Mutex::new(BTreeSet::from([child])) }
    }

    pub(super) fn child(&self) -> Process {
        self.child
    }

    /// Looks who is there. To be done before the child is asked to go.
    pub(super) fn remember(&self) {
        self.living();
    }

    /// Whoever is known and still runs, and what those have started meanwhile.
    fn living(&self) -> BTreeSet<Process> {
        let all = process::all();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let running = all.iter().filter(|stat| stat.is_running() && known.contains(&stat.process));
        let mut living: BTreeSet<Process> = running.map(|stat| stat.process).collect();
        let numbers = living.iter().map(|process| process.pid).collect();
        living.extend(process::descendants_in(&all, &numbers));
        known.extend(&living);
        living
    }

    /// Waits for all to go by themselves. Says who has not.
    pub(super) async fn wait(&self, limit: Duration) -> BTreeSet<Process> {
        let end = Instant::now() + limit;
        loop {
            let left = self.living();
            if left.is_empty() || Instant::now() >= end {
                return left;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Kills whoever is left. Says who could not be killed within the limit.
    pub(super) async fn kill(&self, send: Send, limit: Duration) -> BTreeSet<Process> {
        let end = Instant::now() + limit;
        loop {
            signal_all(&self.freeze(send), Signal::KILL, send);
            let left = self.wait(LOOK_EVERY * 10).await;
            if left.is_empty() || Instant::now() >= end {
                return left;
            }
        }
    }

    /// Stops everyone and looks again until there is no new one: what is stopped starts no more.
    fn freeze(&self, send: Send) -> BTreeSet<Process> {
        let mut frozen = BTreeSet::new();
        loop {
            let fresh: BTreeSet<Process> = self.living().difference(&frozen).copied().collect();
            if fresh.is_empty() {
                return frozen;
            }
            signal_all(&fresh, Signal::STOP, send);
            frozen.extend(fresh);
        }
    }
}

fn signal_all(processes: &BTreeSet<Process>, signal: Signal, send: Send) {
    for process in processes {
        // Whoever cannot be signalled is seen by the next look.
        send(*process, signal).ok();
    }
}
