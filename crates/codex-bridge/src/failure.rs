//! Why something was not done, as every door tells it: a code for programs, a sentence, and what to do next.
//!
//! Knows the errors of the library, no wire format beyond its own three fields and no terminal.

use std::fmt;

use codex_bridge_core::bridge;
use codex_bridge_core::outbox::sender::Unknown;
use codex_bridge_core::{store, token};
use serde::{Deserialize, Serialize};

/// Why something was not done. In JSON it stands under `error`: `{"error":{"code","message","hint"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One stable word for programs; all of them are listed in `docs/daemon.md`.
    pub code: String,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A failure as it stands on the wire and on stderr.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrapped {
    /// The failure.
    pub error: Failure,
}

impl Failure {
    /// A failure without advice.
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None }
    }

    /// The same with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Something of ours that should not have happened.
    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new("internal", error.to_string())
    }

    /// As it is printed for programs.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&Wrapped { error: self.clone() }).unwrap_or_default()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Failure {}

impl From<bridge::Error> for Failure {
    fn from(error: bridge::Error) -> Self {
        let message = error.to_string();
        match error {
            bridge::Error::UnknownTask(_) => {
                Self::new("unknown_task", message).hint("`codex-bridge ps --all` lists the tasks")
            }
            bridge::Error::AmbiguousTask(_) => Self::new("ambiguous_task", message),
            bridge::Error::UnknownRequest(_) => {
                Self::new("unknown_request", message).hint("`codex-bridge requests` lists what is open")
            }
            bridge::Error::IsQuestion(_) => Self::new("is_question", message)
                .hint("answer it: `codex-bridge answer`, or `answers` by the door you came by"),
            bridge::Error::NotShown(_) => Self::new("digest_missing", message)
                .hint("send `request_id` and `digest` as the request that you were shown has them"),
            bridge::Error::NeedsReveal(_) => Self::new("needs_reveal", message).hint(
                "on the machine, `codex-bridge requests TASK --reveal` shows it and `codex-bridge approve` approves it",
            ),
            bridge::Error::NotOpened(_) => Self::new("not_opened", message).hint(
                "`changes` of the request has the whole diff and the digest for a yes; diffs that were not kept can only be declined",
            ),
            bridge::Error::AnotherRequest(_) => Self::new("digest_mismatch", message)
                .hint("look at the request again, and decide on what it asks now"),
            bridge::Error::BadAnswers(_) => Self::new("bad_answers", message)
                .hint("`codex-bridge requests` shows the fields, and what each of them takes"),
            bridge::Error::WrongState { .. } => Self::new("wrong_state", message),
            bridge::Error::Refused(_) => Self::new("refused", message),
            bridge::Error::PromptTooLong { .. } => Self::new("prompt_too_long", message).hint(
                "put long text into a file in the task's directory and name it; the operator sets `prompt_limit_bytes`",
            ),
            bridge::Error::NotThere(_) => Self::new("not_there", message),
            bridge::Error::KeyReused(_) => Self::new("key_reused", message).hint(
                "give other work a name of its own; the same work must have the same prompt and settings",
            ),
            bridge::Error::Token(error) => error.into(),
            bridge::Error::BadTarget(_) => Self::new("unknown_target", message)
                .hint("write targets as in webhook:ci?on=completed,failed; docs/notifications.md lists them"),
            bridge::Error::UnknownTarget(unknown) => {
                Self::new("unknown_target", message).hint(known(&unknown))
            }
            bridge::Error::UnknownMessage(_) => {
                Self::new("unknown_message", message).hint("`codex-bridge inbox --all` lists them")
            }
            bridge::Error::UnknownDelivery(_) => {
                Self::new("unknown_delivery", message).hint("`codex-bridge deliveries --all` lists them")
            }
            bridge::Error::Undelivered { .. } => Self::new("undelivered", message),
            bridge::Error::Store(error) => error.into(),
            bridge::Error::CutOff => Self::new("daemon_stopping", message)
                .hint("repeat the command: a new daemon goes on where this one was"),
            bridge::Error::Hosts(_) => {
                Self::new("hosts", message).hint("`codex-bridge doctor` looks for the cause")
            }
        }
    }
}

/// Which targets there are.
fn known(unknown: &Unknown) -> String {
    match unknown.known.as_slice() {
        [] => "only local is known; the operator configures others under [notify]".to_owned(),
        known => format!("known are local, {}", known.join(", ")),
    }
}

impl From<token::Error> for Failure {
    fn from(error: token::Error) -> Self {
        let message = error.to_string();
        match error {
            token::Error::BadName => Self::new("bad_name", message).hint("such as phone or ci.build-2"),
            token::Error::Exists(_) => {
                Self::new("token_exists", message).hint("revoke it first, or choose another name")
            }
            token::Error::Unknown(_) => {
                Self::new("unknown_token", message).hint("`codex-bridge token list` lists them")
            }
            token::Error::BadQuota => Self::new("bad_quota", message),
            token::Error::TooManyOpen { name, .. } => Self::new("quota_open_tasks", message).hint(format!(
                "wait until one has ended, or interrupt one; the owner can raise it with `codex-bridge token quota {name}`"
            )),
            token::Error::TooManyBytes { name, .. } => Self::new("quota_bytes", message).hint(format!(
                "old tasks are forgotten after `keep_days`; the owner can raise it with `codex-bridge token quota {name}`"
            )),
            token::Error::NoRandomness(_) => Self::internal(message),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let message = error.to_string();
        match error {
            store::Error::Duplicate(_) => Self::new("duplicate", message),
            store::Error::DiskFull { .. } => {
                Self::new("store_full", message).hint("free some space, then repeat it")
            }
            store::Error::ReadOnly { .. } => Self::new("store_read_only", message),
            store::Error::Locked { .. } => Self::new("store_locked", message).hint(
                "close the program that has it open, such as a database shell or a backup, then repeat it",
            ),
            store::Error::Corrupt { .. } => Self::new("store_corrupt", message)
                .hint("`codex-bridge store check` says what is damaged; restore a backup"),
            store::Error::TooNew { .. } => Self::new("store_too_new", message),
            store::Error::Other(_) => Self::new("store", message),
        }
    }
}
