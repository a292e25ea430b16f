//! Ends a set of processes: stops them, looks for children that they started meanwhile, kills all, and waits until they
//! are gone.
//!
//! Knows processes, not hosts. The caller passes a function that lists the processes that are left.

use std::collections::BTreeSet;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::os::process::Process;

/// Pause between two checks whether a process has ended. The kernel sends no event for processes that are not our children.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long the processes may take to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EndLimits {
    /// After SIGTERM; with zero, no SIGTERM is sent.
    pub(crate) after_term: Duration,
    /// After SIGKILL. A process may survive it: blocked in the kernel, or of another user.
    pub(crate) after_kill: Duration,
}

/// Ends all processes that `targets` lists, until it lists none. Returns those that could not be ended.
pub(crate) fn end_all(
    targets: &mut dyn FnMut() -> BTreeSet<Process>,
    limits: EndLimits,
) -> Result<(), BTreeSet<Process>> {
    end_all_by(targets, &mut Process::signal, limits)
}

/// The same with `send` in place of [`Process::signal`].
pub(crate) fn end_all_by(
    targets: &mut dyn FnMut() -> BTreeSet<Process>,
    send: &mut dyn FnMut(Process, Signal) -> io::Result<bool>,
    limits: EndLimits,
) -> Result<(), BTreeSet<Process>> {
    if !limits.after_term.is_zero() {
        signal_all(&targets(), Signal::TERM, send);
        if wait_until_gone(targets, limits.after_term).is_empty() {
            return Ok(());
        }
    }
    let give_up_at = Instant::now() + limits.after_kill;
    loop {
        let frozen = freeze(targets, send);
        signal_all(&frozen, Signal::KILL, send);
        let round = give_up_at.saturating_duration_since(Instant::now()).min(Duration::from_secs(1));
        let left = wait_until_gone(targets, round);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= give_up_at {
            return Err(left);
        }
    }
}

/// Stops all processes, until no new one has appeared: a stopped process starts no children.
fn freeze(
    targets: &mut dyn FnMut() -> BTreeSet<Process>,
    send: &mut dyn FnMut(Process, Signal) -> io::Result<bool>,
) -> BTreeSet<Process> {
    let mut frozen = BTreeSet::new();
    loop {
        let fresh: BTreeSet<Process> = targets().difference(&frozen).copied().collect();
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
        // A process that cannot be signalled is still listed by `targets` afterwards, and returned as not ended.
        send(*process, signal).ok();
    }
}

fn wait_until_gone(targets: &mut dyn FnMut() -> BTreeSet<Process>, limit: Duration) -> BTreeSet<Process> {
    let end = Instant::now() + limit;
    loop {
        let left = targets();
        if left.is_empty() || Instant::now() >= end {
            return left;
        }
        thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests;
