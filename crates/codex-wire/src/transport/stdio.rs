//! A Codex of one's own: `codex app-server` as a child on pipes, which dies with us.
//!
//! Ending it ends all that it started. What ends by itself, or is killed by others, may leave behind what heeds
//! neither the end of its input nor its parent's: whoever must be safe from that uses a [`crate::host`].

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

/// Lines of stderr that are kept.
const STDERR_LINES: usize = 500;
/// A line of stderr is cut here.
const STDERR_LINE_BYTES: u64 = 16 * 1024;
/// How long the child may take after its stdin closed, again after SIGTERM, and to die of SIGKILL.
const GRACE: Duration = Duration::from_secs(3);
/// How long what the child started may take to follow it.
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
#[error("cannot start {program}: {source}")]
pub struct Error {
    program: String,
    source: std::io::Error,
}

/// A child that runs, owned by its watcher task. Dropping the handle does not end it: [`StdioChild::end`] does,
/// and so does closing the transport, since codex leaves at the end of its input.
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
        return Err(failed(std::io::Error::other("no pipes")));
    };
    let Some(process) = child.id().and_then(process::stat).map(|stat| stat.process) else {
        // Nobody would know whom to end.
        if let Err(error) = child.start_kill() {
            error!(%error, "a Codex that nobody can watch could not be ended");
        }
        return Err(failed(std::io::Error::other("its process cannot be seen")));
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
    // Whoever watched may be gone.
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

    /// Ends the child and all that it started: waits for it to follow the end of its input, then SIGTERM, then
    /// SIGKILL. The transport must be closed first. Says so if even that fails.
    pub async fn end(&self) -> Result<(), String> {
        self.end_by(Process::signal, GRACE).await
    }

    /// Ends the child and all that it started without waiting for them to be polite.
    pub async fn kill(&self) -> Result<(), String> {
        self.family.remember();
        self.kill_by(Process::signal, GRACE).await
    }

    async fn end_by(&self, send: Send, grace: Duration) -> Result<(), String> {
        self.family.remember();
        if self.wait(grace).await.is_none() {
            self.family.remember();
            // Fails only when the child is gone, which is what is wanted.
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
            "codex (pid {}) did not end and is orphaned (still there: {})",
            self.pid(),
            pids.join(", ")
        ))
    }

    /// Waits for the child to end by itself.
    pub async fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        let status = tokio::time::timeout(limit, exit.wait_for(Option::is_some)).await.ok()?.ok()?;
        *status
    }

    /// The last lines that it wrote to stderr, redacted.
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
