//! A failure as every door reports it: a code for programs, a sentence, and a hint what to do next.
//!
//! Maps the errors of the library to failures, and failures to JSON. Knows no terminal and no router.

pub mod code;
mod parser_message;

use std::fmt;

use axum::http::StatusCode;
use codex_bridge_core::bridge::{self, DecisionOutcome, TooLate};
use codex_bridge_core::outbox::sender::Unknown;
use codex_bridge_core::refusal::Forbidden;
use codex_bridge_core::refusal::Rule;
use codex_bridge_core::{store, token};
use codex_session::SteerOutcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::amount::rfc3339;
pub use code::{Code, Exit};
pub use parser_message::parser_message;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A stable word for programs; `docs/errors.md` lists all codes.
    pub code: Code,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// What to do next.
    #[serde(default)]
    pub hint: Option<String>,
}

/// A failure in streams and on stderr: `{"error":{"code","message","hint"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorBody {
    /// The failure.
    pub error: Failure,
}

impl Failure {
    /// A failure with the hint of its code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let hint = code.hint().map(str::to_owned);
        Self { code, message: message.into(), hint }
    }

    /// The same failure with another hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// A bug in codex-bridge, or an unexpected error.
    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new(Code::Internal, error.to_string())
    }

    /// The daemon is stopping, so the caller's wait ends.
    pub fn stopping() -> Self {
        bridge::Error::Closing.into()
    }

    /// The failure as JSON, for stderr.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&ErrorBody { error: self.clone() }).unwrap_or_default()
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

/// A failure as an HTTP response: problem JSON (RFC 9457) with the fields `code` and `hint`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`; `code` says which failure it is.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// A stable word for programs.
    pub code: Code,
    /// What to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl From<Failure> for Problem {
    fn from(Failure { code, message, hint }: Failure) -> Self {
        let status = code.status();
        Self {
            kind: "about:blank".to_owned(),
            title: status.canonical_reason().unwrap_or_default().to_owned(),
            status: status.as_u16(),
            detail: message,
            code,
            hint,
        }
    }
}

impl Problem {
    /// The problem with another HTTP status than that of its code.
    pub fn with_status(self, status: StatusCode) -> Self {
        let title = status.canonical_reason().unwrap_or_default().to_owned();
        Self { status: status.as_u16(), title, ..self }
    }
}

impl From<Problem> for Failure {
    fn from(problem: Problem) -> Self {
        Self { code: problem.code, message: problem.detail, hint: problem.hint }
    }
}

impl From<bridge::Error> for Failure {
    fn from(error: bridge::Error) -> Self {
        use bridge::Error;
        let message = error.to_string();
        let code = match error {
            Error::Forbidden(forbidden) => return forbidden.into(),
            Error::NotAdmitted(refusal) => return Self::new(refusal.rule.into(), message).hint(refusal.hint),
            Error::Token(error) => return error.into(),
            Error::Store(error) => return error.into(),
            Error::UnknownTarget(unknown) => {
                return Self::new(Code::UnknownTarget, message).hint(known_targets(&unknown));
            }
            Error::BadTarget(_) => {
                return Self::new(Code::UnknownTarget, message).hint(
                    "write targets as in webhook:ci?on=completed,failed; docs/notifications.md lists them",
                );
            }
            Error::TooLate(late) => {
                return Self::new(late_code(late.0.outcome), message).hint(late_hint(&late));
            }
            Error::UnknownDecision(_) => Code::UnknownDecision,
            Error::DigestMissing | Error::NotShown(_) => Code::DigestMissing,
            Error::UnknownTask(_) => Code::UnknownTask,
            Error::AmbiguousTask(_) | Error::AmbiguousRequest(_) => Code::AmbiguousId,
            Error::UnknownRequest(_) | Error::NoOpenRequest(_) => Code::UnknownRequest,
            Error::IsQuestion(_) => Code::IsQuestion,
            Error::NeedsReveal(_) => Code::NeedsReveal,
            Error::NotOpened(_) => Code::NotOpened,
            Error::AnotherRequest(_) => Code::DigestMismatch,
            Error::BadAnswers(_) => Code::BadAnswers,
            Error::WrongState { .. } => Code::WrongState,
            Error::NotSteered(SteerOutcome::Unconfirmed(_)) => Code::SteerUnconfirmed,
            Error::NotSteered(_) => Code::NotSteered,
            Error::Refused(_) => Code::Refused,
            Error::EmptyPrompt => Code::EmptyPrompt,
            Error::BadRequestName(_) => Code::BadCall,
            Error::PromptTooLong { .. } => Code::PromptTooLong,
            Error::NotThere(_) => Code::NotThere,
            Error::KeyReused(_) => Code::KeyReused,
            Error::UnknownMessage(_) => Code::UnknownMessage,
            Error::UnknownDelivery(_) => Code::UnknownDelivery,
            Error::Undelivered { .. } => Code::Undelivered,
            Error::CutOff | Error::Closing => Code::DaemonStopping,
            Error::Hosts(_) => Code::Hosts,
        };
        Self::new(code, message)
    }
}

impl From<Forbidden> for Failure {
    fn from(Forbidden { message, hint }: Forbidden) -> Self {
        Self::new(Code::Forbidden, message).hint(hint)
    }
}

impl From<Rule> for Code {
    fn from(rule: Rule) -> Self {
        match rule {
            Rule::BadCwd => Self::BadCwd,
            Rule::TrustRefused => Self::BadDirectory,
            Rule::TrustUnderWriters => Self::WrongState,
            Rule::CwdProtected => Self::CwdProtected,
            Rule::CwdOutsideRoots => Self::CwdOutsideRoots,
            Rule::NoRoots => Self::NoRoots,
            Rule::BeyondReach => Self::BeyondReach,
            Rule::UnknownProfile => Self::UnknownProfile,
            Rule::ProfileRefused => Self::ProfileRefused,
            Rule::HomeNotListed => Self::HomeNotListed,
            Rule::InstructionsRefused => Self::InstructionsRefused,
            Rule::SandboxRefused => Self::SandboxRefused,
            Rule::UnknownSandbox => Self::UnknownSandbox,
            Rule::ApprovalPolicyRefused => Self::ApprovalPolicyRefused,
            Rule::UnknownApprovalPolicy => Self::UnknownApprovalPolicy,
        }
    }
}

fn late_code(outcome: DecisionOutcome) -> Code {
    match outcome {
        DecisionOutcome::Expired => Code::Expired,
        DecisionOutcome::Orphaned => Code::Orphaned,
        DecisionOutcome::AlreadyResolved | DecisionOutcome::Resolved | DecisionOutcome::Sent => {
            Code::AlreadyResolved
        }
    }
}

fn late_hint(TooLate(report): &TooLate) -> String {
    let decided = report.decided_at.map(|at| format!("it was decided at {}; ", rfc3339(at)));
    format!("{}the task lists its pending requests", decided.unwrap_or_default())
}

/// Lists the configured targets.
fn known_targets(unknown: &Unknown) -> String {
    match unknown.known.as_slice() {
        [] => "the only target is local; the operator configures others under [channels]".to_owned(),
        known => format!("the targets are local, {}", known.join(", ")),
    }
}

impl From<token::Error> for Failure {
    fn from(error: token::Error) -> Self {
        let message = error.to_string();
        match error {
            token::Error::BadName => Self::new(Code::BadName, message),
            token::Error::Exists(_) => Self::new(Code::TokenExists, message),
            token::Error::Unknown(_) => Self::new(Code::UnknownToken, message),
            token::Error::BadQuota => Self::new(Code::BadQuota, message),
            token::Error::TooManyOpen { name, .. } => Self::new(Code::QuotaOpenTasks, message).hint(format!(
                "wait until a task has ended, or interrupt one; the owner can raise the quota with `codex-bridge token quota {name}`"
            )),
            token::Error::TooManyBytes { name, .. } => Self::new(Code::QuotaBytes, message).hint(format!(
                "old tasks are deleted after `keep_days`; the owner can raise the quota with `codex-bridge token quota {name}`"
            )),
            token::Error::NoRandomness(_) => Self::internal(message),
        }
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let code = match error {
            store::Error::Duplicate(_) => Code::Duplicate,
            store::Error::DiskFull { .. } => Code::StoreFull,
            store::Error::ReadOnly { .. } => Code::StoreReadOnly,
            store::Error::Locked { .. } => Code::StoreLocked,
            store::Error::Corrupt { .. } => Code::StoreCorrupt,
            store::Error::TooNew { .. } => Code::StoreTooNew,
            store::Error::Other(_) => Code::Store,
        };
        Self::new(code, error.to_string())
    }
}
