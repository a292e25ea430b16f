//! A plugin's process: lines of JSON-RPC both ways, calls with answers, and an end for it and all that it started.
//!
//! Knows nothing of what the lines mean. Lines and queues have bounds: a plugin that floods us waits, one that reads
//! nothing is not written to, one whose line is too long is ended.

use std::collections::HashMap;
use std::io;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redact::Redactor;
use redact::plain::plain;
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::error::SendTimeoutError;
use tokio::sync::{mpsc, oneshot, watch};

use crate::channel::exec::Group;

/// The longest line.
const LINE_BYTES: u64 = 1024 * 1024;
/// The longest line of its complaints that is read, and that is kept of it.
const COMPLAINT_BYTES: u64 = 64 * 1024;
const COMPLAINT_CHARS: usize = 2_000;
/// Lines that may wait to be written, and that may wait to be acted on.
const QUEUE: usize = 64;
/// How long it has to end by itself when asked to.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// What a plugin says of its own accord.
#[derive(Debug, PartialEq)]
pub struct Heard {
    /// What its answer must carry; none if it wants no answer.
    pub id: Option<Value>,
    /// What it is.
    pub method: String,
    /// The rest.
    pub params: Value,
}

/// Why a call has no result.
#[derive(Debug, Clone, PartialEq)]
pub enum Unanswered {
    /// It was not even written.
    Unsent(String),
    /// It was written, and nobody knows.
    InDoubt(String),
    /// The plugin said no.
    Refused(Value),
}

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<Result<Value, Value>>>>>;

/// A plugin's process. It ends when this is dropped.
pub struct Process {
    lines: mpsc::Sender<String>,
    pending: Pending,
    last_id: AtomicU64,
    heard: tokio::sync::Mutex<mpsc::Receiver<Heard>>,
    ended: watch::Receiver<Option<String>>,
    _stop: oneshot::Sender<()>,
}

impl Process {
    /// Starts it. `log` gets each line of its stderr.
    pub fn start(command: &mut Command, log: Log) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn()?;
        let group = Group::of(&child);
        let (lines, to_write) = mpsc::channel(QUEUE);
        let (heard_sender, heard) = mpsc::channel(QUEUE);
        let (ended_sender, ended) = watch::channel(None);
        let (stop, stopping) = oneshot::channel();
        let pending = Pending::default();
        if let Some(stdin) = child.stdin.take() {
            tokio::spawn(write(stdin, to_write));
        }
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(complain(BufReader::new(stderr), log));
        }
        let stdout = child.stdout.take().map(BufReader::new);
        let reading = read(stdout, heard_sender, Arc::clone(&pending));
        tokio::spawn(keep(child, group, reading, stopping, ended_sender));
        let last_id = AtomicU64::new(0);
        Ok(Self { lines, pending, last_id, heard: tokio::sync::Mutex::new(heard), ended, _stop: stop })
    }

    /// Asks for something and waits for the answer.
    pub async fn call(&self, method: &str, params: Value, limit: Duration) -> Result<Value, Unanswered> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (answer, answered) = oneshot::channel();
        locked(&self.pending).insert(id, answer);
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string();
        let sent = self.lines.try_send(line);
        let outcome = match sent {
            Err(_) => Err(Unanswered::Unsent("the plugin takes nothing now".to_owned())),
            Ok(()) => match tokio::time::timeout(limit, answered).await {
                Ok(Ok(Ok(result))) => Ok(result),
                Ok(Ok(Err(error))) => Err(Unanswered::Refused(error)),
                Ok(Err(_)) => Err(Unanswered::InDoubt("the plugin ended".to_owned())),
                Err(_) => Err(Unanswered::InDoubt(format!(
                    "the plugin did not answer within {} s",
                    limit.as_secs()
                ))),
            },
        };
        locked(&self.pending).remove(&id);
        outcome
    }

    /// Tells something that needs no answer; one that takes nothing now does without.
    pub fn notify(&self, method: &str, params: &Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        if let Err(error) = self.lines.try_send(line.to_string()) {
            tracing::debug!(method, %error, "a plugin was not told");
        }
    }

    /// Answers a call of the plugin's.
    pub async fn answer(&self, id: &Value, result: Value) {
        self.write(json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    /// Refuses one, with a word that says why.
    pub async fn refuse(&self, id: &Value, code: &str, message: &str) {
        self.refuse_with(id, json!({ "code": code, "message": message })).await;
    }

    /// Refuses one for now: it is to be said again after so long.
    pub async fn put_off(&self, id: &Value, message: &str, wait: Duration) {
        let data = json!({ "retry_after": wait.as_secs() });
        self.refuse_with(id, json!({ "code": "retry_after", "message": message, "data": data })).await;
    }

    async fn refuse_with(&self, id: &Value, error: Value) {
        self.write(json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }

    async fn write(&self, line: Value) {
        // One that ended meanwhile says everything again in its next life.
        let sent = self.lines.send_timeout(line.to_string(), LAST_MOMENTS).await;
        if let Err(SendTimeoutError::Timeout(_)) = sent {
            tracing::warn!(id = %line["id"], "a plugin that reads nothing got no answer to what it said");
        }
    }

    /// What it says next, and what else is there already; or why there will be nothing more.
    pub async fn hear(&self, patience: Duration) -> Result<Vec<Heard>, String> {
        let mut heard = self.heard.lock().await;
        let mut all = Vec::new();
        match tokio::time::timeout(patience, heard.recv_many(&mut all, QUEUE)).await {
            Ok(0) => Err(self.last_words().await),
            _ => Ok(all),
        }
    }

    async fn last_words(&self) -> String {
        let mut ended = self.ended.clone();
        let told = tokio::time::timeout(LAST_MOMENTS, ended.wait_for(Option::is_some)).await;
        let why = told.ok().and_then(|told| told.ok().and_then(|why| why.clone()));
        why.unwrap_or_else(|| "it closed its stdout".to_owned())
    }
}

/// Where a plugin's words for people go: the daemon's log, without secrets.
#[derive(Clone)]
pub struct Log {
    /// The channel.
    pub name: String,
    /// What hides secrets.
    pub redactor: Redactor,
}

impl Log {
    /// One line.
    pub fn say(&self, line: &str) {
        let line = self.redactor.redact(line);
        let line: String = plain(&line).chars().take(COMPLAINT_CHARS).collect();
        tracing::info!(channel = self.name, "plugin: {}", line.trim_end());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Until nobody has anything more to say; then it is told to end.
async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<String>) {
    while let Some(mut line) = lines.recv().await {
        line.push('\n');
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
    }
    // One that has ended already need not be told.
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"shutdown\"}\n").await.ok();
}

/// One line, without its end; none at the end of all.
async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let count = reader.take(LINE_BYTES).read_until(b'\n', &mut line).await?;
    if count as u64 == LINE_BYTES && line.last() != Some(&b'\n') {
        return Err(io::Error::other(format!("a line of it is longer than {LINE_BYTES} bytes")));
    }
    Ok((count > 0).then_some(line))
}

/// Hands on what comes; says why nothing more does.
async fn read(
    stdout: Option<impl AsyncBufRead + Unpin>,
    heard: mpsc::Sender<Heard>,
    pending: Pending,
) -> Option<String> {
    let mut stdout = stdout?;
    loop {
        let line = match line(&mut stdout).await {
            Ok(Some(line)) => line,
            Ok(None) => return None,
            Err(error) => return Some(error.to_string()),
        };
        if line.trim_ascii().is_empty() {
            continue;
        }
        let Ok(mut message) = serde_json::from_slice::<Value>(&line) else {
            return Some("it wrote a line on stdout that is no JSON".to_owned());
        };
        if let Some(method) = message["method"].as_str().map(str::to_owned) {
            let id = message.get("id").filter(|id| !id.is_null()).cloned();
            let params = message["params"].take();
            if heard.send(Heard { id, method, params }).await.is_err() {
                return None;
            }
        } else if let Some(waiting) = message["id"].as_u64().and_then(|id| locked(&pending).remove(&id)) {
            let error = message.get("error").filter(|error| !error.is_null()).cloned();
            // Whoever asked may have given up.
            waiting.send(error.map_or_else(|| Ok(message["result"].take()), Err)).ok();
        }
    }
}

/// Until it ends, or must: then all that it started ends too.
async fn keep(
    mut child: Child,
    group: Group,
    reading: impl Future<Output = Option<String>>,
    stopping: oneshot::Receiver<()>,
    ended: watch::Sender<Option<String>>,
) {
    let why = tokio::select! {
        wrong = reading => wrong,
        _ = stopping => None,
    };
    if why.is_none() {
        // Its stdin is closed, or it has closed its stdout: a moment to end by itself. Then it is ended.
        tokio::time::timeout(LAST_MOMENTS, child.wait()).await.ok();
    }
    drop(group);
    let status = child.wait().await;
    let how = || status.map_or_else(|error| error.to_string(), |status| format!("it ended with {status}"));
    // Nobody may be left who wants to know.
    ended.send(Some(why.unwrap_or_else(how))).ok();
}

/// Until the end: whoever writes to a pipe that nobody reads ends by it. A line that is too long is only begun.
async fn complain(mut stderr: impl AsyncBufRead + Unpin, log: Log) {
    let mut is_middle = false;
    loop {
        let mut line = Vec::new();
        match (&mut stderr).take(COMPLAINT_BYTES).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return,
            Ok(_) if !is_middle => log.say(&String::from_utf8_lossy(&line)),
            Ok(_) => {}
        }
        is_middle = line.last() != Some(&b'\n');
    }
}
