//! One call's part of a task's log: from the line with which its turn was lined up to the task's next rest.
//!
//! A task can be continued, a call has one answer for good: so the answer is read from the log and not from the task as
//! it stands today.

use codex_bridge_core::event::{Line, StateChanged};
use codex_bridge_core::task::Status;

use crate::calls;
use crate::client::Client;
use crate::failure::Failure;
use crate::view::{Event, Task};

/// Between a task's id and the number of a line in its log.
const MARK: char = '.';

/// Which part of which log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The task.
    pub task_id: String,
    /// It begins behind this line; 0 is the beginning of the log.
    pub after: i64,
}

impl Stretch {
    /// The part with which a task begins.
    pub fn first(task_id: &str) -> Self {
        Self { task_id: task_id.to_owned(), after: 0 }
    }

    /// By its name in the Tasks extension.
    pub fn named(id: &str) -> Self {
        match id.rsplit_once(MARK).map(|(task, after)| (task, after.parse())) {
            Some((task_id, Ok(after))) => Self { task_id: task_id.to_owned(), after },
            _ => Self::first(id),
        }
    }

    /// Its name in the Tasks extension: the task's own id, for later turns with the line that they begin behind.
    pub fn name(&self) -> String {
        if self.after == 0 { self.task_id.clone() } else { format!("{}{MARK}{}", self.task_id, self.after) }
    }

    /// The part that was lined up under this name.
    pub async fn lined_up(client: &Client, task_id: &str, client_request_id: &str) -> Result<Self, Failure> {
        let mut lines = client.events(task_id, &calls::Events::default()).await?;
        while let Some(event) = lines.next().await? {
            let is_it = matches!(event.line(), Some(Line::State(state))
                if state.client_request_id.as_deref() == Some(client_request_id));
            if let (true, Some(seq)) = (is_it, event.seq) {
                return Ok(Self { task_id: task_id.to_owned(), after: seq });
            }
        }
        let why = "the log has become too long to tell the answer of this turn from others";
        Err(Failure::new("log_shortened", why)
            .hint(format!("`codex-bridge result {task_id}` has the task's last answer")))
    }
}

/// How a task came to rest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rest {
    /// In which state.
    pub status: Status,
    /// Why, if it is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The answer.
    pub final_text: Option<String>,
    /// Why there is none.
    pub error: Option<String>,
    /// Whether it goes on by itself.
    pub goes_on: bool,
}

impl Rest {
    /// The last one, as the task itself knows it; none while it is under way.
    pub fn of(task: &Task) -> Option<Self> {
        task.status.is_at_rest().then(|| Self {
            status: task.status,
            reason: task.reason.clone(),
            final_text: task.final_text.clone(),
            error: task.error.as_ref().map(|error| error.message.clone()),
            goes_on: task.parked.is_some(),
        })
    }
}

/// What was read of a stretch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// The last line.
    pub seq: i64,
    /// Codex's thread, if it was opened in it.
    pub thread_id: Option<String>,
    /// Whether lines were missing: a very long log loses its oldest ones.
    pub has_gap: bool,
    ended: Option<(Option<String>, Option<String>)>,
    rest: Option<Rest>,
}

impl Reading {
    /// Nothing yet.
    pub fn new(stretch: &Stretch) -> Self {
        Self { seq: stretch.after, thread_id: None, has_gap: false, ended: None, rest: None }
    }

    /// Takes the next line; gives the task's rest when it is sure to be one.
    pub fn take(&mut self, event: &Event) -> Option<Rest> {
        if let Some(seq) = event.seq {
            self.has_gap |= seq > self.seq + 1;
            self.seq = seq;
        }
        // A task that goes on by itself is lined up in the next line that tells its state.
        let held = self.rest.take();
        match event.line() {
            Some(Line::ThreadOpened(opened)) => {
                self.thread_id = opened.thread_id.as_ref().map(|thread_id| thread_id.0.clone());
            }
            Some(Line::TurnEnded(ended)) => {
                let error = ended.error.as_ref().map(|error| error.message.clone());
                self.ended = Some((ended.final_text.clone(), error));
            }
            Some(Line::State(state)) => {
                self.rest = self.at_rest(state);
                let may_go_on = |rest: &Rest| rest.goes_on || rest.status == Status::Lost;
                if self.rest.as_ref().is_some_and(|rest| !may_go_on(rest)) {
                    return self.rest.take();
                }
                return None;
            }
            _ => {}
        }
        // One that waits may be told of in between.
        if held.as_ref().is_some_and(|rest| rest.goes_on) {
            self.rest = held;
            return None;
        }
        held
    }

    /// The log is at its end: what looked like a rest is one.
    pub fn end(&mut self) -> Option<Rest> {
        self.rest.take()
    }

    /// Whether the line with the answer may be among those that are missing.
    pub fn may_lack_its_answer(&self) -> bool {
        self.has_gap && self.ended.is_none()
    }

    fn at_rest(&self, state: &StateChanged) -> Option<Rest> {
        let StateChanged { status, reason, goes_on, .. } = state.clone();
        let (final_text, error) = self.ended.clone().unwrap_or_default();
        status.is_at_rest().then_some(Rest { status, reason, final_text, error, goes_on })
    }

    /// Reads what there is; gives the rest if it was reached. `task` was looked at before: if it was at rest, that is in
    /// the log, unless it was lost from it, and then the task still knows.
    pub async fn catch_up(&mut self, client: &Client, task: &Task) -> Result<Option<Rest>, Failure> {
        let rest = self.read_on(client, &task.task_id).await?;
        if rest.is_none() || self.may_lack_its_answer() {
            return Ok(Rest::of(task).or(rest));
        }
        Ok(rest)
    }

    async fn read_on(&mut self, client: &Client, task_id: &str) -> Result<Option<Rest>, Failure> {
        let mut lines =
            client.events(task_id, &calls::Events { after: self.seq, ..calls::Events::default() }).await?;
        while let Some(event) = lines.next().await? {
            if let Some(rest) = self.take(&event) {
                return Ok(Some(rest));
            }
        }
        Ok(self.end())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(lines: &[Value]) -> Option<Rest> {
        let mut reading = Reading::new(&Stretch::first("codex-1"));
        for (index, line) in lines.iter().enumerate() {
            let mut line = line.clone();
            line["seq"] = (index + 1).into();
            if let Some(rest) = reading.take(&serde_json::from_value(line).unwrap()) {
                return Some(rest);
            }
        }
        reading.end()
    }

    fn state(status: &str) -> Value {
        json!({ "kind": "state", "status": status })
    }

    #[test]
    fn the_first_rest_is_the_answer_whatever_comes_later() {
        let ended = |text: &str| json!({ "kind": "turn_ended", "final_text": text, "error": null });
        let lines = [
            state("queued"),
            ended("one"),
            state("completed"),
            state("queued"),
            ended("two"),
            state("completed"),
        ];
        let rest = read(&lines).unwrap();
        assert_eq!((rest.status, rest.final_text.as_deref()), (Status::Completed, Some("one")));
        assert_eq!(read(&lines[..2]), None);
    }

    #[test]
    fn a_task_that_goes_on_by_itself_is_not_at_rest() {
        let lines = [state("queued"), state("lost"), state("queued"), state("completed")];
        assert_eq!(read(&lines[..2]).unwrap().status, Status::Lost);
        assert_eq!(read(&lines[..3]), None);
        assert_eq!(read(&lines).unwrap().status, Status::Completed);

        let parked = json!({ "kind": "state", "status": "paused", "goes_on": true });
        let notice = json!({ "kind": "notice", "message": "log in" });
        let lines = [state("queued"), parked, notice, state("queued"), state("completed")];
        assert!(read(&lines[..2]).unwrap().goes_on && read(&lines[..3]).unwrap().goes_on);
        assert_eq!(read(&lines[..4]), None);
        assert_eq!(read(&lines).unwrap().status, Status::Completed);
        let paused = [state("queued"), state("paused"), state("queued"), state("completed")];
        assert_eq!(read(&paused).unwrap().status, Status::Paused, "whoever continues it begins anew");
    }

    #[test]
    fn lines_that_are_missing_are_noticed() {
        let line = |seq: i64, kind: &str| serde_json::from_value(json!({"seq": seq, "kind": kind})).unwrap();
        let read = |after: i64, lines: &[(i64, &str)]| {
            let mut reading = Reading::new(&Stretch { task_id: "codex-1".into(), after });
            for (seq, kind) in lines {
                reading.take(&line(*seq, kind));
            }
            (reading.has_gap, reading.may_lack_its_answer())
        };
        assert_eq!(read(0, &[(1, "message"), (2, "message")]), (false, false));
        assert_eq!(read(17, &[(18, "message")]), (false, false));
        assert_eq!(read(17, &[(20, "message"), (21, "message")]), (true, true));
        assert_eq!(read(0, &[(20, "message"), (21, "turn_ended")]), (true, false));
    }

    #[test]
    fn a_name_says_which_part() {
        for stretch in [Stretch::first("codex-12ab"), Stretch { task_id: "codex-12ab".into(), after: 17 }] {
            assert_eq!(Stretch::named(&stretch.name()), stretch);
        }
    }
}
