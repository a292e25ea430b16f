//! Why a turn failed, as a kind and as a message. The kind comes from structured facts; text is matched only in the
//! primary error, since unrelated lines of stderr would lead to wrong advice.

use std::fmt;

use codex_wire::peer::CallError;
use codex_wire::thread::TurnError;
use redact::Redactor;
use serde::Serialize;

/// How the end of the server's stderr begins in a failure's words.
pub const STDERR: &str = "\ncodex stderr (last ";

/// The sentence for a login that no longer works.
pub const LOGIN_HINT: &str =
    "Codex is not logged in or its login has expired: run `codex login`, then try again";

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Failure {
    /// The kind.
    pub kind: FailureKind,
    /// The message, redacted.
    pub message: String,
    /// The last lines of the server's stderr, redacted; only if the error alone does not explain the failure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stderr_tail: Vec<String>,
}

/// The kinds of failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "name")]
pub enum FailureKind {
    /// Codex could not be started, or did not open the thread.
    Startup,
    /// The thread is outside of its bounds.
    Breach,
    /// Another process has the thread open for writing.
    ThreadBusy {
        /// That process, if it could be found.
        holder_pid: Option<u32>,
    },
    /// The login is missing or expired.
    Auth,
    /// The account's limit is used up.
    UsageLimit {
        /// When it is reset, in seconds since 1970, if known.
        resets_at: Option<i64>,
    },
    /// Codex blocked its own network access for a moment, as it does when its login changes during a turn.
    NetworkWithheld,
    /// Too many requests at once.
    RateLimit,
    /// The conversation no longer fits in the model's context window.
    ContextWindow,
    /// The provider is overloaded or broken.
    Provider,
    /// The model refused, or failed for another reason.
    Model,
    /// Codex refused the call.
    Refused,
    /// A limit of this session was reached.
    Timeout,
    /// Codex did not answer a call in time.
    Unresponsive,
    /// Codex ended, or the connection to it was lost.
    Lost,
    /// Codex violated the protocol.
    Protocol,
    /// The turn was aborted by Codex.
    Aborted,
    /// The session was closed by us.
    Closed,
    /// The caller asked for something impossible.
    Configuration,
}

impl Failure {
    /// A failure without stderr.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), stderr_tail: Vec::new() }
    }

    /// From a turn that Codex reports as failed.
    pub fn of_turn(error: &TurnError, resets_at: Option<i64>) -> Self {
        let kind = kind_of_turn_error(error, resets_at);
        Self::new(kind.clone(), with_login_hint(&kind, &error.message))
    }

    /// From a call that failed; `what` is its name in the message.
    pub fn of_call(what: &str, error: &CallError) -> Self {
        let kind = match error {
            CallError::Refused(refusal) if reads_as_auth_failure(&refusal.message) => FailureKind::Auth,
            CallError::Refused(_) => FailureKind::Refused,
            CallError::TimedOut { .. } => FailureKind::Unresponsive,
            CallError::Closed(_) => FailureKind::Lost,
            CallError::Unreadable { .. } => FailureKind::Protocol,
        };
        let message = match error {
            CallError::TimedOut { after, .. } => format!("{what} timed out after {} s", after.as_secs_f32()),
            other => format!("{what} failed: {other}"),
        };
        Self::new(kind.clone(), with_login_hint(&kind, &message))
    }

    /// Hides secrets in the message. The stderr was redacted when it was read.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        self.message = redactor.redact(&self.message).into_owned();
    }

    /// Whether the session should be replaced before the next turn. This is so if the process or its login may be
    /// broken, but not after errors of the model or refused calls.
    pub fn retires_session(&self) -> bool {
        match self.kind {
            FailureKind::Startup
            | FailureKind::Breach
            | FailureKind::ThreadBusy { .. }
            | FailureKind::Auth
            | FailureKind::Timeout
            | FailureKind::Unresponsive
            | FailureKind::Lost
            | FailureKind::Closed => true,
            FailureKind::UsageLimit { .. }
            | FailureKind::NetworkWithheld
            | FailureKind::RateLimit
            | FailureKind::ContextWindow
            | FailureKind::Provider
            | FailureKind::Model
            | FailureKind::Refused
            | FailureKind::Protocol
            | FailureKind::Aborted
            | FailureKind::Configuration => false,
        }
    }

    /// Whether the server's stderr may help to explain the failure.
    pub(crate) fn wants_stderr(&self) -> bool {
        use FailureKind::{Lost, Protocol, Refused, Startup, Timeout, Unresponsive};
        matches!(self.kind, Startup | Refused | Unresponsive | Lost | Timeout | Protocol)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if !self.stderr_tail.is_empty() {
            write!(f, "{STDERR}{} lines):\n{}", self.stderr_tail.len(), self.stderr_tail.join("\n"))?;
        }
        Ok(())
    }
}

fn kind_of_turn_error(error: &TurnError, resets_at: Option<i64>) -> FailureKind {
    match (error.info(), error.http_status()) {
        (Some("unauthorized"), _) | (_, Some(401)) => FailureKind::Auth,
        (Some("usageLimitExceeded" | "sessionBudgetExceeded"), _) => FailureKind::UsageLimit { resets_at },
        (Some("rateLimitExceeded"), _) | (_, Some(429)) => FailureKind::RateLimit,
        (Some("contextWindowExceeded"), _) => FailureKind::ContextWindow,
        (None | Some("other"), None) if reads_as_auth_failure(&error.message) => FailureKind::Auth,
        _ if reads_as_network_withheld(&error.message) => FailureKind::NetworkWithheld,
        (
            Some(
                "serverOverloaded"
                | "internalServerError"
                | "responseStreamDisconnected"
                | "responseStreamConnectionFailed"
                | "httpConnectionFailed",
            ),
            _,
        )
        | (_, Some(500..=599)) => FailureKind::Provider,
        _ => FailureKind::Model,
    }
}

/// Whether the text of the primary error is about a broken login. A last resort, for errors without a structured kind.
pub fn reads_as_auth_failure(message: &str) -> bool {
    const SIGNS: &[&str] = &[
        "invalid_grant",
        "invalid grant",
        "token refresh failed",
        "failed to refresh token",
        "refresh token",
        "refresh_token",
        "token has expired",
        "expired token",
        "expired_token",
        "not authenticated",
        "unauthenticated",
        "401 unauthorized",
        "re-authenticate",
        "reauthenticate",
        "please log in",
        "please login",
        "not logged in",
    ];
    let message = message.to_lowercase();
    SIGNS.iter().any(|sign| message.contains(sign))
}

/// Whether Codex's own network policy failed the turn or the opening of a thread. Seen on 0.166 while `auth.json` was
/// written; it has no structured kind.
pub(crate) fn reads_as_network_withheld(message: &str) -> bool {
    const SIGNS: &[&str] =
        &["application network permission was revoked", "application network policy is unavailable"];
    SIGNS.iter().any(|sign| message.contains(sign))
}

fn with_login_hint(kind: &FailureKind, message: &str) -> String {
    if *kind == FailureKind::Auth { format!("{LOGIN_HINT} ({message})") } else { message.to_owned() }
}

#[cfg(test)]
mod tests {
    use codex_wire::answer::RpcError;
    use serde_json::json;

    use super::*;

    fn turn_error(message: &str, info: serde_json::Value) -> TurnError {
        TurnError { message: message.to_owned(), codex_error_info: Some(info), additional_details: None }
    }

    // peer: S63, S64, S65, S66, S67, S68
    #[test]
    fn words_of_the_primary_error_tell_a_dead_login() {
        for message in
            ["invalid_grant", "token refresh failed", "HTTP 401 Unauthorized", "please reauthenticate"]
        {
            assert!(reads_as_auth_failure(message), "{message}");
        }
        for message in
            ["connection reset", "bad json", "rate limit exceeded", "", "oauth", "the author wrote 401 lines"]
        {
            assert!(!reads_as_auth_failure(message), "{message}");
        }
        // Any part of a longer message counts.
        assert!(reads_as_auth_failure("request failed\ncaused by: Invalid_Grant"));
    }

    #[test]
    fn structured_facts_come_before_words() {
        let kinds = [
            (json!("unauthorized"), "x", FailureKind::Auth),
            (json!({"httpConnectionFailed": {"httpStatusCode": 401}}), "x", FailureKind::Auth),
            (json!("usageLimitExceeded"), "401 unauthorized", FailureKind::UsageLimit { resets_at: Some(9) }),
            (json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}), "x", FailureKind::RateLimit),
            (json!("rateLimitExceeded"), "x", FailureKind::RateLimit),
            (json!("contextWindowExceeded"), "x", FailureKind::ContextWindow),
            (json!("serverOverloaded"), "x", FailureKind::Provider),
            (json!("internalServerError"), "x", FailureKind::Provider),
            (json!("other"), "stream disconnected", FailureKind::Model),
            (json!("other"), "x: application network permission was revoked", FailureKind::NetworkWithheld),
            (json!("badRequest"), "application network policy is unavailable", FailureKind::NetworkWithheld),
            (json!("usageLimitExceeded"), "network policy", FailureKind::UsageLimit { resets_at: Some(9) }),
            (json!("something new"), "401 unauthorized", FailureKind::Model),
            (json!("other"), "401 Unauthorized: please reauthenticate", FailureKind::Auth),
        ];
        for (info, message, kind) in kinds {
            assert_eq!(Failure::of_turn(&turn_error(message, info.clone()), Some(9)).kind, kind, "{info}");
        }
    }

    #[test]
    fn only_doubt_about_the_process_or_the_login_retires() {
        let refused = |message: &str| {
            let error = RpcError { code: -32600, message: message.to_owned(), data: None };
            Failure::of_call("turn/start", &CallError::Refused(error))
        };
        assert!(!refused("bad input").retires_session());
        let expired = refused("invalid_grant");
        assert!(expired.retires_session());
        assert!(expired.message.contains("codex login"));
    }
}
