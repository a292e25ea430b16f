//! Decisions on what Codex asks, in plain words, and what came of them.

use codex_session::Decision;
use serde::Serialize;

use crate::request::RequestName;
use crate::task::{TaskId, TimeMs};

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecisionReport {
    /// Whose.
    pub task_id: TaskId,
    /// Which request.
    pub request_id: RequestName,
    /// What was decided, by whoever was first.
    pub decision: Option<String>,
    /// What came of it.
    pub outcome: DecisionOutcome,
    /// Who was first.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<TimeMs>,
}

/// What came of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionOutcome {
    /// Codex took it.
    Resolved,
    /// It is recorded and on its way to Codex.
    Sent,
    /// Somebody was first.
    AlreadyResolved,
    /// The time to answer was over.
    Expired,
    /// The turn or the host ended before Codex took it.
    Orphaned,
}

/// A decision in one word, without what it may hold.
pub(crate) fn in_words(decision: &Decision) -> &'static str {
    match decision {
        Decision::Accept => "accept",
        Decision::AcceptForSession => "acceptForSession",
        Decision::AcceptAlways => "acceptAlways",
        Decision::Decline => "decline",
        Decision::Cancel => "cancel",
        Decision::Grant { .. } => "grant",
        Decision::Answers(_) => "answers",
        Decision::Form(_) => "form",
    }
}

/// Whether this lets nothing happen.
pub(crate) fn is_no(decision: &Decision) -> bool {
    matches!(decision, Decision::Decline | Decision::Cancel)
}

/// Whether this is a yes without a word.
pub(crate) fn is_yes(decision: &Decision) -> bool {
    matches!(decision, Decision::Accept | Decision::AcceptForSession | Decision::AcceptAlways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_a_yes_or_a_no_or_says_more_than_that() {
        let yes = [Decision::Accept, Decision::AcceptForSession, Decision::AcceptAlways];
        assert!(yes.iter().all(|decision| is_yes(decision) && !is_no(decision)));
        let no = [Decision::Decline, Decision::Cancel];
        assert!(no.iter().all(|decision| is_no(decision) && !is_yes(decision)));
    }
}
