//! What makes a task and each of its turns, as rows that are not committed yet, and lining a task up for another one.

use std::sync::Arc;

use serde_json::Value;

use super::{Error, Inner, NewTask, audit, now_ms, random_hex, state_event};
use crate::event::Event;
use crate::store::{self, Write};
use crate::task::{Notification, Status, Task, TaskId, TimeMs, TurnProgress, TurnRecord, Used};

/// How much of a prompt is kept for people.
const SUMMARY_CHARS: usize = 200;
/// Lines of a log that are read at once.
const LOG_PAGE: u32 = 1000;

impl Inner {
    pub(super) fn new_task(&self, new: &NewTask, now: TimeMs) -> Task {
        Task {
            id: new_task_id(),
            client_request_id: new.client_request_id.clone(),
            status: Status::Queued,
            reason: None,
            prompt_summary: self.summary(&new.prompt),
            settings: new.settings.clone(),
            parked: None,
            limits: new.limits,
            used: Used::default(),
            thread_id: None,
            turn_id: None,
            epoch: None,
            host: None,
            final_text: None,
            error: None,
            usage: None,
            notify_target: new.notify_target.clone(),
            notification: untold(new.notify_target.as_ref()),
            created_at: now,
            updated_at: now,
            completed_at: None,
        }
    }

    /// What makes a new task, once it is committed.
    pub(super) fn first_turn(&self, new: &NewTask, now: TimeMs) -> Result<(Task, Vec<Write>), Error> {
        let mut task = self.new_task(new, now);
        self.hold_back(&mut task);
        let turn = self.new_turn(&task.id, 1, &new.prompt, now)?;
        let batch = vec![
            Write::AddTask(Box::new(task.clone())),
            Write::SaveTurn(Box::new(turn)),
            state_event(&task, now),
            audit(&new.by, "start", Some(&task.id), &task.prompt_summary),
        ];
        Ok((task, batch))
    }

    pub(super) fn new_turn(
        &self,
        task_id: &TaskId,
        number: u32,
        prompt: &str,
        now: TimeMs,
    ) -> Result<TurnRecord, Error> {
        let sealed = self
            .key
            .seal(prompt.as_bytes(), task_id.as_str())
            .map_err(|error| Error::Refused(error.to_string()))?;
        let mark = self.mark(task_id, prompt)?;
        Ok(TurnRecord {
            task_id: task_id.clone(),
            number,
            client_id: format!("{task_id}/{number}/{}/{mark}", random_hex(16)),
            progress: TurnProgress::Recorded,
            sealed_prompt: Some(sealed),
            prompt_summary: self.summary(prompt),
            turn_id: None,
            created_at: now,
            ended_at: None,
        })
    }

    fn mark(&self, task_id: &TaskId, prompt: &str) -> Result<String, Error> {
        self.key.mark(prompt.as_bytes(), task_id.as_str()).map_err(|error| Error::Refused(error.to_string()))
    }

    /// Whether a turn of this task, or the one of this number, was given this prompt. One that has no mark may have been.
    pub(super) async fn has_turn_with(
        &self,
        task_id: &TaskId,
        number: Option<u32>,
        prompt: &str,
    ) -> Result<bool, Error> {
        let mark = self.mark(task_id, prompt)?;
        let turns = self.store.turns(task_id).await?;
        let is_it = |turn: &TurnRecord| turn.client_id.split('/').nth(3).is_none_or(|found| found == mark);
        Ok(turns.iter().any(|turn| number.is_none_or(|number| turn.number == number) && is_it(turn)))
    }

    pub(super) fn summary(&self, prompt: &str) -> String {
        // Redacted before it is cut: half a secret is still one.
        self.config.redactor.redact(prompt).chars().take(SUMMARY_CHARS).collect()
    }

    /// Lines a task at rest up for another turn.
    pub(crate) async fn requeue(self: &Arc<Self>, task: &mut Task, prompt: &str) -> Result<(), Error> {
        self.requeue_as(task, prompt, None).await
    }

    pub(super) async fn requeue_as(
        self: &Arc<Self>,
        task: &mut Task,
        prompt: &str,
        client_request_id: Option<&str>,
    ) -> Result<(), Error> {
        let mut batch = self.another_turn(task, prompt, now_ms())?;
        if let (Some(name), Some(Write::Append { events, .. })) = (client_request_id, batch.last_mut()) {
            for event in events {
                event.body.insert("client_request_id".to_owned(), name.into());
            }
        }
        self.commit(batch).await?;
        self.line_up(task);
        self.begin_next();
        Ok(())
    }

    /// Whether a turn of this task was lined up under this name.
    pub(super) async fn has_turn_of(
        &self,
        task_id: &TaskId,
        client_request_id: &str,
    ) -> Result<bool, store::Error> {
        let is_it = |event: &Event| {
            event.body.get("client_request_id").and_then(Value::as_str) == Some(client_request_id)
        };
        let mut after = 0;
        loop {
            let page = self.store.events(task_id, after, LOG_PAGE).await?;
            let Some(last) = page.last() else { return Ok(false) };
            after = last.seq;
            if page.iter().any(is_it) {
                return Ok(true);
            }
        }
    }

    /// What gives a task at rest another turn, once it is committed.
    pub(crate) fn another_turn(
        &self,
        task: &mut Task,
        prompt: &str,
        now: TimeMs,
    ) -> Result<Vec<Write>, Error> {
        let turn = self.new_turn(&task.id, task.used.turns + 1, prompt, now)?;
        task.status = Status::Queued;
        (task.error, task.completed_at) = (None, None);
        self.hold_back(task);
        task.notification = untold(task.notify_target.as_ref());
        task.updated_at = now;
        Ok(vec![
            Write::SaveTask(Box::new(task.clone())),
            Write::SaveTurn(Box::new(turn)),
            state_event(task, now),
        ])
    }
}

/// The end of a turn that is to come, which nobody was told of yet.
fn untold(target: Option<&String>) -> Notification {
    let status = if target.is_some() { "pending" } else { "" };
    Notification { status: status.to_owned(), ..Notification::default() }
}

pub(super) fn new_task_id() -> TaskId {
    TaskId(format!("codex-{}", random_hex(12)))
}
