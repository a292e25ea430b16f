//! A Codex of one's own: `codex app-server` as a child on pipes, which dies with us.

use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redact::Redactor;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::watch;
use tokio_util::codec::{FramedRead, FramedWrite};

use super::line::LineCodec;
use super::{DEFAULT_MESSAGE_LIMIT, Error as TransportError, Transport};
use crate::backing::Backing;

/// Lines of stderr that are kept.
const STDERR_LINES: usize = 500;
/// A line of stderr is cut here.
const STDERR_LINE_BYTES: u64 = 16 * 1024;
/// How long the child may take after its stdin closed, and again after SIGTERM.
const GRACE: Duration = Duration::from_secs(3);

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
    pid: u32,
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
    let lines = Arc::new(Mutex::new(VecDeque::new()));
    tokio::spawn(drain_stderr(stderr, Arc::clone(&lines)));
    let pid = child.id().unwrap_or_default();
    let (exit_tx, exit) = watch::channel(None);
    tokio::spawn(watch_exit(child, exit_tx));

    let incoming = FramedRead::with_capacity(stdout, LineCodec::new(spawn.message_limit), 64 * 1024);
    let outgoing = FramedWrite::new(stdin, LineCodec::new(spawn.message_limit));
    let outgoing = futures_util::SinkExt::sink_map_err(outgoing, |error| match error {
        TransportError::Read(message) => TransportError::Write(message),
        other => other,
    });
    let transport = Transport { incoming: Box::pin(incoming), outgoing: Box::pin(outgoing) };
    Ok((transport, Arc::new(StdioChild { pid, exit, stderr: lines })))
}

async fn watch_exit(mut child: Child, exit: watch::Sender<Option<ExitStatus>>) {
    let status = child.wait().await.unwrap_or_default();
    // Whoever watched may be gone.
    let _ = exit.send(Some(status));
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
        self.pid
    }

    /// Ends the child and its process group: waits for it to follow the end of its input, then SIGTERM, then
    /// SIGKILL. The transport must be closed first. Says so if even that fails.
    pub async fn end(&self) -> Result<(), String> {
        if self.wait(GRACE).await.is_none() {
            self.signal(Signal::TERM);
            if self.wait(GRACE).await.is_none() {
                self.signal(Signal::KILL);
                if self.wait(GRACE).await.is_none() {
                    return Err(format!("codex (pid {}) did not end and is orphaned", self.pid));
                }
            }
        }
        // What it started in its own group goes with it.
        self.signal(Signal::KILL);
        Ok(())
    }

    /// Ends the child without waiting for it to be polite.
    pub async fn kill(&self) -> Result<(), String> {
        self.signal(Signal::KILL);
        self.wait(GRACE).await.map(|_| ()).ok_or_else(|| format!("codex (pid {}) is orphaned", self.pid))
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            // Fails only when the group is gone, which is what is wanted.
            let _ = kill_process_group(group, signal);
        }
    }

    /// Waits for the child to end by itself.
    pub async fn wait(&self, limit: Duration) -> Option<ExitStatus> {
        let mut exit = self.exit.clone();
        let status = tokio::time::timeout(limit, exit.wait_for(Option::is_some)).await.ok()?.ok()?;
        *status
    }
}

impl Backing for StdioChild {
    fn stderr_tail(&self, lines: usize) -> Vec<String> {
        let kept = self.stderr.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().skip(kept.len().saturating_sub(lines)).cloned().collect()
    }

    fn exit(&self) -> Option<String> {
        self.exit.borrow().map(|status| status.to_string())
    }

    fn is_alive(&self) -> bool {
        self.exit.borrow().is_none()
    }
}
