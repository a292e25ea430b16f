//! What makes a task and each of its turns, as rows that are not committed yet, and lining a task up for another one.

use std::sync::Arc;

use super::{Error, Giver, Inner, NewTask, state_event};
use crate::event::Line;
use crate::store::{self, Write};
use crate::task::{
    Before, Notification, Settings, Status, Task, TaskId, TimeMs, TurnProgress, TurnRecord, Used,
};

/// How much of a prompt is kept for lists. One that is longer ends in `…`.
const SUMMARY_CHARS: usize = 200;

/// Who lines a turn up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinedUp {
    /// Somebody who asked for it.
    ByCaller,
    /// The bridge itself, which goes on with the turn before.
    ByBridge,
}

impl Inner {
    pub(super) fn new_task(&self, new: &NewTask, now: TimeMs) -> Task {
        Task {
            id: self.new_task_id(),
            client_request_id: new.client_request_id.clone(),
            status: Status::Queued,
            reason: None,
            prompt_summary: self.summary(&new.prompt),
            settings: Settings { turn_given_by: new.by.kind, ..new.settings.clone() },
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
            asks_in: None,
            token: new.by.token.clone(),
            notification: untold(new.notify_target.as_ref()),
            created_at: now,
            updated_at: now,
            completed_at: None,
        }
    }

    /// What makes a new task, once it is committed.
    pub(super) fn first_turn(
        &self,
        new: &NewTask,
        asks_in: Option<String>,
        now: TimeMs,
    ) -> Result<(Task, Vec<Write>), Error> {
        let mut task = Task { asks_in, ..self.new_task(new, now) };
        self.hold_back(&mut task);
        let turn = self.new_turn(&task.id, 1, &new.prompt, now)?;
        let mut batch = vec![
            Write::AddTask(Box::new(task.clone())),
            Write::SaveTurn(Box::new(turn)),
            state_event(&task, now),
            self.audit(&new.by.name, "start", Some(&task.id), &task.prompt_summary),
        ];
        batch.extend(Self::counted(&new.by, &task.id, &new.texts()));
        Ok((task, batch))
    }

    pub(super) fn new_task_id(&self) -> TaskId {
        TaskId(format!("codex-{}", self.random_hex(12)))
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
        Ok(TurnRecord {
            task_id: task_id.clone(),
            number,
            client_id: format!("{task_id}/{number}/{}", self.random_hex(16)),
            client_request_id: None,
            name_mark: None,
            prompt_mark: Some(self.mark(task_id, prompt)?),
            before: None,
            progress: TurnProgress::Recorded,
            sealed_prompt: Some(sealed),
            prompt_summary: self.summary(prompt),
            turn_id: None,
            outcome: None,
            final_text: None,
            error: None,
            created_at: now,
            ended_at: None,
        })
    }

    /// A keyed mark of a prompt, or of a caller's name for a turn.
    fn mark(&self, task_id: &TaskId, text: &str) -> Result<String, Error> {
        self.key.mark(text.as_bytes(), task_id.as_str()).map_err(|error| Error::Refused(error.to_string()))
    }

    /// Whether a task began with this prompt. One that has no mark may have.
    pub(super) async fn has_first_prompt(&self, task_id: &TaskId, prompt: &str) -> Result<bool, Error> {
        let mark = self.mark(task_id, prompt)?;
        let turns = self.store.turns(task_id).await?;
        Ok(turns.first().is_some_and(|turn| turn.prompt_mark.as_ref().is_none_or(|found| *found == mark)))
    }

    /// Whether a branch was made with this very prompt, or without one. What it was given later says nothing.
    pub(super) async fn began_with(&self, branch: &Task, prompt: Option<&str>) -> Result<bool, Error> {
        let mark = prompt.map(|prompt| self.mark(&branch.id, prompt)).transpose()?;
        let turns = self.store.turns(&branch.id).await?;
        // Its first turn was recorded with it, at the same moment, or later by somebody else.
        let first = turns.first().filter(|turn| turn.created_at == branch.created_at);
        Ok(first.and_then(|turn| turn.prompt_mark.as_deref()) == mark.as_deref())
    }

    /// The number of the turn with this name, if it was given this prompt; none if there is no such turn.
    pub(super) async fn turn_named(
        &self,
        task_id: &TaskId,
        name: Option<&str>,
        prompt: &str,
    ) -> Result<Option<u32>, Error> {
        let Some(name) = name else { return Ok(None) };
        // Rows from before names were kept have a mark of what the caller said, whoever it was.
        let mark = Some(self.mark(task_id, super::own_part(name))?);
        let prompt = Some(self.mark(task_id, prompt)?);
        let turns = self.store.turns(task_id).await?;
        let is_named =
            |turn: &&TurnRecord| turn.client_request_id.as_deref() == Some(name) || turn.name_mark == mark;
        match turns.iter().find(is_named) {
            None => Ok(None),
            Some(turn) if turn.prompt_mark == prompt => Ok(Some(turn.number)),
            Some(_) => Err(Error::KeyReused(task_id.clone())),
        }
    }

    pub(crate) fn summary(&self, prompt: &str) -> String {
        // Redacted before it is cut: half a secret is still one.
        let redacted = self.config.redactor.redact(prompt);
        if redacted.chars().nth(SUMMARY_CHARS).is_none() {
            return redacted.into_owned();
        }
        redacted.chars().take(SUMMARY_CHARS - 1).chain(['…']).collect()
    }

    /// Lines a task at rest up for another turn of our own.
    pub(crate) async fn requeue(self: &Arc<Self>, task: &mut Task, prompt: &str) -> Result<(), Error> {
        let batch = self.another_turn(task, prompt, LinedUp::ByBridge, self.now())?;
        self.line_up_with(task, batch).await
    }

    pub(super) async fn requeue_as(
        self: &Arc<Self>,
        task: &mut Task,
        prompt: &str,
        client_request_id: Option<&str>,
        by: &Giver,
    ) -> Result<(), Error> {
        task.token.clone_from(&by.token);
        task.settings.turn_given_by = by.kind;
        let mut batch = self.another_turn(task, prompt, LinedUp::ByCaller, self.now())?;
        if let Some(name) = client_request_id {
            Self::name_turn(&mut batch, name);
        }
        batch.push(self.audit(&by.name, "continue", Some(&task.id), &self.summary(prompt)));
        batch.extend(Self::counted(by, &task.id, &[Some(prompt)]));
        self.line_up_with(task, batch).await
    }

    async fn line_up_with(self: &Arc<Self>, task: &Task, batch: Vec<Write>) -> Result<(), Error> {
        self.commit(batch).await?;
        self.line_up(task);
        self.begin_next();
        Ok(())
    }

    /// Puts the caller's own name into what makes a turn: into its row, and into the log.
    fn name_turn(batch: &mut [Write], name: &str) {
        for write in batch {
            match write {
                Write::SaveTurn(turn) => turn.client_request_id = Some(name.to_owned()),
                Write::Append { events, .. } => {
                    for event in events {
                        if let Line::State(state) = &mut event.line {
                            state.client_request_id = Some(name.to_owned());
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Ends a turn that was never sent, with its task as it is from then on. It counts as one: the next has a number of
    /// its own, and what was asked for under this one's name is not asked for anew.
    pub(super) async fn end_unsent(&self, task: &mut Task) -> Result<(), store::Error> {
        let now = self.now();
        let turn = self.store.turns(&task.id).await?.pop();
        let unsent = turn.filter(|turn| turn.progress == TurnProgress::Recorded);
        task.used.turns = unsent.as_ref().map_or(task.used.turns, |turn| turn.number);
        let ended = unsent.map(|turn| {
            let progress = TurnProgress::Ended;
            Write::SaveTurn(Box::new(TurnRecord {
                progress,
                sealed_prompt: None,
                ended_at: Some(now),
                ..turn
            }))
        });
        let mut batch = self.state_writes(task);
        batch.extend(ended);
        self.commit(batch).await
    }

    /// What gives a task at rest another turn, once it is committed.
    pub(crate) fn another_turn(
        &self,
        task: &mut Task,
        prompt: &str,
        lined_up: LinedUp,
        now: TimeMs,
    ) -> Result<Vec<Write>, Error> {
        let mut turn = self.new_turn(&task.id, task.used.turns + 1, prompt, now)?;
        let resumes = lined_up == LinedUp::ByBridge;
        turn.before = Some(Before { status: task.status, reason: task.reason.clone(), resumes });
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
