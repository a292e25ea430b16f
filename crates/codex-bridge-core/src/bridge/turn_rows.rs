//! Builds the rows of tasks and turns, and queues tasks for another turn.

use std::sync::Arc;

use super::{Author, Error, Inner, NewTask, state_event};
use crate::event::Line;
use crate::inbox::MessageId;
use crate::store::{self, Write};
use crate::task::{
    Before, Notification, NotificationStatus, Settings, Status, Task, TaskId, TimeMs, TurnProgress,
    TurnRecord, Used,
};

/// How much of a prompt lists show. A longer one ends in `…`.
const SUMMARY_CHARS: usize = 200;

/// Who queues a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QueuedBy {
    /// A caller.
    Caller,
    /// The bridge itself, which resumes the turn before.
    Bridge,
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

    /// A new task with its first turn, and the writes that create them.
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
        TaskId(format!("codex-{}", self.random_hex()))
    }

    pub(super) fn new_turn(
        &self,
        task_id: &TaskId,
        number: u32,
        prompt: &str,
        now: TimeMs,
    ) -> Result<TurnRecord, Error> {
        Ok(TurnRecord {
            task_id: task_id.clone(),
            number,
            client_id: format!("{task_id}/{number}/{}", self.random_hex()),
            client_request_id: None,
            name_mark: None,
            prompt_mark: Some(self.mark(task_id, prompt)?),
            before: None,
            progress: TurnProgress::Recorded,
            sealed_prompt: Some(self.key.seal(prompt.as_bytes(), task_id.as_str())?),
            prompt_summary: self.summary(prompt),
            images_of: None,
            turn_id: None,
            outcome: None,
            final_text: None,
            error: None,
            created_at: now,
            ended_at: None,
        })
    }

    /// A keyed hash of a prompt, or of a caller's name for a turn.
    fn mark(&self, task_id: &TaskId, text: &str) -> Result<String, Error> {
        Ok(self.key.mark(text.as_bytes(), task_id.as_str())?)
    }

    /// Whether a task began with this prompt. True as well for a turn of an older version, which has no hash.
    pub(super) async fn has_first_prompt(&self, task_id: &TaskId, prompt: &str) -> Result<bool, Error> {
        let mark = self.mark(task_id, prompt)?;
        let turns = self.store.turns(task_id).await?;
        Ok(turns.first().is_some_and(|turn| turn.prompt_mark.as_ref().is_none_or(|found| *found == mark)))
    }

    /// Whether a branch was created with exactly this prompt, or without one. Later prompts do not matter.
    pub(super) async fn began_with(&self, branch: &Task, prompt: Option<&str>) -> Result<bool, Error> {
        let mark = prompt.map(|prompt| self.mark(&branch.id, prompt)).transpose()?;
        let turns = self.store.turns(&branch.id).await?;
        // A first turn that came with the branch has the same time; a later one was added by another call.
        let first = turns.first().filter(|turn| turn.created_at == branch.created_at);
        Ok(first.and_then(|turn| turn.prompt_mark.as_deref()) == mark.as_deref())
    }

    /// The number of the turn with this name and this prompt; `None` if no turn has the name.
    pub(super) async fn turn_named(
        &self,
        task_id: &TaskId,
        name: Option<&str>,
        prompt: &str,
    ) -> Result<Option<u32>, Error> {
        let Some(name) = name else { return Ok(None) };
        // Turns of older versions have a hash of the name without the caller prefix.
        let mark = Some(self.mark(task_id, super::without_caller(name))?);
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
        // Redacted before it is cut, because half a secret is still one.
        let redacted = self.config.redactor.redact(prompt);
        if redacted.chars().nth(SUMMARY_CHARS).is_none() {
            return redacted.into_owned();
        }
        redacted.chars().take(SUMMARY_CHARS - 1).chain(['…']).collect()
    }

    /// Queues another turn of the bridge's own for a finished task.
    pub(crate) async fn requeue(self: &Arc<Self>, task: &mut Task, prompt: &str) -> Result<(), Error> {
        let batch = self.another_turn(task, prompt, QueuedBy::Bridge, self.now())?;
        self.commit_and_enqueue(task, batch).await
    }

    pub(super) async fn requeue_as(
        self: &Arc<Self>,
        task: &mut Task,
        prompt: &str,
        client_request_id: Option<&str>,
        by: &Author,
    ) -> Result<(), Error> {
        task.token.clone_from(&by.token);
        task.settings.turn_given_by = by.kind;
        let mut batch = self.another_turn(task, prompt, QueuedBy::Caller, self.now())?;
        if let Some(name) = client_request_id {
            Self::name_turn(&mut batch, name);
        }
        batch.push(self.audit(&by.name, "continue", Some(&task.id), &self.summary(prompt)));
        batch.extend(Self::counted(by, &task.id, &[Some(prompt)]));
        self.commit_and_enqueue(task, batch).await
    }

    async fn commit_and_enqueue(self: &Arc<Self>, task: &Task, batch: Vec<Write>) -> Result<(), Error> {
        self.commit(batch).await?;
        self.enqueue(task);
        self.begin_next();
        Ok(())
    }

    /// Puts the caller's name into the row of the turn and into its log line.
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

    /// Puts the message whose images are given to Codex into the row of the turn.
    pub(super) fn give_images(batch: &mut [Write], message_id: &MessageId) {
        for write in batch {
            if let Write::SaveTurn(turn) = write {
                turn.images_of = Some(message_id.0.clone());
            }
        }
    }

    /// Ends a turn that was never sent, and saves its task. The turn keeps its number and its name, so a repeated call
    /// under that name starts no new turn.
    pub(super) async fn end_unsent(&self, task: &mut Task) -> Result<(), store::Error> {
        let now = self.now();
        let turn = self.store.turns(&task.id).await?.pop();
        let unsent = turn.filter(|turn| turn.progress == TurnProgress::Recorded);
        task.used.turns = unsent.as_ref().map_or(task.used.turns, |turn| turn.number);
        let mut batch = self.state_writes(task);
        batch.extend(unsent.map(|mut turn| {
            (turn.progress, turn.sealed_prompt, turn.ended_at) = (TurnProgress::Ended, None, Some(now));
            Write::SaveTurn(Box::new(turn))
        }));
        self.commit(batch).await
    }

    /// The writes that give a finished task another turn.
    pub(crate) fn another_turn(
        &self,
        task: &mut Task,
        prompt: &str,
        queued_by: QueuedBy,
        now: TimeMs,
    ) -> Result<Vec<Write>, Error> {
        let mut turn = self.new_turn(&task.id, task.used.turns + 1, prompt, now)?;
        let resumes = queued_by == QueuedBy::Bridge;
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

/// The notification of a turn that has not ended.
fn untold(target: Option<&String>) -> Notification {
    let status = if target.is_some() { NotificationStatus::Pending } else { NotificationStatus::None };
    Notification { status, ..Notification::default() }
}
