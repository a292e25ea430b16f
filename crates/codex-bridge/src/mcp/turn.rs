//! The turn that a call asked for, and how it finished.
//!
//! A task can be continued, a call has one answer for good: so the answer comes from the rows of the task's turns, and not
//! from the task as it stands today.

use codex_bridge_core::task::{ShownStatus, Status};
use codex_session::TurnOutcome;

use crate::failure::{Code, Failure};
use crate::view::{Task, Turn};

/// Between a task's id and the number of a turn.
const MARK: &str = ".turn-";

/// One turn of one task, as a call names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRef {
    /// The task.
    pub task_id: String,
    /// The number of the turn, from 1.
    pub number: u32,
}

impl TurnRef {
    /// The turn with which a task begins.
    pub fn first(task_id: &str) -> Self {
        Self { task_id: task_id.to_owned(), number: 1 }
    }

    /// By its name in the Tasks extension.
    pub fn named(id: &str) -> Self {
        match id.rsplit_once(MARK).map(|(task, number)| (task, number.parse())) {
            Some((task_id, Ok(number))) => Self { task_id: task_id.to_owned(), number },
            _ => Self::first(id),
        }
    }

    /// Its name in the Tasks extension: the task's own id, for later turns with their number.
    pub fn name(&self) -> String {
        match self.number {
            1 => self.task_id.clone(),
            number => format!("{}{MARK}{number}", self.task_id),
        }
    }

    /// How it stands. A turn that the bridge itself went on with stands as the last of those does.
    pub fn standing(&self, task: &Task, turns: &[Turn]) -> Result<Standing, Failure> {
        let position = turns.iter().position(|turn| turn.number == self.number);
        let position = position.ok_or_else(|| {
            let message = format!("task {} has no turn {}", self.task_id, self.number);
            Failure::new(Code::UnknownTask, message)
        })?;
        let later = &turns[position + 1..];
        let is_resumed = |turn: &&Turn| turn.before.as_ref().is_some_and(|before| before.resumes);
        let more = later.iter().take_while(is_resumed).count();
        let last = &turns[position + more];
        let finished = match later.get(more) {
            Some(next) => Some(Finished::before(next, last)),
            None => Finished::of(task),
        };
        Ok(Standing { finished, last: last.number })
    }
}

/// How a turn stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// How it finished; none while it has not.
    pub finished: Option<Finished>,
    /// The number of the turn by which the bridge went on with it last, or its own.
    pub last: u32,
}

/// How a task stood when a turn had finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its status.
    pub status: Status,
    /// Why it was paused, lost or cancelled.
    pub reason: Option<String>,
    /// The answer.
    pub final_text: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// Whether it goes on by itself.
    pub goes_on: bool,
}

impl Finished {
    /// How the last turn of a task finished.
    fn of(task: &Task) -> Option<Self> {
        let ShownStatus::Stored(status) = task.status else { return None };
        status.is_finished().then(|| Self {
            status,
            reason: task.reason.clone(),
            final_text: task.final_text.clone(),
            error: task.error.as_ref().map(|error| error.message.clone()),
            goes_on: task.parked.is_some(),
        })
    }

    /// How a turn finished, by the row of the next one.
    fn before(next: &Turn, turn: &Turn) -> Self {
        let (status, reason) = match &next.before {
            Some(before) => (before.status, before.reason.clone()),
            // A row from before this was kept.
            None => (status_of(turn.outcome), None),
        };
        Self {
            status,
            reason,
            final_text: turn.final_text.clone(),
            error: turn.error.as_ref().map(|error| error.message.clone()),
            goes_on: false,
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
        let finished = turn.standing(task, turns).unwrap().finished;
        let told = finished.map(|finished| (finished.status, finished.final_text.unwrap_or_default()));
        assert_eq!(told, expected.map(|(status, text)| (status, text.to_owned())));
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
    fn a_turn_that_the_bridge_went_on_with_has_the_answer_of_the_last_one() {
        let turns = [turn(1, &Value::Null), turn(2, &before("lost", true)), turn(3, &before("paused", true))];
        check(1, &task("working"), &turns, None);
        check(1, &task("completed"), &turns, Some((Status::Completed, "the last")));
        let continued = [turns.to_vec(), vec![turn(4, &before("failed", false))]].concat();
        check(1, &task("working"), &continued, Some((Status::Failed, "answer 3")));
        let paused = [turn(1, &Value::Null), turn(2, &before("paused", false))];
        check(1, &task("working"), &paused, Some((Status::Paused, "answer 1")));
    }

    #[test]
    fn a_turn_that_there_is_not_is_said_to_be_unknown() {
        let wrong = TurnRef { task_id: "codex-1".to_owned(), number: 9 };
        let failure = wrong.standing(&task("working"), &[turn(1, &Value::Null)]).unwrap_err();
        assert_eq!(failure.code, Code::UnknownTask);
    }

    #[test]
    fn a_name_says_which_turn() {
        for turn in [TurnRef::first("codex-12ab"), TurnRef { task_id: "codex-12ab".into(), number: 17 }] {
            assert_eq!(TurnRef::named(&turn.name()), turn);
        }
    }
}
