//! A program of the operator's: the message on its stdin, the notice as JSON in its environment, a bounded time, and
//! nothing left of it afterwards.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, Command};

use super::http::MOST_PATIENCE_S;
use super::settings::{Opening, Way};
use super::text::{self, Limit};
use super::webhook::{data, task_id};
use super::{Channel, Platform};

/// How long a program may take, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(30);
/// The message, unless told otherwise.
const TEXT_CHARS: usize = 16_000;
/// The longest JSON in the environment: Linux takes no variable above 128 KiB.
const JSON_BYTES: usize = 100 * 1024;
/// How much of what it complains about is kept.
const STDERR_BYTES: usize = 2_048;
/// How long the complaints of a program that has ended are waited for.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// A program of the operator's.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// The longest message on its stdin, in characters.
    pub limit: Option<usize>,
    /// How long it may take.
    pub timeout_s: Option<u64>,
}

impl Platform for Settings {
    fn open(&self, _opening: &Opening<'_>) -> Result<Way, String> {
        if self.argv.is_empty() {
            return Err("its argv is empty".to_owned());
        }
        if self.timeout_s.is_some_and(|seconds| seconds > MOST_PATIENCE_S) {
            return Err(format!("its timeout_s can be at most {MOST_PATIENCE_S}"));
        }
        Ok(Way::Sends(Arc::new(self.clone())))
    }
}

impl Settings {
    async fn run(&self, attempt: &Attempt) -> Outcome {
        let limit = Limit::Chars(self.limit.unwrap_or(TEXT_CHARS));
        let message = text::text(&attempt.notice, attempt.may_be_duplicate, limit);
        let mut child = match self.command(attempt).spawn() {
            Ok(child) => child,
            Err(error) => {
                return Outcome::failed(Refusal::Later, format!("{} cannot be run: {error}", self.argv[0]));
            }
        };
        let _group = Group::of(&child);
        let timeout = self.timeout_s.map_or(PATIENCE, Duration::from_secs);
        let finished = tokio::time::timeout(timeout, finish(&mut child, &message)).await;
        finished.unwrap_or_else(|_| Outcome::in_doubt(format!("it took longer than {} s", timeout.as_secs())))
    }

    fn command(&self, attempt: &Attempt) -> Command {
        let notice = &attempt.notice;
        let mut command = Command::new(&self.argv[0]);
        command
            .args(&self.argv[1..])
            .current_dir("/")
            .env("CODEX_BRIDGE_DELIVERY_ID", attempt.key.as_str())
            .env("CODEX_BRIDGE_TASK_ID", task_id(notice))
            .env("CODEX_BRIDGE_EVENT", notice.occasion().as_str())
            .env("CODEX_BRIDGE_TITLE", text::title(notice))
            .env("CODEX_BRIDGE_MAY_BE_DUPLICATE", if attempt.may_be_duplicate { "1" } else { "" })
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let json = data(attempt).to_string();
        if json.len() <= JSON_BYTES {
            command.env("CODEX_BRIDGE_NOTICE", json);
        }
        command
    }
}

impl Channel for Settings {
    fn send<'a>(&'a self, _place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.run(attempt).boxed()
    }
}

async fn finish(child: &mut Child, message: &str) -> Outcome {
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let complaint = Arc::new(Mutex::new(Vec::new()));
    let reader = stderr.map(|stderr| tokio::spawn(keep(stderr, Arc::clone(&complaint))));
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program need not read what it is given.
            stdin.write_all(message.as_bytes()).await.ok();
        }
    };
    let ((), status) = tokio::join!(write, child.wait());
    match status {
        Ok(status) if status.success() => Outcome::delivered(None),
        Ok(status) => {
            // What it leaves running may hold its stderr open.
            if let Some(mut reader) = reader
                && tokio::time::timeout(LAST_WORDS, &mut reader).await.is_err()
            {
                reader.abort();
            }
            let complaint = complaint.lock().unwrap_or_else(PoisonError::into_inner);
            let complaint = String::from_utf8_lossy(&complaint);
            let error = format!("it ended with {status}: {}", complaint.trim());
            match status.code() {
                Some(_) => Outcome::failed(Refusal::Later, error),
                // Ended by a signal, it may have got as far as sending.
                None => Outcome::in_doubt(error),
            }
        }
        Err(error) => Outcome::in_doubt(format!("it was lost: {error}")),
    }
}

/// Keeps the beginning and reads on, so that nobody is held up.
async fn keep(mut stderr: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut piece).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = STDERR_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&piece[..count.min(room)]);
    }
}

/// The program and all that it started: ended when this is dropped.
pub struct Group(Option<Pid>);

impl Group {
    /// The group that a child leads.
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // Nobody left is what we want.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}
