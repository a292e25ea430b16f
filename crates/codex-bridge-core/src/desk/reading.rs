//! The verbs that read: tasks, turns, logs, requests, deliveries, hosts. They change nothing, so nothing is recorded.

use std::time::Duration;

use codex_wire::host::Host;
use tokio::sync::broadcast;

use super::{Caller, Desk, Verb};
use crate::bridge::{Bridge, Error, News, OpenText, TaskView};
use crate::event::{Event, Seq};
use crate::outbox::Delivery;
use crate::request::{OpenedChanges, RequestRecord};
use crate::store::{DeliveryFilter, TaskFilter};
use crate::task::{ShownStatus, Task, TaskId, TurnRecord};

/// The log of one task, for a caller who may read it.
#[derive(Clone)]
pub struct TaskLog {
    bridge: Bridge,
    task_id: TaskId,
}

impl Desk {
    /// A task with its open requests.
    pub async fn show(&self, caller: &Caller, id: &str) -> Result<TaskView, Error> {
        caller.may(Verb::Read)?;
        Ok(self.as_seen_by(caller, self.bridge.show(id).await?))
    }

    /// Tasks, the newest first.
    pub async fn list(&self, caller: &Caller, filter: &TaskFilter) -> Result<Vec<TaskView>, Error> {
        caller.may(Verb::Read)?;
        let views = self.bridge.list(filter).await?;
        Ok(views.into_iter().map(|view| self.as_seen_by(caller, view)).collect())
    }

    /// One page of tasks that are shown with this status, the newest first, and whether there are more. The filter's
    /// limit is the size of the page.
    pub async fn list_shown(
        &self,
        caller: &Caller,
        mut filter: TaskFilter,
        status: Option<ShownStatus>,
    ) -> Result<(Vec<TaskView>, bool), Error> {
        filter.statuses = status.map(ShownStatus::stored).unwrap_or_default();
        let limit = filter.limit.map_or(usize::MAX, |limit| limit as usize);
        let mut tasks = Vec::new();
        // Not every status is stored, so a page of the store may have fewer matches than the limit.
        let is_last = loop {
            let page = self.list(caller, &filter).await?;
            let is_last = page.len() < limit;
            filter.before = page.last().map(|view| view.task.id.clone());
            tasks.extend(page.into_iter().filter(|view| status.is_none_or(|status| view.status() == status)));
            if is_last || tasks.len() >= limit {
                break is_last && tasks.len() <= limit;
            }
        };
        tasks.truncate(limit);
        Ok((tasks, !is_last))
    }

    /// Waits until a task is finished or has an open request, or the time is up.
    pub async fn wait(&self, caller: &Caller, id: &str, limit: Duration) -> Result<TaskView, Error> {
        caller.may(Verb::Read)?;
        Ok(self.as_seen_by(caller, self.bridge.wait(id, limit).await?))
    }

    /// Waits until `condition` holds for a task, or the time is up.
    pub async fn wait_until(
        &self,
        caller: &Caller,
        id: &str,
        limit: Duration,
        condition: impl Fn(&TaskView) -> bool + Send,
    ) -> Result<TaskView, Error> {
        caller.may(Verb::Read)?;
        Ok(self.as_seen_by(caller, self.bridge.wait_until(id, limit, condition).await?))
    }

    /// The open requests of all tasks, or every request of one task; the oldest first.
    pub async fn requests(&self, caller: &Caller, task: Option<&str>) -> Result<Vec<RequestRecord>, Error> {
        caller.may(Verb::Read)?;
        let mut requests = match task {
            Some(id) => self.bridge.requests(self.bridge.find(id).await?.id).await?,
            None => self.bridge.open_requests(None).await?,
        };
        self.hide_secrets(caller, &mut requests);
        Ok(requests)
    }

    /// One request of a task.
    pub async fn request(&self, caller: &Caller, id: &str, request: &str) -> Result<RequestRecord, Error> {
        caller.may(Verb::Read)?;
        let mut record = self.bridge.request(&self.bridge.find(id).await?.id, request).await?;
        self.hide_secrets(caller, std::slice::from_mut(&mut record));
        Ok(record)
    }

    /// The changes of a request with complete diffs.
    pub async fn whole_changes(
        &self,
        caller: &Caller,
        request: &RequestRecord,
    ) -> Result<OpenedChanges, Error> {
        caller.may(Verb::Read)?;
        let mut opened = self.bridge.whole_changes(request).await?;
        if let Some(redactor) = self.redactor_for(caller) {
            for change in &mut opened.changes {
                *change = change.redacted(redactor);
            }
        }
        Ok(opened)
    }

    /// A task by its id, a unique prefix of the id, or its Codex thread.
    pub async fn find(&self, caller: &Caller, id: &str) -> Result<Task, Error> {
        caller.may(Verb::Read)?;
        self.bridge.find(id).await
    }

    /// The turns of a task, the oldest first.
    pub async fn turns(&self, caller: &Caller, id: &str) -> Result<Vec<TurnRecord>, Error> {
        let task = self.find(caller, id).await?;
        self.bridge.turns(&task.id).await
    }

    /// The log of a task.
    pub async fn log(&self, caller: &Caller, id: &str) -> Result<TaskLog, Error> {
        let task_id = self.find(caller, id).await?.id;
        Ok(TaskLog { bridge: self.bridge.clone(), task_id })
    }

    /// Deliveries, the newest first: those of one task, or of all.
    pub async fn deliveries(
        &self,
        caller: &Caller,
        task: Option<&str>,
        mut filter: DeliveryFilter,
    ) -> Result<Vec<Delivery>, Error> {
        caller.may(Verb::Read)?;
        if let Some(id) = task {
            filter.task_ids = vec![self.bridge.find(id).await?.id];
        }
        self.bridge.deliveries(&filter).await
    }

    /// The number of open requests of all tasks.
    pub async fn count_open_requests(&self, caller: &Caller) -> Result<u64, Error> {
        caller.may(Verb::Read)?;
        Ok(self.bridge.store().counts().await?.open_requests)
    }

    /// The hosts that are running.
    pub fn hosts(&self, caller: &Caller) -> Result<Vec<Host>, Error> {
        caller.may(Verb::Read)?;
        Ok(self.bridge.hosts().into_iter().filter(Host::is_alive).collect())
    }
}

impl TaskLog {
    /// The task of the log.
    pub fn task_id(&self) -> &TaskId {
        &self.task_id
    }

    /// Whether the task has finished.
    pub async fn is_finished(&self) -> Result<bool, Error> {
        Ok(self.bridge.find(self.task_id.as_str()).await?.status.is_finished())
    }

    /// The lines after this one, the oldest first.
    pub async fn after(&self, seq: Seq, limit: u32) -> Result<Vec<Event>, Error> {
        self.bridge.events(&self.task_id, seq, limit).await
    }

    /// The last lines, the oldest first.
    pub async fn last(&self, limit: u32) -> Result<Vec<Event>, Error> {
        self.bridge.last_events(&self.task_id, limit).await
    }

    /// The line with the diff of the last turn that changed files.
    pub async fn last_diff(&self) -> Result<Option<Event>, Error> {
        self.bridge.last_diff(&self.task_id).await
    }

    /// News of the task from now on, and its live texts so far. Later deltas continue those texts.
    pub fn join(&self) -> (broadcast::Receiver<News>, Vec<OpenText>) {
        self.bridge.join(&self.task_id)
    }

    /// Returns when the daemon stops.
    pub async fn until_closing(&self) {
        self.bridge.until_closing().await;
    }
}
