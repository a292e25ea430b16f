//! Decisions on what Codex asks, and the reports about them.

use codex_session::Decision;
use serde::{Deserialize, Serialize};

use crate::request::{DecisionWord, RequestName};
use crate::task::{TaskId, TimeMs};

/// The report about a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecisionReport {
    /// The task.
    pub task_id: TaskId,
    /// The request.
    pub request_id: RequestName,
    /// The decision that was made first.
    pub decision: Option<DecisionWord>,
    /// What became of the decision.
    pub outcome: DecisionOutcome,
    /// Who decided first.
    pub decided_by: Option<String>,
    /// When it was decided.
    pub decided_at: Option<TimeMs>,
}

/// What became of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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

impl DecisionReport {
    /// The report, if the decision counts.
    pub(crate) fn counted(self) -> Result<Self, TooLate> {
        let counts = matches!(self.outcome, DecisionOutcome::Resolved | DecisionOutcome::Sent);
        if counts { Ok(self) } else { Err(TooLate(Box::new(self))) }
    }

    /// Why the decision does not count, as the rest of a sentence about the request.
    pub(crate) fn lateness(&self) -> String {
        match (self.outcome, &self.decision, &self.decided_by) {
            (DecisionOutcome::Expired, ..) => "expired before it was answered, and was declined".to_owned(),
            (DecisionOutcome::Orphaned, Some(_), _) => {
                "ended with its turn before Codex got the answer".to_owned()
            }
            (DecisionOutcome::Orphaned, None, _) => "ended with its turn before it was answered".to_owned(),
            (_, Some(decision), Some(by)) => {
                format!("was already answered: {}, by {by}", decision.past_tense())
            }
            _ => "was already answered".to_owned(),
        }
    }
}

/// A decision that does not count: somebody else was first, or the request had ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("request {} {}", .0.request_id.short(), .0.lateness())]
pub struct TooLate(pub Box<DecisionReport>);

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
