//! Decisions on what Codex asks, and the reports about them.

use codex_session::Decision;
use serde::Serialize;

use crate::request::RequestName;
use crate::task::{TaskId, TimeMs};

/// The report about a decision.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DecisionReport {
    /// The task.
    pub task_id: TaskId,
    /// The request.
    pub request_id: RequestName,
    /// The decision that was made first.
    pub decision: Option<String>,
    /// What became of the decision.
    pub outcome: DecisionOutcome,
    /// Who decided first.
    pub decided_by: Option<String>,
    /// When it was decided.
    pub decided_at: Option<TimeMs>,
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DecisionOutcome {
    /// Codex confirmed it.
    Resolved,
    /// It is recorded and on its way to Codex.
    Sent,
    /// Somebody else had decided before.
    AlreadyResolved,
    /// The deadline had passed.
    Expired,
    /// The turn or the host ended before Codex confirmed it.
    Orphaned,
}

/// The decision in one word, without its content.
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

/// Whether the decision denies what was asked.
pub(crate) fn is_no(decision: &Decision) -> bool {
    matches!(decision, Decision::Decline | Decision::Cancel)
}

/// Whether the decision approves what was asked, without an answer of its own.
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
