//! The turn that a call asked for, and its result.
//!
//! A task can be continued, but a call always has the same answer. So the answer comes from the rows of the task's turns,
//! not from the present task.

use codex_bridge_core::task::{ShownStatus, Status};
use codex_session::TurnOutcome;

use crate::failure::{Code, Failure};
use crate::view::{Task, Turn};

/// Separates the task's id and the turn's number.
const SEPARATOR: &str = ".turn-";

/// A turn of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRef {
    /// The task.
    pub task_id: String,
    /// The number of the turn, from 1.
    pub number: u32,
}

impl TurnRef {
    /// The first turn of a task.
    pub fn first(task_id: &str) -> Self {
        Self { task_id: task_id.to_owned(), number: 1 }
    }

    /// Parses the name of a turn in the Tasks extension.
    pub fn named(id: &str) -> Self {
        match id.rsplit_once(SEPARATOR).map(|(task, number)| (task, number.parse())) {
            Some((task_id, Ok(number))) => Self { task_id: task_id.to_owned(), number },
            _ => Self::first(id),
        }
    }

    /// The name in the Tasks extension: the task's id, and the number of a later turn.
    pub fn name(&self) -> String {
        match self.number {
            1 => self.task_id.clone(),
            number => format!("{}{SEPARATOR}{number}", self.task_id),
        }
    }

    /// The state of the turn. If the bridge itself resumed the turn, this is the state of the last resumed one.
    pub fn state(&self, task: &Task, turns: &[Turn]) -> Result<TurnState, Failure> {
        let position = turns.iter().position(|turn| turn.number == self.number);
        let position = position.ok_or_else(|| {
            let message = format!("task {} has no turn {}", self.task_id, self.number);
            Failure::new(Code::UnknownTask, message)
        })?;
        let later = &turns[position + 1..];
        let is_resumed = |turn: &&Turn| turn.before.as_ref().is_some_and(|before| before.resumes);
        let resumed = later.iter().take_while(is_resumed).count();
        let last = &turns[position + resumed];
        let finished = match later.get(resumed) {
            Some(next) => Some(Finished::before(next, last)),
            None => Finished::of(task),
        };
        Ok(TurnState { finished, last: last.number })
    }
}

/// The state of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnState {
    /// The result. `None` while the turn runs.
    pub finished: Option<Finished>,
    /// The number of the last turn with which the bridge resumed it, or its own.
    pub last: u32,
}

/// The state of a task after a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The task's status.
    pub status: Status,
    /// Why the task was paused, lost or cancelled.
    pub reason: Option<String>,
    /// The answer.
    pub final_text: Option<String>,
    /// Why there is no answer.
    pub error: Option<String>,
    /// Whether the task continues by itself.
    pub resumes: bool,
}

impl Finished {
    /// The result of the last turn. `None` while it runs.
    fn of(task: &Task) -> Option<Self> {
        let ShownStatus::Stored(status) = task.status else { return None };
        status.is_finished().then(|| Self {
            status,
            reason: task.reason.clone(),
            final_text: task.final_text.clone(),
            error: task.error.as_ref().map(|error| error.message.clone()),
            resumes: task.parked.is_some(),
        })
    }

    /// The result of a turn, from the row of the next turn.
    fn before(next: &Turn, turn: &Turn) -> Self {
        let (status, reason) = match &next.before {
            Some(before) => (before.status, before.reason.clone()),
            // Rows of older versions do not have it.
            None => (status_of(turn.outcome), None),
        };
        Self {
            status,
            reason,
            final_text: turn.final_text.clone(),
            error: turn.error.as_ref().map(|error| error.message.clone()),
            resumes: false,
        }
    }
}

fn status_of(outcome: Option<TurnOutcome>) -> Status {
    match outcome {
        Some(TurnOutcome::Completed) => Status::Completed,
        Some(TurnOutcome::Failed) => Status::Failed,
        Some(TurnOutcome::Lost) => Status::Lost,
        Some(TurnOutcome::Interrupted) | None => Status::Cancelled,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn task(status: &str) -> Task {
        let task = json!({
            "task_id": "codex-1", "status": status, "prompt_summary": "", "cwd": "/", "sandbox": "read-only",
            "approval_policy": "untrusted", "limits": {}, "used": {}, "notification": {}, "created_at": "",
            "updated_at": "", "pending_requests": [], "final_text": "the last",
        });
        serde_json::from_value(task).unwrap()
    }

    fn turn(number: u32, before: &Value) -> Turn {
        let turn = json!({
            "number": number, "progress": "ended", "prompt_summary": "", "before": before, "outcome": "completed",
            "final_text": format!("answer {number}"), "created_at": "",
        });
        serde_json::from_value(turn).unwrap()
    }

    fn before(status: &str, resumes: bool) -> Value {
        json!({ "status": status, "reason": null, "resumes": resumes })
    }

    #[track_caller]
    fn check(number: u32, task: &Task, turns: &[Turn], expected: Option<(Status, &str)>) {
        let turn = TurnRef { task_id: "codex-1".to_owned(), number };
        let finished = turn.state(task, turns).unwrap().finished;
        let found = finished.map(|finished| (finished.status, finished.final_text.unwrap_or_default()));
        assert_eq!(found, expected.map(|(status, text)| (status, text.to_owned())));
    }

    #[test]
    fn a_turn_has_one_answer_whatever_comes_later() {
        let turns = [turn(1, &Value::Null), turn(2, &before("completed", false))];
        check(1, &task("working"), &turns, Some((Status::Completed, "answer 1")));
        check(2, &task("working"), &turns, None);
        check(2, &task("completed"), &turns, Some((Status::Completed, "the last")));
        check(1, &task("queued"), &turns[..1], None);
    }

    #[test]
    fn a_resumed_turn_has_the_answer_of_the_last_one() {
        let turns = [turn(1, &Value::Null), turn(2, &before("lost", true)), turn(3, &before("paused", true))];
        check(1, &task("working"), &turns, None);
        check(1, &task("completed"), &turns, Some((Status::Completed, "the last")));
        let continued = [turns.to_vec(), vec![turn(4, &before("failed", false))]].concat();
        check(1, &task("working"), &continued, Some((Status::Failed, "answer 3")));
        let paused = [turn(1, &Value::Null), turn(2, &before("paused", false))];
        check(1, &task("working"), &paused, Some((Status::Paused, "answer 1")));
    }

    #[test]
    fn a_missing_turn_is_reported_as_unknown() {
        let wrong = TurnRef { task_id: "codex-1".to_owned(), number: 9 };
        let failure = wrong.state(&task("working"), &[turn(1, &Value::Null)]).unwrap_err();
        assert_eq!(failure.code, Code::UnknownTask);
    }

    #[test]
    fn a_name_says_which_turn() {
        for turn in [TurnRef::first("codex-12ab"), TurnRef { task_id: "codex-12ab".into(), number: 17 }] {
            assert_eq!(TurnRef::named(&turn.name()), turn);
        }
    }
}
