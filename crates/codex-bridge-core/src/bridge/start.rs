//! Starts and continues tasks. A call that is repeated under the same name has no second effect.

use super::handover::OpensTask;
use super::{Author, Bridge, Continued, Error, Inner, NewTask, QueuedBy, TaskView};
use crate::failpoint;
use crate::inbox::machine::ChatTurn;
use crate::inbox::reply::{self, ReplyText};
use crate::outbox::{DeliveryId, Subscription};
use crate::store::{TaskFilter, Write};
use crate::task::{Limits, Settings, Task, Waived};

impl Bridge {
    /// Starts a task. The task is durable when this returns. The same `client_request_id` gives the same task.
    pub async fn start(&self, new: NewTask) -> Result<TaskView, Error> {
        self.to_completion(|bridge| async move { bridge.take(new).await }).await
    }

    async fn take(&self, new: NewTask) -> Result<TaskView, Error> {
        let inner = &self.inner;
        self.check_name(new.client_request_id.as_deref())?;
        let _changing = inner.changing.lock().await;
        if let Some(task) = self.started_by(new.client_request_id.as_ref()).await? {
            let is_same = task.settings.asks_the_same(&new.settings)
                && inner.has_first_prompt(&task.id, &new.prompt).await?;
            return if is_same { self.view(task).await } else { Err(Error::KeyReused(task.id)) };
        }
        inner.check_prompt(&new.prompt)?;
        if new.limits.turns == Some(0) {
            return Err(Error::Refused("a limit of 0 turns allows no work: allow at least 1".to_owned()));
        }
        for one in Subscription::parse_all(new.notify_target.as_deref().unwrap_or_default())? {
            if !one.is_local() {
                inner.config.sender.check(&one.target)?;
            }
        }
        inner.check_quota(&new.by, OpensTask::Yes, &new.texts()).await?;
        let now = self.inner.now();
        let (task, batch) = inner.first_turn(&new, None, now)?;
        failpoint::hit("start.before_record");
        inner.commit(batch).await?;
        failpoint::hit("start.recorded");
        inner.enqueue(&task);
        inner.begin_next();
        self.view(task).await
    }

    /// The task that was started with this prompt under this name.
    pub async fn started_under(
        &self,
        client_request_id: &str,
        prompt: &str,
    ) -> Result<Option<TaskView>, Error> {
        let Some(task) = self.started_by(Some(&client_request_id.to_owned())).await? else { return Ok(None) };
        let is_same = self.inner.has_first_prompt(&task.id, prompt).await?;
        Ok(if is_same { Some(self.view(task).await?) } else { None })
    }

    pub(super) async fn started_by(&self, client_request_id: Option<&String>) -> Result<Option<Task>, Error> {
        let Some(id) = client_request_id else { return Ok(None) };
        let filter =
            TaskFilter { client_request_id: Some(id.clone()), limit: Some(1), ..TaskFilter::default() };
        Ok(self.inner.store.tasks(&filter).await?.into_iter().next())
    }

    /// Continues a finished task with another turn.
    pub async fn continue_task(&self, id: &str, prompt: &str) -> Result<TaskView, Error> {
        Ok(self.continue_once(id, prompt, None, &Author::default()).await?.view)
    }

    /// As [`Bridge::continue_task`], under the caller's name for the turn. The same name gives no second turn, whatever
    /// became of the first. The log line that queues the turn has the name too.
    pub async fn continue_once(
        &self,
        id: &str,
        prompt: &str,
        client_request_id: Option<&str>,
        by: &Author,
    ) -> Result<Continued, Error> {
        let (id, prompt, by) = (id.to_owned(), prompt.to_owned(), by.clone());
        let name = client_request_id.map(str::to_owned);
        self.to_completion(
            |bridge| async move { bridge.continue_now(&id, &prompt, name.as_deref(), &by).await },
        )
        .await
    }

    async fn continue_now(
        &self,
        id: &str,
        prompt: &str,
        name: Option<&str>,
        by: &Author,
    ) -> Result<Continued, Error> {
        let inner = &self.inner;
        inner.check_prompt(prompt)?;
        self.check_name(name)?;
        let _changing = inner.changing.lock().await;
        let mut task = self.find(id).await?;
        let after = inner.store.last_events(&task.id, 1).await?.last().map_or(0, |event| event.seq);
        if let Some(turn) = inner.turn_named(&task.id, name, prompt).await? {
            return Ok(Continued { view: self.view(task).await?, turn, after });
        }
        if !task.status.is_finished() {
            return Err(Error::wrong_state(&task, "it is not finished; steer it, or wait for its end"));
        }
        inner.check_quota(by, OpensTask::Yes, &[Some(prompt)]).await?;
        // A caller who continues a task wants it to run in spite of limits.
        task.waive_reached_limits();
        if task.parked.is_some() {
            inner.try_now(&task);
        }
        let turn = task.used.turns + 1;
        inner.requeue_as(&mut task, prompt, name, by).await?;
        Ok(Continued { view: self.view(task).await?, turn, after })
    }

    /// Gives a chat message its turn, in one transaction, of the conversation's task or of a new one.
    pub(crate) async fn begin_chat_turn(&self, turn: ChatTurn, by: Author) -> Result<(), Error> {
        let ChatTurn {
            mut message,
            mut conversation,
            prompt,
            has_images,
            settings,
            limit,
            asks_in,
            is_forgotten,
        } = turn;
        let (inner, now) = (&self.inner, message.updated_at);
        inner.check_prompt(&prompt)?;
        let _changing = inner.changing.lock().await;
        let before = match &conversation.task_id {
            Some(task_id) => inner.store.task(task_id).await?,
            None => None,
        };
        let turn_ms = limit.map(|limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        let limits = |used_ms: u64| Limits {
            work_ms: turn_ms.map(|turn_ms| used_ms.saturating_add(turn_ms)),
            ..Limits::default()
        };
        let author = by.name.clone();
        let (task, mut batch) = match before {
            Some(task) if !task.status.is_finished() => {
                return Err(Error::wrong_state(&task, "it is not finished"));
            }
            Some(mut task) => {
                task.settings = Settings { turn_given_by: by.kind, ..settings };
                // The end is sent as a reply, not as a notice.
                (task.notify_target, task.asks_in, task.token) = (None, asks_in, by.token);
                (task.used.waived, task.limits) = (Waived::default(), limits(task.used.work_ms));
                let batch = inner.another_turn(&mut task, &prompt, QueuedBy::Caller, now)?;
                (task, batch)
            }
            None => {
                let new = NewTask { limits: limits(0), ..NewTask::new(prompt, settings, by) };
                inner.first_turn(&new, asks_in, now)?
            }
        };
        if has_images {
            Inner::give_images(&mut batch, &message.id);
        }
        if is_forgotten {
            let id = DeliveryId(format!("{}-forgotten", message.own_reply_id()));
            let delivery =
                reply::delivery(&message, id, Some(&task), ReplyText::plain(reply::FORGOTTEN), now);
            batch.push(Write::AddDelivery(Box::new(delivery)));
        }
        batch.push(self.inner.audit(&author, "message", Some(&task.id), message.id.as_str()));
        (conversation.task_id, message.task_id) = (Some(task.id.clone()), Some(task.id.clone()));
        batch.push(Write::SaveConversation(Box::new(conversation)));
        batch.push(Write::SaveMessage(Box::new(message)));
        failpoint::hit("inbox.before_turn");
        inner.commit(batch).await?;
        failpoint::hit("inbox.turn_recorded");
        inner.enqueue(&task);
        inner.begin_next();
        Ok(())
    }
}
