//! Runs a program of the operator's for each notice: the message on stdin, the notice as JSON in the environment, with a
//! timeout. No process of the program survives the delivery.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use codex_wire::reason;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, Command};

use super::http::MAX_TIMEOUT_S;
use super::settings::{OpenedChannel, Opening};
use super::text::{self, Limit, Mentions};
use super::webhook::{notice_json, task_id};
use super::{Channel, Platform};

/// The default timeout of a program.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The default limit of a message.
const TEXT_CHARS: usize = 16_000;
/// The longest JSON in the environment: Linux allows no variable above 128 KiB.
const JSON_BYTES: usize = 100 * 1024;
/// How much of the program's stderr is kept.
const STDERR_BYTES: usize = 2_048;
/// How long to wait for the stderr of a program that has exited.
const STDERR_WAIT: Duration = Duration::from_millis(200);

/// The settings of an `exec` channel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// The program and its arguments. No shell is involved.
    pub argv: Vec<String>,
    /// The longest message on the program's stdin, in characters.
    pub limit: Option<usize>,
    /// The timeout of the program.
    pub timeout_s: Option<u64>,
}

impl Platform for Settings {
    fn open(&self, _opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        if self.argv.is_empty() {
            return Err("`argv` is empty".to_owned());
        }
        if self.timeout_s.is_some_and(|seconds| seconds > MAX_TIMEOUT_S) {
            return Err(format!("`timeout_s` can be at most {MAX_TIMEOUT_S}"));
        }
        Ok(OpenedChannel::Sends(Arc::new(self.clone())))
    }
}

impl Settings {
    async fn run(&self, attempt: &Attempt) -> Outcome {
        let limit = Limit::Chars(self.limit.unwrap_or(TEXT_CHARS));
        let message = text::text(&attempt.notice, attempt.may_be_duplicate, limit, Mentions::Relayed);
        let mut child = match self.command(attempt).spawn() {
            Ok(child) => child,
            Err(error) => {
                return Outcome::failed(
                    Refusal::Later,
                    format!("{} cannot be run: {}", self.argv[0], reason(&error)),
                );
            }
        };
        let _group = ProcessGroup::of(&child);
        let timeout = self.timeout_s.map_or(TIMEOUT, Duration::from_secs);
        let finished = tokio::time::timeout(timeout, finish(&mut child, &message)).await;
        finished.unwrap_or_else(|_| {
            Outcome::in_doubt(format!("the program took longer than {} s", timeout.as_secs()))
        })
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
        let json = notice_json(attempt).to_string();
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
    let stderr_text = Arc::new(Mutex::new(Vec::new()));
    let reader = stderr.map(|stderr| tokio::spawn(collect_stderr(stderr, Arc::clone(&stderr_text))));
    let write = async {
        if let Some(mut stdin) = stdin {
            // A program need not read its stdin.
            stdin.write_all(message.as_bytes()).await.ok();
        }
    };
    let ((), status) = tokio::join!(write, child.wait());
    match status {
        Ok(status) if status.success() => Outcome::delivered(None),
        Ok(status) => {
            // A process that the program left running may hold stderr open.
            if let Some(mut reader) = reader
                && tokio::time::timeout(STDERR_WAIT, &mut reader).await.is_err()
            {
                reader.abort();
            }
            let stderr_text = stderr_text.lock().unwrap_or_else(PoisonError::into_inner);
            let stderr_text = String::from_utf8_lossy(&stderr_text);
            let error = format!("the program ended with {status}: {}", stderr_text.trim());
            match status.code() {
                Some(_) => Outcome::failed(Refusal::Later, error),
                // A program that a signal ended may have sent the message already.
                None => Outcome::in_doubt(error),
            }
        }
        Err(error) => Outcome::in_doubt(format!("the end of the program is unknown: {}", reason(&error))),
    }
}

/// Keeps the beginning of stderr and reads the rest, so that the program never blocks on a full pipe.
async fn collect_stderr(mut stderr: ChildStderr, kept: Arc<Mutex<Vec<u8>>>) {
    let mut chunk = [0; 1024];
    while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        let room = STDERR_BYTES.saturating_sub(kept.len());
        kept.extend_from_slice(&chunk[..count.min(room)]);
    }
}

/// A process group. Dropping this kills the group.
pub struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    /// The group whose leader is the child.
    pub fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An error means that the group has no process left.
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}
