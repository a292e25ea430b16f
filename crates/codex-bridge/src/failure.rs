//! Why something was not done, as every door tells it: a code for programs, a sentence, and what to do next.
//!
//! Knows the errors of the library and how a failure looks in JSON. Knows no terminal and no router.

pub mod code;

use std::fmt;

use axum::http::StatusCode;
use codex_bridge_core::bridge;
use codex_bridge_core::outbox::sender::Unknown;
use codex_bridge_core::refusal::Forbidden;
use codex_bridge_core::refusal::Rule;
use codex_bridge_core::{store, token};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use code::{Code, Exit};

/// Why something was not done. In JSON it stands under `error`: `{"error":{"code","message","hint"}}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// One stable word for programs; `docs/errors.md` lists all of them.
    pub code: Code,
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

    /// Something of ours that should not have happened.
    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new(Code::Internal, error.to_string())
    }

    /// For those who wait for something that this daemon will not see any more.
    pub fn stopping() -> Self {
        bridge::Error::Closing.into()
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

/// A failure as HTTP answers it: problem JSON (RFC 9457), with our code and hint beside its own fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: `code` tells the kinds apart.
    #[serde(rename = "type")]
    pub kind: String,
    /// The status in words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What is wrong, in a sentence.
    pub detail: String,
    /// One stable word for programs.
    pub code: Code,
    /// What to do about it.
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
    /// The same with another status than that of its code.
    pub fn told_as(self, status: StatusCode) -> Self {
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
                return Self::new(Code::UnknownTarget, message).hint(known(&unknown));
            }
            Error::BadTarget(_) => {
                return Self::new(Code::UnknownTarget, message).hint(
                    "write targets as in webhook:ci?on=completed,failed; docs/notifications.md lists them",
                );
            }
            Error::UnknownDecision(_) => Code::UnknownDecision,
            Error::DigestMissing | Error::NotShown(_) => Code::DigestMissing,
            Error::UnknownTask(_) => Code::UnknownTask,
            Error::AmbiguousTask(_) | Error::AmbiguousRequest(_) => Code::AmbiguousId,
            Error::UnknownRequest(_) => Code::UnknownRequest,
            Error::IsQuestion(_) => Code::IsQuestion,
            Error::NeedsReveal(_) => Code::NeedsReveal,
            Error::NotOpened(_) => Code::NotOpened,
            Error::AnotherRequest(_) => Code::DigestMismatch,
            Error::BadAnswers(_) => Code::BadAnswers,
            Error::WrongState { .. } => Code::WrongState,
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

/// Which targets there are.
fn known(unknown: &Unknown) -> String {
    match unknown.known.as_slice() {
        [] => "only local is known; the operator configures others under [channels]".to_owned(),
        known => format!("known are local, {}", known.join(", ")),
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
                "wait until one has ended, or interrupt one; the owner can raise it with `codex-bridge token quota {name}`"
            )),
            token::Error::TooManyBytes { name, .. } => Self::new(Code::QuotaBytes, message).hint(format!(
                "old tasks are forgotten after `keep_days`; the owner can raise it with `codex-bridge token quota {name}`"
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
