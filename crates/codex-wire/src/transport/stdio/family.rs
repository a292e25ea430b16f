//! A child and its descendants, remembered so that all of them can be ended.
//!
//! codex 0.166 starts MCP servers and commands in process groups of their own, so a signal to the child's group does
//! not reach them. Once the child has ended, they can no longer be recognised as its descendants. So they are looked up
//! while it lives, and identified by pid and start time.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::end_processes::{EndLimits, LOOK_EVERY, end_all_by};
use crate::os::process::{self, Process};

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

    /// Looks up the descendants. Call this before the child is asked to exit.
    pub(super) fn remember(&self) {
        self.living();
    }

    /// The known processes that still run, and their new descendants.
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

    /// Waits for all to exit by themselves. Returns those that have not.
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

    /// Kills every process that is left. Returns those that could not be killed within the limit.
    pub(super) async fn kill(self: &Arc<Self>, send: Send, limit: Duration) -> BTreeSet<Process> {
        let family = Arc::clone(self);
        let limits = EndLimits { after_term: Duration::ZERO, after_kill: limit };
        let ended = spawn_blocking(move || {
            end_all_by(&mut || family.living(), &mut |process, signal| send(process, signal), limits)
        });
        match ended.await {
            Ok(Ok(())) => BTreeSet::new(),
            Ok(Err(left)) => left,
            // The runtime is shutting down.
            Err(_) => self.living(),
        }
    }
}
