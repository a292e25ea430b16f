//! The keeper: the tiny process of ours above each Codex, which outlives the program that started it.
//!
//! It begins a session of its own, adopts whatever Codex leaves behind, takes Codex's stderr off its hands, writes down
//! that Codex runs and how it ended, and ends every process below it before it ends itself. It speaks to nobody: SIGTERM
//! asks for an orderly end (Codex waits for its running turns), a second one for a quick one, SIGINT for a quick one at
//! once. Nothing here knows Codex's protocol.
//!
//! Signals come by tokio on a runtime of one thread: the standard library cannot receive them and we write no unsafe
//! code. A control socket instead would leave Codex without its keeper whenever a service manager or a person sends
//! the customary SIGTERM.

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

use super::ending::{Patience, end_all};
use super::record::{Exit, Files, Plan, Record, epoch_of, now_ms, read_json, write_json};
use super::stderr_log::Drain;
use crate::os::process::{self, Process};

/// How long Codex may take after it was asked to end quickly.
const QUICK_END: Duration = Duration::from_secs(3);
/// A quick end is two SIGTERMs for Codex; sent at once they would arrive as one.
const BETWEEN_TERMS: Duration = Duration::from_millis(100);
/// How long Codex's last words may take to be written. What it left behind may hold its stderr open for longer.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What Codex leaves behind: two seconds to end by itself, ten until it is given up as not to be ended.
const LEFT_BEHIND: Patience =
    Patience { after_term: Duration::from_secs(2), after_kill: Duration::from_secs(10) };

/// The longest that a keeper needs from the request for a quick end to its own end.
pub(crate) const QUICK_END_IN_ALL: Duration = Duration::from_secs(3 + 2 + 10 + 2);

/// Why a keeper could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan is not there or not a plan.
    #[error("cannot read the plan {}: {source}", path.display())]
    Plan {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: io::Error,
    },
    /// The kernel refused a session or the adoption of orphans.
    #[error("cannot become the keeper of a host: {0}")]
    Setup(io::Error),
    /// Codex did not start.
    #[error("cannot start {}: {source}", path.display())]
    Start {
        /// The executable.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The host's directory cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads the plan that a launcher wrote for us.
pub fn read_plan(path: &Path) -> Result<Plan, Error> {
    let missing = || io::Error::from(io::ErrorKind::NotFound);
    let plan = read_json(path).and_then(|plan| plan.ok_or_else(missing));
    plan.map_err(|source| Error::Plan { path: path.to_owned(), source })
}

/// Runs one host from its start to the end of its last process. To be the whole life of a process of its own, which
/// must not lead a process group (a session can only be begun by one that does not).
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
    // Before codex is started, so that no signal can end us and leave it behind.
    let mut signals = Signals::listen().map_err(Error::Setup)?;
    let (codex, drain) = start_codex(plan)?;
    let recorded = recorded(plan, codex).and_then(|record| write(&files.record(), &record));
    if recorded.is_err() {
        // A host that nobody can find again must not run. Why is told with the error.
        codex.signal(Signal::KILL).ok();
    }
    let mut exit = until_codex_ends(codex, &mut signals).await;
    // Whoever reads how it ended looks for its last words at once.
    drain.finish(LAST_WORDS);
    // A full disk must not keep us from clearing up, so nothing is returned before that is done.
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

/// Those below us that still run; the ones that ended are taken note of, which lets the kernel forget them.
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
        // Not to be left behind by a keeper that cannot watch it, and that has no log.
        child.kill().and_then(|()| child.wait()).ok();
        failed(source)
    })
}

fn watched(child: &mut Child, log: PathBuf) -> io::Result<(Process, Drain)> {
    // Not yet waited for, so the number is still its own.
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

/// What a keeper listens to.
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
    let mut ladder = Ladder::default();
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
        let next_step_at = ladder.next_step_at();
        tokio::select! {
            _ = signals.child.recv() => {}
            _ = signals.terminate.recv() => ladder.asked_to_end(Instant::now()),
            _ = signals.interrupt.recv() => ladder.asked_to_end_quickly(Instant::now()),
            () = sleep_until(next_step_at.unwrap_or_else(Instant::now)), if next_step_at.is_some() => {
                for signal in ladder.due(Instant::now()) {
                    // Gone already, then the next look finds it; not ours to signal cannot be, it is our child.
                    codex.signal(signal).ok();
                }
            }
        }
    }
}

/// Takes note of every child that has ended.
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

/// The signals that Codex still has to get, and when. codex 0.166: the first SIGTERM lets it finish its turns, the
/// second one ends it.
#[derive(Debug, Default)]
struct Ladder {
    steps: VecDeque<(Instant, Signal)>,
    asked: bool,
}

impl Ladder {
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

/// Removes the socket of a Codex that did not get to do it. codex 0.166: the path is a link to a socket in a folder
/// under the temporary directory.
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

    fn due_after(ladder: &mut Ladder, start: Instant, ms: u64) -> Vec<Signal> {
        ladder.due(start + Duration::from_millis(ms))
    }

    #[test]
    fn the_first_request_lets_codex_finish_for_as_long_as_it_takes() {
        let start = Instant::now();
        let mut ladder = Ladder::default();
        ladder.asked_to_end(start);
        assert_eq!(due_after(&mut ladder, start, 0), [Signal::TERM]);
        assert_eq!(ladder.next_step_at(), None);
    }

    #[test]
    fn the_second_request_and_an_interrupt_end_it_within_a_limit() {
        let start = Instant::now();
        for asked_before in [true, false] {
            let mut ladder = Ladder::default();
            if asked_before {
                ladder.asked_to_end(start);
                ladder.due(start);
                ladder.asked_to_end(start);
            } else {
                ladder.asked_to_end_quickly(start);
            }
            // More requests do not put the end off.
            ladder.asked_to_end(start + Duration::from_secs(2));
            assert_eq!(due_after(&mut ladder, start, 0), [Signal::TERM]);
            assert_eq!(due_after(&mut ladder, start, 100), [Signal::TERM]);
            assert_eq!(due_after(&mut ladder, start, 2_999), []);
            assert_eq!(due_after(&mut ladder, start, 3_000), [Signal::KILL]);
        }
    }

    #[test]
    fn a_missing_and_a_broken_plan_are_said_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.json");
        assert!(read_plan(&path).unwrap_err().to_string().contains("cannot read the plan"));
        fs::write(&path, "{}").unwrap();
        assert!(read_plan(&path).unwrap_err().to_string().contains("missing field"));
    }
}
