//! Ends a host and all its processes, through its keeper, or directly if the keeper was killed.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::{Instant, sleep};

use super::find::is_this_boot;
use super::keeper::{QUICK_END_IN_ALL, remove_socket};
use super::record::{Files, MARKER, Record};
use super::{Error, Host, in_thread};
use crate::end_processes::{EndLimits, LOOK_EVERY, end_all};
use crate::os::process::{self, Process, Stat};

/// For processes without a keeper.
const SWEEP: EndLimits =
    EndLimits { after_term: Duration::from_millis(500), after_kill: Duration::from_secs(10) };

/// How a host is to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Let the host finish its running turns.
    Drain {
        /// How long the turns may take; then as with [`Stop::Now`].
        grace: Duration,
    },
    /// End at once, which interrupts running turns.
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
    // This finds nothing if the keeper has ended all processes.
    let record = Arc::clone(&host.record);
    in_thread("cannot sweep", &host.dir, move || sweep(&record)).await
}

/// Ends every remaining process of a host, also after its keeper or codex was killed. Blocks until they have ended.
pub fn sweep(record: &Record) -> Result<(), Error> {
    sweep_with(record, SWEEP)
}

/// The same without SIGTERM, which would give a process time to escape.
pub(crate) fn sweep_at_once(record: &Record) -> Result<(), Error> {
    sweep_with(record, EndLimits { after_term: Duration::ZERO, ..SWEEP })
}

fn sweep_with(record: &Record, limits: EndLimits) -> Result<(), Error> {
    if is_this_boot(record) {
        end_members(&record.id, limits, &mut |all| members(all, record))?;
    }
    remove_socket(&record.socket);
    Ok(())
}

/// The same for a start without a record: its processes are recognised by the mark in their environment alone.
pub fn sweep_unfinished(id: &str) -> Result<(), Error> {
    end_members(id, SWEEP, &mut |all| marked(all, id))
}

fn end_members(
    id: &str,
    limits: EndLimits,
    members: &mut dyn FnMut(&[Stat]) -> BTreeSet<u32>,
) -> Result<(), Error> {
    // A process that was seen once stays in the set: a child whose parent was killed can no longer be recognised.
    let mut seen = BTreeSet::new();
    let mut who = || {
        seen.extend(family(&process::all(), members));
        seen.iter().copied().filter(|process: &Process| process.is_alive()).collect()
    };
    end_all(&mut who, limits).map_err(|left| Error::Orphaned {
        id: id.to_owned(),
        pids: left.iter().map(|process| process.pid).collect(),
    })
}

/// The running members and their descendants, without our own process.
fn family(all: &[Stat], members: &mut dyn FnMut(&[Stat]) -> BTreeSet<u32>) -> BTreeSet<Process> {
    let heads = members(all);
    let mut family = process::descendants_in(all, &heads);
    let running = all.iter().filter(|stat| stat.is_running() && heads.contains(&stat.process.pid));
    family.extend(running.map(|stat| stat.process));
    family.retain(|process| process.pid != std::process::id());
    family
}

/// The keeper, Codex, and all processes in their session or with their mark. codex 0.166: MCP servers have no mark but
/// stay in the session; commands may start a session but have the mark.
fn members(all: &[Stat], record: &Record) -> BTreeSet<u32> {
    let mut members = marked(all, &record.id);
    let keeper = record.keeper;
    // A pid is not reused while a session has it as its id. If another process has the pid, the session is over.
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

/// Whether this is the first drain of the host, also across restarts of the program. Only the first one sends SIGTERM:
/// a second SIGTERM asks for a quick end.
fn is_first_to_drain(host: &Host) -> bool {
    let made = File::create_new(Files(&host.dir).draining());
    !made.is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}

fn signal(host: &Host, process: Process, signal: Signal) {
    if is_this_boot(&host.record) {
        // If this fails, the sweep that follows ends the process or reports it as orphaned.
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
