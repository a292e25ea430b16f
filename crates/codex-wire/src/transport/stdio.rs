//! `codex app-server` as a child process on pipes, which ends with this program.
//!
//! Ending the child ends all processes that it started. If the child exits by itself or is killed, processes that
//! ignore the end of their input and of their parent may stay. A [`crate::host`] has no such leftovers.

mod family;
mod input;

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redact::Redactor;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch;
use tokio_util::codec::FramedRead;
use tracing::error;

use self::family::{Family, Send};
use self::input::Input;
use super::line::LineCodec;
use super::{DEFAULT_MESSAGE_LIMIT, Transport};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};

use crate::backing::Backing;
use crate::host::environment::NO_GIT;
use crate::os::process::{self, Process};
use crate::reason;

/// Lines of stderr that are kept.
const STDERR_LINES: usize = 500;
/// A line of stderr is cut here.
const STDERR_LINE_BYTES: u64 = 16 * 1024;
/// How long the child may take to end after its stdin was closed, after SIGTERM, and after SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// How long the child's descendants may take to end after it.
const FAMILY_GRACE: Duration = Duration::from_secs(1);

/// How to start the child.
#[derive(Debug, Clone)]
pub struct Spawn {
    /// The native codex binary (not the Node shim: a signal would reach only Node).
    pub program: PathBuf,
    /// Usually `["app-server"]`.
    pub args: Vec<String>,
    /// The child's whole environment.
    pub env: BTreeMap<String, String>,
    /// Longest message that is accepted.
    pub message_limit: usize,
}

impl Spawn {
    /// `program app-server` with this environment.
    pub fn new(program: impl Into<PathBuf>, env: BTreeMap<String, String>) -> Self {
        let args = vec!["app-server".to_owned()];
        Self { program: program.into(), args, env, message_limit: DEFAULT_MESSAGE_LIMIT }
    }
}

/// The child could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start {program}: {}", reason(source))]
pub struct Error {
    program: String,
    source: std::io::Error,
}

/// A running child. Dropping this handle does not end it. [`StdioChild::end`] does, and so does closing the transport,
/// since codex exits at the end of its input.
#[derive(Debug)]
pub struct StdioChild {
    family: Arc<Family>,
    exit: watch::Receiver<Option<ExitStatus>>,
    stderr: Arc<Mutex<VecDeque<String>>>,
}

/// Starts a child and connects to it.
pub fn spawn(spawn: &Spawn) -> Result<(Transport, Arc<StdioChild>), Error> {
    let failed = |source| Error { program: spawn.program.display().to_string(), source };
    let mut child = Command::new(&spawn.program)
        .args(&spawn.args)
        .env_clear()
        .envs(&spawn.env)
        .env(NO_GIT.0, NO_GIT.1)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(failed)?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(failed(std::io::Error::other("its pipes are missing")));
    };
    let Some(process) = child.id().and_then(process::stat).map(|stat| stat.process) else {
        // Without its identity the child could not be ended later.
        if let Err(error) = child.start_kill() {
            error!(%error, "a codex process whose /proc entry cannot be read could not be killed");
        }
        return Err(failed(std::io::Error::other("its entry in /proc cannot be read")));
    };
    let family = Arc::new(Family::of(process));
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    tokio::spawn(drain_stderr(stderr, Arc::clone(&lines)));
    let (exit_tx, exit) = watch::channel(None);
    tokio::spawn(watch_exit(child, exit_tx));

    let incoming = FramedRead::with_capacity(stdout, LineCodec::new(spawn.message_limit), 64 * 1024);
    let outgoing = Input::new(stdin, LineCodec::new(spawn.message_limit), Arc::clone(&family));
    let transport = Transport { incoming: Box::pin(incoming), outgoing: Box::pin(outgoing) };
    Ok((transport, Arc::new(StdioChild { family, exit, stderr: lines })))
}

async fn watch_exit(mut child: Child, exit: watch::Sender<Option<ExitStatus>>) {
    let status = child.wait().await.unwrap_or_default();
    // The receivers may be gone.
    exit.send(Some(status)).ok();
}

/// An unread stderr pipe freezes codex once it is full, so it is always drained (seen on 0.166).
async fn drain_stderr(stderr: ChildStderr, lines: Arc<Mutex<VecDeque<String>>>) {
    let redactor = Redactor::default();
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut reader).take(STDERR_LINE_BYTES).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(count) if count > 0) {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = redactor.redact(text.trim_end()).into_owned();
        let mut lines = lines.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == STDERR_LINES {
            lines.pop_front();
        }
        lines.push_back(text);
    }
}

impl StdioChild {
    /// The child's process id.
    pub fn pid(&self) -> u32 {
        self.family.child().pid
    }

    /// Ends the child and its descendants: waits for it to exit at the end of its input, then sends SIGTERM, then
    /// SIGKILL. The transport must be closed first. The error names processes that survived.
    pub async fn end(&self) -> Result<(), String> {
        self.end_by(Process::signal, GRACE).await
    }

    /// Kills the child and its descendants at once.
    pub async fn kill(&self) -> Result<(), String> {
        self.family.remember();
        self.kill_by(Process::signal, GRACE).await
    }

    async fn end_by(&self, send: Send, grace: Duration) -> Result<(), String> {
        self.family.remember();
        if self.wait(grace).await.is_none() {
            self.family.remember();
            // An error means that the child has ended.
            send(self.family.child(), Signal::TERM).ok();
            self.wait(grace).await;
        }
        if !self.is_alive() {
            self.family.wait(FAMILY_GRACE).await;
        }
        self.kill_by(send, grace).await
    }

    async fn kill_by(&self, send: Send, grace: Duration) -> Result<(), String> {
        let left = self.family.kill(send, grace).await;
        if left.is_empty() && self.wait(grace).await.is_some() {
            return Ok(());
        }
        let pids: Vec<_> = left.iter().map(|process| process.pid.to_string()).collect();
        Err(format!(
            "codex (pid {}) could not be ended and is orphaned (still running: {})",
            self.pid(),
            pids.join(", ")
        ))
    }

    /// Waits for the child to exit.
    pub async fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        let status = tokio::time::timeout(limit, exit.wait_for(Option::is_some)).await.ok()?.ok()?;
        *status
    }

    /// The last lines of its stderr, redacted.
    pub fn stderr_tail(&self, lines: usize) -> Vec<String> {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().skip(kept.len().saturating_sub(lines)).cloned().collect()
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<String> {
        self.exit.borrow().map(|status| status.to_string())
    }
}

impl Backing for StdioChild {
    fn stderr_tail(&self, lines: usize) -> BoxFuture<'_, Vec<String>> {
        ready(StdioChild::stderr_tail(self, lines)).boxed()
    }

    fn exit(&self) -> BoxFuture<'_, Option<String>> {
        ready(StdioChild::exit(self)).boxed()
    }

    fn is_alive(&self) -> bool {
        self.exit.borrow().is_none()
    }

    fn takes_connections(&self) -> BoxFuture<'_, bool> {
        ready(false).boxed()
    }
}

#[cfg(test)]
mod tests;
