//! Why a caller is refused: the caller lacks a role, the operator's rules forbid the work, or Codex does not take it.

use codex_session::SteerOutcome;

/// The caller lacks the right to do this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Forbidden {
    /// Why, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Why work is not accepted as asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The rule that refused the work.
    pub rule: Rule,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The rules by which work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The directory is missing, relative, or not a directory.
    BadCwd,
    /// No task may work or write in that directory.
    CwdProtected,
    /// The directory can have no level of trust, or not this one.
    TrustRefused,
    /// Running tasks can write in the directory that is to be trusted.
    TrustUnderWriters,
    /// The directory is outside of the configured roots.
    CwdOutsideRoots,
    /// Remote callers need configured roots, and there are none.
    NoRoots,
    /// The task has more rights than this caller could have asked for.
    BeyondReach,
    /// The configuration has no such profile.
    UnknownProfile,
    /// The profile is not for agents.
    ProfileRefused,
    /// The operator does not list this CODEX_HOME.
    HomeNotListed,
    /// The instructions are too long, or hold a secret.
    InstructionsRefused,
    /// No caller may choose this sandbox.
    SandboxRefused,
    /// There is no such sandbox.
    UnknownSandbox,
    /// No caller may choose this approval policy.
    ApprovalPolicyRefused,
    /// There is no such approval policy.
    UnknownApprovalPolicy,
}

impl Refusal {
    pub(crate) fn new(rule: Rule, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { rule, message: message.into(), hint: hint.into() }
    }
}

/// Why a text was not added to a turn, in a sentence without a full stop.
pub(crate) fn not_steered(outcome: &SteerOutcome) -> String {
    let reason = match outcome {
        SteerOutcome::Accepted => "it was added",
        SteerOutcome::NoActiveTurn => "no turn is running any more",
        SteerOutcome::WrongTurn => "another turn has started since",
        SteerOutcome::NotSteerable => "this kind of turn cannot be steered",
        SteerOutcome::Failed(message) => message,
        SteerOutcome::Unconfirmed(message) => {
            return format!("Codex has not confirmed the text, which may have been added: {message}");
        }
    };
    format!("Codex did not accept the text: {reason}")
}
