//! The keeper: our small parent process of each Codex, which outlives the program that started it.
//!
//! The keeper starts a process session, adopts the orphans of Codex, drains Codex's stderr, and records that Codex runs
//! and how it ended. Before it exits it ends every process below it. It is controlled by signals alone: SIGTERM asks
//! for an orderly end (Codex finishes its running turns), a second SIGTERM or a SIGINT for a quick end. Nothing here
//! knows Codex's protocol.
//!
//! Signals are received by a tokio runtime of one thread: the standard library cannot receive signals, and unsafe code
//! is forbidden here. With a control socket in place of signals, the usual SIGTERM of a service manager or a person
//! would kill the keeper and leave Codex running.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions, WaitStatus, setsid, wait};
use serde::Serialize;
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{Instant, sleep_until};
use tracing::warn;

use super::record::{Exit, Files, Plan, Record, epoch_of, now_ms, read_json, write_json};
use super::stderr_log::Drain;
use crate::end_processes::{EndLimits, end_all};
use crate::os::process::{self, Process};
use crate::reason;

/// How long Codex may take after it was asked to end quickly.
const QUICK_END: Duration = Duration::from_secs(3);
/// A quick end is two SIGTERMs for Codex. Without a pause they would arrive as one.
const BETWEEN_TERMS: Duration = Duration::from_millis(100);
/// How long the end of Codex's stderr may take to be written. Orphans of Codex may hold its stderr open for longer.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// For the orphans of Codex.
const LEFT_BEHIND: EndLimits =
    EndLimits { after_term: Duration::from_secs(2), after_kill: Duration::from_secs(10) };

/// The longest time between the request for a quick end and the exit of the keeper.
pub(crate) const QUICK_END_IN_ALL: Duration = Duration::from_secs(3 + 2 + 10 + 2);

/// Why a keeper failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan is missing or unreadable.
    #[error("cannot read the plan {}: {}", path.display(), reason(source))]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// The kernel refused a process session, the adoption of orphans or a signal handler.
    #[error("cannot become the keeper of a host: {}", reason(.0))]
    Setup(io::Error),
    /// Codex did not start.
    #[error("cannot start {}: {}", path.display(), reason(source))]
    Start {
        /// The executable.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file in the host's directory cannot be written.
    #[error("cannot write {}: {}", path.display(), reason(source))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads the plan, which was written by the program that starts the host.
pub fn read_plan(path: &Path) -> Result<Plan, Error> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let plan = read_json(path).and_then(|plan| plan.ok_or_else(missing));
    plan.map_err(|source| Error::Plan { path: path.to_owned(), source })
}

/// Runs one host from its start to the end of its last process. Call it as the only work of a process that does not
/// lead a process group: a group leader cannot start a process session.
pub fn run(plan: &Plan) -> Result<Exit, Error> {
    let outcome = become_keeper().and_then(|runtime| runtime.block_on(keep(plan)));
    if let Err(error) = &outcome {
        let exit = Exit { error: Some(error.to_string()), at_ms: now_ms(), ..Exit::default() };
        write(&Files(&plan.dir).exit(), &exit)?;
    }
    outcome
}

fn write(path: &Path, value: &impl Serialize) -> Result<(), Error> {
    write_json(path, value).map_err(|source| Error::Write { path: path.to_owned(), source })
}

fn become_keeper() -> Result<tokio::runtime::Runtime, Error> {
    setsid().map_err(|error| Error::Setup(error.into()))?;
    process::adopt_orphans().map_err(Error::Setup)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Setup)
}

async fn keep(plan: &Plan) -> Result<Exit, Error> {
    let files = Files(&plan.dir);
    // Before codex is started: a signal must not kill the keeper and leave codex running.
    let mut signals = Signals::listen().map_err(Error::Setup)?;
    let (codex, drain) = start_codex(plan)?;
    let recorded = recorded(plan, codex).and_then(|record| write(&files.record(), &record));
    if recorded.is_err() {
        // Without a record nobody could find the host again. The error is returned below.
        codex.signal(Signal::KILL).ok();
    }
    let mut exit = until_codex_ends(codex, &mut signals).await;
    // Readers of the exit file read the end of stderr right after it.
    drain.finish(LAST_WORDS);
    // A full disk must not prevent the clean-up, so the error is returned after it.
    let written = write(&files.exit(), &exit);
    let own_pid = std::process::id();
    match end_all(&mut || adopted(own_pid), LEFT_BEHIND) {
        Ok(()) => exit.cleared = Some(true),
        Err(left) => exit.orphaned = left.iter().map(|process| process.pid).collect(),
    }
    let written = written.and(write(&files.exit(), &exit));
    remove_socket(&files.socket());
    drain.finish(LAST_WORDS);
    recorded.and(written).map(|()| exit)
}

/// The descendants that still run. Those that have ended are reaped.
fn adopted(own_pid: u32) -> BTreeSet<Process> {
    reap();
    process::descendants(own_pid)
}

fn start_codex(plan: &Plan) -> Result<(Process, Drain), Error> {
    let failed = |source| Error::Start { path: plan.codex.clone(), source };
    let mut child = Command::new(&plan.codex)
        .args(codex_arguments(plan))
        .current_dir(&plan.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    watched(&mut child, Files(&plan.dir).stderr()).map_err(|source| {
        // The keeper cannot watch this child, so the child must not stay.
        child.kill().and_then(|()| child.wait()).ok();
        failed(source)
    })
}

fn watched(child: &mut Child, log: PathBuf) -> io::Result<(Process, Drain)> {
    // The child is not reaped yet, so its pid cannot have been reused.
    let codex = process::stat(child.id()).ok_or(io::ErrorKind::NotFound)?.process;
    let stderr = child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
    Ok((codex, Drain::start(stderr, log)?))
}

fn codex_arguments(plan: &Plan) -> Vec<String> {
    let mut arguments = vec!["app-server".to_owned()];
    arguments.extend(plan.config.iter().flat_map(|pair| ["-c".to_owned(), pair.clone()]));
    arguments.push("--listen".to_owned());
    arguments.push(format!("unix://{}", Files(&plan.dir).socket().display()));
    arguments
}

fn recorded(plan: &Plan, codex: Process) -> Result<Record, Error> {
    let failed = |source| Error::Write { path: Files(&plan.dir).record(), source };
    let boot_id = process::boot_id().map_err(failed)?;
    let keeper =
        Process::with_pid(std::process::id()).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
    Ok(Record {
        id: plan.id.clone(),
        epoch: epoch_of(&boot_id, codex),
        keeper,
        codex,
        boot_id,
        socket: Files(&plan.dir).socket(),
        codex_version: plan.version.clone(),
        codex_executable: plan.codex.clone(),
        codex_home: plan.codex_home.clone(),
        identity: plan.identity.clone(),
        started_at_ms: now_ms(),
        started_uptime_ms: process::uptime_ms().unwrap_or_default(),
        adopters: plan.adopters.clone(),
        audit_session: process::audit_session(keeper.pid),
    })
}

/// The signals that a keeper handles.
struct Signals {
    child: unix::Signal,
    terminate: unix::Signal,
    interrupt: unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals {
            child: unix::signal(SignalKind::child())?,
            terminate: unix::signal(SignalKind::terminate())?,
            interrupt: unix::signal(SignalKind::interrupt())?,
        })
    }
}

async fn until_codex_ends(codex: Process, signals: &mut Signals) -> Exit {
    let mut pending = PendingSignals::default();
    loop {
        if let Some(status) = reap().remove(&codex.pid) {
            return Exit {
                code: status.exit_status(),
                signal: status.terminating_signal(),
                at_ms: now_ms(),
                cleared: Some(false),
                ..Exit::default()
            };
        }
        let next_step_at = pending.next_step_at();
        tokio::select! {
            _ = signals.child.recv() => {}
            _ = signals.terminate.recv() => pending.asked_to_end(Instant::now()),
            _ = signals.interrupt.recv() => pending.asked_to_end_quickly(Instant::now()),
            () = sleep_until(next_step_at.unwrap_or_else(Instant::now)), if next_step_at.is_some() => {
                for signal in pending.due(Instant::now()) {
                    // An error means that codex has ended, which the next loop finds.
                    codex.signal(signal).ok();
                }
            }
        }
    }
}

/// Reaps every child that has ended.
fn reap() -> BTreeMap<u32, WaitStatus> {
    let mut ended = BTreeMap::new();
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => {
                ended.insert(pid.as_raw_nonzero().get().unsigned_abs(), status);
            }
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return ended,
        }
    }
}

/// The signals that are still to be sent to Codex, with their times. codex 0.166 finishes its turns after the first
/// SIGTERM and ends at the second.
#[derive(Debug, Default)]
struct PendingSignals {
    steps: VecDeque<(Instant, Signal)>,
    asked: bool,
}

impl PendingSignals {
    fn asked_to_end(&mut self, now: Instant) {
        if self.asked {
            return self.asked_to_end_quickly(now);
        }
        self.asked = true;
        self.steps.push_back((now, Signal::TERM));
    }

    fn asked_to_end_quickly(&mut self, now: Instant) {
        if self.steps.iter().any(|(_, signal)| *signal == Signal::KILL) {
            return;
        }
        self.asked = true;
        self.steps.extend([
            (now, Signal::TERM),
            (now + BETWEEN_TERMS, Signal::TERM),
            (now + QUICK_END, Signal::KILL),
        ]);
    }

    fn next_step_at(&self) -> Option<Instant> {
        self.steps.front().map(|(at, _)| *at)
    }

    fn due(&mut self, now: Instant) -> Vec<Signal> {
        let count = self.steps.iter().take_while(|(at, _)| *at <= now).count();
        self.steps.drain(..count).map(|(_, signal)| signal).collect()
    }
}

/// Removes the socket of a Codex that was killed. codex 0.166: the path is a link to a socket in a folder under the
/// temporary directory.
pub(crate) fn remove_socket(link: &Path) {
    if let Ok(target) = fs::read_link(link)
        && fs::metadata(&target).is_ok_and(|found| found.file_type().is_socket())
    {
        remove(&target);
    }
    remove(link);
}

fn remove(file: &Path) {
    if let Err(error) = fs::remove_file(file)
        && error.kind() != io::ErrorKind::NotFound
    {
        warn!(file = %file.display(), %error, "the socket of a host that has ended could not be removed");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn due_after(pending: &mut PendingSignals, start: Instant, ms: u64) -> Vec<Signal> {
        pending.due(start + Duration::from_millis(ms))
    }

    #[test]
    fn the_first_request_lets_codex_finish_for_as_long_as_it_takes() {
        let start = Instant::now();
        let mut pending = PendingSignals::default();
        pending.asked_to_end(start);
        assert_eq!(due_after(&mut pending, start, 0), [Signal::TERM]);
        assert_eq!(pending.next_step_at(), None);
    }

    #[test]
    fn the_second_request_and_an_interrupt_end_it_within_a_limit() {
        let start = Instant::now();
        for asked_before in [true, false] {
            let mut pending = PendingSignals::default();
            if asked_before {
                pending.asked_to_end(start);
                pending.due(start);
                pending.asked_to_end(start);
            } else {
                pending.asked_to_end_quickly(start);
            }
            // More requests do not put the end off.
            pending.asked_to_end(start + Duration::from_secs(2));
            assert_eq!(due_after(&mut pending, start, 0), [Signal::TERM]);
            assert_eq!(due_after(&mut pending, start, 100), [Signal::TERM]);
            assert_eq!(due_after(&mut pending, start, 2_999), []);
            assert_eq!(due_after(&mut pending, start, 3_000), [Signal::KILL]);
        }
    }

    #[test]
    fn a_missing_and_a_broken_plan_are_said_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.json");
        assert!(read_plan(&path).unwrap_err().to_string().contains("cannot read the plan"));
        fs::write(&path, "{}").unwrap();
        assert!(read_plan(&path).unwrap_err().to_string().contains("damaged or of another version"));
    }
}
