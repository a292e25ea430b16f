//! Ends a set of processes for good: freeze them, look for children they made meanwhile, kill, wait until they are gone.
//!
//! Knows processes, not hosts: who belongs to the set is the caller's to say, again and again.

use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::os::process::Process;

/// How often we look whether a process has ended. There is no event for processes that are not our children.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long the polite part and the whole may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// Time to end by themselves after SIGTERM; zero sends none.
    pub(crate) after_term: Duration,
    /// Time until those that survive SIGKILL (asleep in the kernel, not ours to kill) are given up.
    pub(crate) after_kill: Duration,
}

/// Ends everyone whom `who` names until it names nobody. What cannot be ended comes back.
pub(crate) fn end_all(
    who: &mut dyn FnMut() -> BTreeSet<Process>,
    patience: Patience,
) -> Result<(), BTreeSet<Process>> {
    end_all_by(who, &mut Process::signal, patience)
}

fn end_all_by(
    who: &mut dyn FnMut() -> BTreeSet<Process>,
    send: &mut dyn FnMut(Process, Signal) -> io::Result<bool>,
    patience: Patience,
) -> Result<(), BTreeSet<Process>> {
    if !patience.after_term.is_zero() {
        signal_all(&who(), Signal::TERM, send);
        if wait_for_nobody(who, patience.after_term).is_empty() {
            return Ok(());
        }
    }
    let give_up_at = Instant::now() + patience.after_kill;
    loop {
        let frozen = freeze(who, send);
        signal_all(&frozen, Signal::KILL, send);
        let round = give_up_at.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        let left = wait_for_nobody(who, round);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= give_up_at {
            return Err(left);
        }
    }
}

/// Stops everyone and looks again until no new one has appeared: what is stopped makes no more children.
fn freeze(
    who: &mut dyn FnMut() -> BTreeSet<Process>,
    send: &mut dyn FnMut(Process, Signal) -> io::Result<bool>,
) -> BTreeSet<Process> {
    let mut frozen = BTreeSet::new();
    loop {
        let fresh: BTreeSet<Process> = who().difference(&frozen).copied().collect();
        if fresh.is_empty() {
            return frozen;
        }
        signal_all(&fresh, Signal::STOP, send);
        frozen.extend(fresh);
    }
}

fn signal_all(
    processes: &BTreeSet<Process>,
    signal: Signal,
    send: &mut dyn FnMut(Process, Signal) -> io::Result<bool>,
) {
    for process in processes {
        // Whoever may not be signalled is still named by the next look, and comes back as not ended.
        send(*process, signal).ok();
    }
}

fn wait_for_nobody(who: &mut dyn FnMut() -> BTreeSet<Process>, limit: Duration) -> BTreeSet<Process> {
    let end = Instant::now() + limit;
    loop {
        let left = who();
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests;
