//! Ends a host with all that belongs to it, with the help of its keeper or, when somebody killed that, without.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::ending::{LOOK_EVERY, Patience, end_all};
use super::find::is_this_boot;
use super::keeper::{QUICK_END_IN_ALL, remove_socket};
use super::record::{Files, MARKER, Record};
use super::{Error, Host, in_thread};
use crate::os::process::{self, Process, Stat};

/// What has lost its keeper: a moment to end by itself, then it is killed.
const SWEEP: Patience =
    Patience { after_term: Duration::from_millis(500), after_kill: Duration::from_secs(10) };

/// How a host is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Let it finish its running turns for at most this long.
    Drain {
        /// After this, as with [`Stop::Now`].
        grace: Duration,
    },
    /// Interrupt its turns.
    Now,
}

pub(crate) async fn stop(host: &Host, how: Stop) -> Result<(), Error> {
    if let Stop::Drain { grace } = how {
        if is_first_to_drain(host) {
            let asked = if host.has_keeper() { host.record.keeper } else { host.record.codex };
            signal(host, asked, Signal::TERM);
        }
        until_ended(host, grace).await;
    }
    if host.has_keeper() {
        signal(host, host.record.keeper, Signal::INT);
        until_ended(host, QUICK_END_IN_ALL).await;
    }
    // Nothing to do after a keeper that did its work, everything without one.
    let record = Arc::clone(&host.record);
    in_thread("cannot sweep", &host.dir, move || sweep(&record)).await
}

/// Ends every process that a host has left behind, whoever was killed before. Blocks while it waits for them.
pub fn sweep(record: &Record) -> Result<(), Error> {
    sweep_with(record, SWEEP)
}

/// The same without a word of warning, which would be time to get away.
pub(crate) fn sweep_at_once(record: &Record) -> Result<(), Error> {
    sweep_with(record, Patience { after_term: Duration::ZERO, ..SWEEP })
}

fn sweep_with(record: &Record, patience: Patience) -> Result<(), Error> {
    if is_this_boot(record) {
        end_members(&record.id, patience, &mut |all| members(all, record))?;
    }
    remove_socket(&record.socket);
    Ok(())
}

/// The same for a start that did not come to a record: all that is known then is the mark in the environment.
pub fn sweep_unfinished(id: &str) -> Result<(), Error> {
    end_members(id, SWEEP, &mut |all| marked(all, id))
}

fn end_members(
    id: &str,
    patience: Patience,
    members: &mut dyn FnMut(&[Stat]) -> BTreeSet<u32>,
) -> Result<(), Error> {
    // Whoever was seen once counts to the end: a child whose parent was killed has lost what it was known by.
    let mut seen = BTreeSet::new();
    let mut who = || {
        seen.extend(family(&process::all(), members));
        seen.iter().copied().filter(|process: &Process| process.is_alive()).collect()
    };
    end_all(&mut who, patience).map_err(|left| Error::Orphaned {
        id: id.to_owned(),
        pids: left.iter().map(|process| process.pid).collect(),
    })
}

/// The members that run and all below them, without ourselves.
fn family(all: &[Stat], members: &mut dyn FnMut(&[Stat]) -> BTreeSet<u32>) -> BTreeSet<Process> {
    let heads = members(all);
    let mut family = process::descendants_in(all, &heads);
    let running = all.iter().filter(|stat| stat.is_running() && heads.contains(&stat.process.pid));
    family.extend(running.map(|stat| stat.process));
    family.retain(|process| process.pid != std::process::id());
    family
}

/// Keeper, Codex, everyone in their session and everyone who carries their mark. codex 0.166: MCP servers get an
/// environment without the mark but stay in the session; commands may begin a session but carry the mark.
fn members(all: &[Stat], record: &Record) -> BTreeSet<u32> {
    let mut members = marked(all, &record.id);
    let keeper = record.keeper;
    // A number is not used again while a session goes by it. If somebody else has it, the session is over.
    let reused = all.iter().any(|stat| stat.process.pid == keeper.pid && stat.process != keeper);
    members.extend(all.iter().filter_map(|stat| {
        let named = stat.process == keeper || stat.process == record.codex;
        let in_session =
            !reused && stat.session == keeper.pid && stat.process.start_ticks >= keeper.start_ticks;
        (named || in_session).then_some(stat.process.pid)
    }));
    members
}

fn marked(all: &[Stat], id: &str) -> BTreeSet<u32> {
    let mark = format!("{MARKER}={id}");
    let pids = all.iter().map(|stat| stat.process.pid);
    pids.filter(|pid| process::has_environment_entry(*pid, &mark)).collect()
}

/// A second SIGTERM means hurry, so only the first of all that drain a host, also over a restart of ours, sends one.
fn is_first_to_drain(host: &Host) -> bool {
    let made = File::create_new(Files(&host.dir).draining());
    !made.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}

fn signal(host: &Host, process: Process, signal: Signal) {
    if is_this_boot(&host.record) {
        // Whoever cannot be signalled is ended, or named as orphaned, by the sweep that follows.
        process.signal(signal).ok();
    }
}

async fn until_ended(host: &Host, limit: Duration) {
    let end = Instant::now() + limit;
    while (host.is_alive() || host.has_keeper()) && Instant::now() < end {
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests;
