//! Why a caller is refused: for the role that it lacks, or by the operator's rules.

/// The caller may not do it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Forbidden {
    /// Why, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// Why work is not taken as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// Which rule refused it.
    pub rule: Rule,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// What to do about it.
    pub hint: String,
}

/// The rules by which work is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The directory is missing, relative, or no directory.
    BadCwd,
    /// No task may work, or write, in that directory.
    CwdProtected,
    /// The directory is outside of the configured roots.
    CwdOutsideRoots,
    /// Remote callers need configured roots, and there are none.
    NoRoots,
    /// The task may do more than this caller could have asked for.
    BeyondReach,
    /// The configuration has no such profile.
    UnknownProfile,
    /// The profile is not for agents.
    ProfileRefused,
    /// The operator does not list this home of Codex.
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
