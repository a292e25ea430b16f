//! The process of a plugin: JSON-RPC lines both ways, calls with answers, and the end of the whole process group.
//!
//! Does not know what the lines mean. Lines and queues are bounded: a plugin that writes too fast has to wait, one that does
//! not read gets no more lines, and one with a line that is too long is ended.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use codex_wire::reason;
use redact::Redactor;
use redact::plain::plain;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::channel::exec::ProcessGroup;

const LINE_BYTES: u64 = 1024 * 1024;
/// How much of a line on stderr is read, and how much is logged.
const STDERR_LINE_BYTES: u64 = 64 * 1024;
const STDERR_LINE_CHARS: usize = 2_000;
/// How many lines of stderr are told with the end of the process, and how much of each.
const LAST_LINES: usize = 2;
const LAST_LINE_CHARS: usize = 160;
/// How long to wait for the rest of stderr when the process has ended.
const STDERR_WAIT: Duration = Duration::from_millis(500);
/// The limit of lines that wait to be written, and of messages that wait to be handled.
const QUEUE: usize = 64;
/// How long a plugin may take to exit by itself.
const EXIT_GRACE: Duration = Duration::from_secs(2);

/// A call or a notification of the plugin.
#[derive(Debug, PartialEq)]
pub struct PluginMessage {
    /// The id for the answer; none for a notification.
    pub id: Option<Value>,
    /// The method.
    pub method: String,
    /// The parameters.
    pub params: Value,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum CallError {
    /// The call was not written.
    Unsent(String),
    /// The call was written, and its outcome is unknown.
    InDoubt(String),
    /// The plugin answered with an error.
    Refused(Value),
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, Value>>>>>;

/// The process of a plugin. Dropping this ends the process.
pub struct Process {
    lines: mpsc::Sender<String>,
    pending: Pending,
    last_id: AtomicU64,
    messages: tokio::sync::Mutex<mpsc::Receiver<PluginMessage>>,
    ended: watch::Receiver<Option<String>>,
    _stop: oneshot::Sender<()>,
}

impl Process {
    /// Starts the process. `log` gets each line of its stderr.
    pub fn start(command: &mut Command, log: Log) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let group = ProcessGroup::of(&child);
        let (lines, to_write) = mpsc::channel(QUEUE);
        let (messages_sender, messages) = mpsc::channel(QUEUE);
        let (ended_sender, ended) = watch::channel(None);
        let (stop, stopping) = oneshot::channel();
        let pending = Pending::default();
        if let Some(stdin) = child.stdin.take() {
            tokio::spawn(write(stdin, to_write));
        }
        let stderr = child.stderr.take().map(|stderr| Stderr::read(BufReader::new(stderr), log));
        let stdout = child.stdout.take().map(BufReader::new);
        let reading = read(stdout, messages_sender, Arc::clone(&pending));
        tokio::spawn(supervise(child, group, reading, stderr, stopping, ended_sender));
        let last_id = AtomicU64::new(0);
        Ok(Self { lines, pending, last_id, messages: tokio::sync::Mutex::new(messages), ended, _stop: stop })
    }

    /// Calls a method of the plugin and waits for the answer.
    pub async fn call(&self, method: &str, params: Value, limit: Duration) -> Result<Value, CallError> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        locked(&self.pending).insert(id, answer);
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let sent = self.lines.try_send(line);
        let outcome = match sent {
            Err(_) => Err(CallError::Unsent("the plugin does not read its stdin".to_owned())),
            Ok(()) => self.answer_to(method, answered, limit).await,
        };
        locked(&self.pending).remove(&id);
        outcome
    }

    /// The answer to a call that was written.
    async fn answer_to(
        &self,
        method: &str,
        answered: oneshot::Receiver<Result<Value, Value>>,
        limit: Duration,
    ) -> Result<Value, CallError> {
        let answer = tokio::select! {
            // An answer counts even if the process ended right after it.
            biased;
            answer = answered => answer.ok(),
            why = self.ended() => return Err(CallError::InDoubt(why)),
            () = tokio::time::sleep(limit) => None,
        };
        let late = || format!("the plugin did not answer `{method}` within {} s", limit.as_secs());
        answer.ok_or_else(|| CallError::InDoubt(late()))?.map_err(CallError::Refused)
    }

    /// Sends a notification. It is dropped if the queue is full.
    pub fn notify(&self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        if let Err(error) = self.lines.try_send(line.to_string()) {
            tracing::debug!(method, %error, "a notification for a plugin was dropped");
        }
    }

    /// Answers a call of the plugin's.
    pub async fn answer(&self, id: &Value, result: Value) {
        self.write(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    /// Refuses a call of the plugin's.
    pub async fn refuse(&self, id: &Value, code: &str, message: &str) {
        self.refuse_with(id, json!({ "code": code, "message": message })).await;
    }

    /// Refuses a call for now: the plugin shall repeat it after `wait`.
    pub async fn put_off(&self, id: &Value, message: &str, wait: Duration) {
        let data = json!({ "retry_after": wait.as_secs() });
        self.refuse_with(id, json!({ "code": "retry_after", "message": message, "data": data })).await;
    }

    async fn refuse_with(&self, id: &Value, error: Value) {
        self.write(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }

    async fn write(&self, line: Value) {
        // A plugin that has exited repeats its calls after the restart.
        let sent = self.lines.send_timeout(line.to_string(), EXIT_GRACE).await;
        if let Err(SendTimeoutError::Timeout(_)) = sent {
            tracing::warn!(id = %line["id"], "an answer was dropped: the plugin does not read its stdin");
        }
    }

    /// The next messages of the plugin. The error says why the process ended.
    pub async fn next_messages(&self, timeout: Duration) -> Result<Vec<PluginMessage>, String> {
        let mut messages = self.messages.lock().await;
        let mut all = Vec::new();
        match tokio::time::timeout(timeout, messages.recv_many(&mut all, QUEUE)).await {
            Ok(0) => Err(self.exit_reason().await),
            _ => Ok(all),
        }
    }

    async fn exit_reason(&self) -> String {
        let reason = tokio::time::timeout(EXIT_GRACE * 2, self.ended()).await;
        reason.unwrap_or_else(|_| "the plugin closed its stdout".to_owned())
    }

    /// Waits until the process has ended, and says why.
    async fn ended(&self) -> String {
        let mut ended = self.ended.clone();
        // An error means that the runtime shuts down.
        let reason = ended.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        reason.unwrap_or_else(|| "the plugin has ended".to_owned())
    }
}

/// Writes lines of a plugin to the daemon's log, redacted.
#[derive(Clone)]
pub struct Log {
    /// The channel.
    pub name: String,
    /// Hides secrets.
    pub redactor: Redactor,
}

impl Log {
    /// Logs one line.
    pub fn write(&self, line: &str) {
        self.write_shown(&self.shown(line));
    }

    /// A line as it may be shown: without secrets and deceptive characters, and not too long.
    fn shown(&self, line: &str) -> String {
        let line = self.redactor.redact(line);
        plain(&line).trim_end().chars().take(STDERR_LINE_CHARS).collect()
    }

    fn write_shown(&self, line: &str) {
        tracing::info!(channel = self.name, "plugin: {line}");
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes lines until the senders are dropped, then `shutdown`.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
    // An error means that the plugin has exited already.
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}\n").await.ok();
}

/// Reads one line; none at the end of the stream.
async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = reader.take(LINE_BYTES).read_until(b'\n', &mut line).await?;
    if count as u64 == LINE_BYTES && line.last() != Some(&b'\n') {
        return Err(io::Error::other(format!("the plugin wrote a line longer than {LINE_BYTES} bytes")));
    }
    Ok((count > 0).then_some(line))
}

/// Reads messages and answers until the stream ends; returns an error of the plugin, if that was the reason.
async fn read(
    stdout: Option<impl AsyncBufRead + Unpin>,
    messages: mpsc::Sender<PluginMessage>,
    pending: Pending,
) -> Option<String> {
    let mut stdout = stdout?;
    loop {
        let line = match line(&mut stdout).await {
            Ok(Some(line)) => line,
            Ok(None) => return None,
            Err(error) => return Some(reason(&error)),
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
            return Some("the plugin wrote a line on stdout that is not JSON".to_owned());
        };
        if let Some(method) = message["method"].as_str().map(str::to_owned) {
            let id = message.get("id").filter(|id| !id.is_null()).cloned();
            let params = message["params"].take();
            if messages.send(PluginMessage { id, method, params }).await.is_err() {
                return None;
            }
        } else if let Some(waiting) = message["id"].as_u64().and_then(|id| locked(&pending).remove(&id)) {
            let error = message.get("error").filter(|error| !error.is_null()).cloned();
            // The caller may have timed out.
            waiting.send(error.map_or_else(|| Ok(message["result"].take()), Err)).ok();
        }
    }
}

/// Waits until the process exits or has to be ended, then kills its process group.
async fn supervise(
    mut child: Child,
    group: ProcessGroup,
    reading: impl Future<Output = Option<String>>,
    stderr: Option<Stderr>,
    stopping: oneshot::Receiver<()>,
    ended: watch::Sender<Option<String>>,
) {
    let mut why = tokio::select! {
        wrong = reading => wrong,
        _ = stopping => None,
    };
    // Stdin or stdout is closed: the plugin may exit by itself before it is killed.
    if why.is_none() && tokio::time::timeout(EXIT_GRACE, child.wait()).await.is_err() {
        why = Some("the plugin closed its stdout and did not end".to_owned());
    }
    drop(group);
    let status = child.wait().await;
    let how =
        || status.map_or_else(|error| reason(&error), |status| format!("the plugin ended with {status}"));
    let why = why.unwrap_or_else(how);
    let last_words = match stderr {
        Some(stderr) => stderr.last_words().await,
        None => None,
    };
    let why = last_words.map_or(why.clone(), |words| format!("{why}; its stderr ended with: {words}"));
    // The channel may have been dropped.
    ended.send(Some(why)).ok();
}

/// The stderr of a plugin: it is logged, and its last lines are kept.
struct Stderr {
    reader: JoinHandle<()>,
    last_lines: LastLines,
}

type LastLines = Arc<Mutex<VecDeque<String>>>;

impl Stderr {
    fn read(stderr: impl AsyncBufRead + Unpin + Send + 'static, log: Log) -> Self {
        let last_lines = LastLines::default();
        let reader = tokio::spawn(log_stderr(stderr, log, Arc::clone(&last_lines)));
        Self { reader, last_lines }
    }

    /// The last lines, once the process has ended: a program usually says there why it fails.
    async fn last_words(self) -> Option<String> {
        // A process that the plugin left running may hold stderr open.
        tokio::time::timeout(STDERR_WAIT, self.reader).await.ok();
        let lines = locked(&self.last_lines);
        (!lines.is_empty()).then(|| lines.iter().map(String::as_str).collect::<Vec<_>>().join(" / "))
    }
}

/// Reads stderr to its end, so that the plugin never blocks on it. Only the beginning of a long line is logged.
async fn log_stderr(mut stderr: impl AsyncBufRead + Unpin, log: Log, last_lines: LastLines) {
    let mut is_middle = false;
    loop {
        let mut line = Vec::new();
        match (&mut stderr).take(STDERR_LINE_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) if !is_middle => {
                let line = log.shown(&String::from_utf8_lossy(&line));
                log.write_shown(&line);
                keep(&last_lines, &line);
            }
            Ok(_) => {}
        }
        is_middle = line.last() != Some(&b'\n');
    }
}

/// Keeps what was logged, if it is among the last lines.
fn keep(last_lines: &LastLines, logged: &str) {
    let mut last_lines = locked(last_lines);
    // A line of signs alone, such as the carets below a faulty expression, explains nothing.
    for line in logged.lines().map(str::trim).filter(|line| line.contains(char::is_alphanumeric)) {
        let mut kept: String = line.chars().take(LAST_LINE_CHARS).collect();
        if kept.len() < line.len() {
            kept.push('…');
        }
        last_lines.push_back(kept);
        if last_lines.len() > LAST_LINES {
            last_lines.pop_front();
        }
    }
}
