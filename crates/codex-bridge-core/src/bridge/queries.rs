//! Reads tasks, lists and logs, and waits for tasks. Changes nothing.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::broadcast;

use super::{Bridge, Error, News, OpenText, TaskView};
use crate::event::{Event, Seq};
use crate::request::{OpenedChanges, RequestRecord, RequestState};
use crate::store::{AuditFilter, AuditLine, RequestFilter, TaskFilter};
use crate::task::{Task, TaskId, TimeMs, TurnRecord};

impl Bridge {
    /// A task by its id, a unique prefix of the id, or its Codex thread.
    pub async fn find(&self, id: &str) -> Result<Task, Error> {
        let id = id.trim();
        if let Some(task) = self.inner.store.task(&TaskId(id.to_owned())).await? {
            return Ok(task);
        }
        let filter = TaskFilter { id_prefix: Some(id_prefix(id)), limit: Some(2), ..TaskFilter::default() };
        let mut found = self.inner.store.tasks(&filter).await?;
        match found.len() {
            1 if !id.is_empty() => Ok(found.remove(0)),
            0 | 1 => self.of_thread(id).await?.ok_or_else(|| Error::UnknownTask(id.to_owned())),
            _ => Err(Error::AmbiguousTask(id.to_owned())),
        }
    }

    async fn of_thread(&self, thread_id: &str) -> Result<Option<Task>, Error> {
        let thread_id = Some(thread_id.to_owned()).filter(|id| !id.is_empty());
        if thread_id.is_none() {
            return Ok(None);
        }
        let filter = TaskFilter { thread_id, limit: Some(1), ..TaskFilter::default() };
        Ok(self.inner.store.tasks(&filter).await?.into_iter().next())
    }

    /// A task with its open requests.
    pub async fn show(&self, id: &str) -> Result<TaskView, Error> {
        match self.inner.store.task_with_open(&TaskId(id.trim().to_owned())).await? {
            Some((task, open)) => self.finish_view(task, open).await,
            None => self.view(self.find(id).await?).await,
        }
    }

    /// Tasks, the newest first.
    pub async fn list(&self, filter: &TaskFilter) -> Result<Vec<TaskView>, Error> {
        let mut open: HashMap<TaskId, Vec<RequestRecord>> = HashMap::new();
        for request in self.open_requests(None).await? {
            open.entry(request.task_id.clone()).or_default().push(request);
        }
        let tasks = self.inner.store.tasks(filter).await?;
        let mut views: Vec<TaskView> = tasks
            .into_iter()
            .map(|task| self.with_requests(open.remove(&task.id).unwrap_or_default(), task))
            .collect();
        self.inner.show_notifications(&mut views).await?;
        Ok(views)
    }

    pub(super) async fn view(&self, task: Task) -> Result<TaskView, Error> {
        let open = self.open_requests(Some(task.id.clone())).await?;
        self.finish_view(task, open).await
    }

    async fn finish_view(&self, task: Task, open: Vec<RequestRecord>) -> Result<TaskView, Error> {
        let mut view = self.with_requests(open, task);
        self.inner.show_notifications(std::slice::from_mut(&mut view)).await?;
        Ok(view)
    }

    fn with_requests(&self, open_requests: Vec<RequestRecord>, task: Task) -> TaskView {
        let trust = self.inner.config.trust_of(&task.settings);
        TaskView { task, open_requests, trust }
    }

    /// The open requests, the oldest first.
    pub async fn open_requests(&self, task_id: Option<TaskId>) -> Result<Vec<RequestRecord>, Error> {
        let filter = RequestFilter { task_id, states: vec![RequestState::Open], ..RequestFilter::default() };
        Ok(self.inner.store.requests(&filter).await?)
    }

    /// All requests of a task, closed ones included, the oldest first.
    pub async fn requests(&self, task_id: TaskId) -> Result<Vec<RequestRecord>, Error> {
        let filter = RequestFilter { task_id: Some(task_id), ..RequestFilter::default() };
        Ok(self.inner.store.requests(&filter).await?)
    }

    /// The changes of a request with complete diffs. Those in the request itself if nothing was cut there, or if the
    /// complete ones were not stored because the disk was full.
    pub async fn whole_changes(&self, request: &RequestRecord) -> Result<OpenedChanges, Error> {
        let kept = match request.ask.whole_changes_bytes {
            Some(_) => self.inner.store.whole_changes(&request.request_id).await?,
            None => None,
        };
        let changes = kept.map_or_else(|| request.ask.changes.clone(), |whole| whole.changes);
        let is_opened = request.ask.has_cut_diff() && changes.iter().all(|change| change.cut_bytes == 0);
        let digest = if is_opened { self.digest_of_whole(request)? } else { request.digest.clone() };
        Ok(OpenedChanges { changes, digest })
    }

    /// The turns of a task, the oldest first.
    pub async fn turns(&self, task_id: &TaskId) -> Result<Vec<TurnRecord>, Error> {
        Ok(self.inner.store.turns(task_id).await?)
    }

    /// Lines of a task's log after `after`.
    pub async fn events(&self, id: &TaskId, after: Seq, limit: u32) -> Result<Vec<Event>, Error> {
        Ok(self.inner.store.events(id, after, limit).await?)
    }

    /// The log line with the diff of the last turn that changed files.
    pub async fn last_diff(&self, id: &TaskId) -> Result<Option<Event>, Error> {
        Ok(self.inner.store.last_diff(id).await?)
    }

    /// The last lines of a task's log.
    pub async fn last_events(&self, id: &TaskId, limit: u32) -> Result<Vec<Event>, Error> {
        Ok(self.inner.store.last_events(id, limit).await?)
    }

    /// News of all tasks from now on, without live text.
    pub fn news(&self) -> broadcast::Receiver<News> {
        self.inner.news.subscribe()
    }

    /// News of one task from now on, and its live texts so far. Later deltas continue those texts.
    pub fn join(&self, id: &TaskId) -> (broadcast::Receiver<News>, Vec<OpenText>) {
        self.inner.news.join(id)
    }

    /// Waits until a task is finished or has an open request, or the time is up.
    pub async fn wait(&self, id: &str, limit: Duration) -> Result<TaskView, Error> {
        let needs_us = |view: &TaskView| view.task.status.is_finished() || !view.open_requests.is_empty();
        self.wait_until(id, limit, needs_us).await
    }

    /// Waits until `is_so` is true of a task, or the time is up.
    pub async fn wait_until(
        &self,
        id: &str,
        limit: Duration,
        is_so: impl Fn(&TaskView) -> bool + Send,
    ) -> Result<TaskView, Error> {
        let deadline = tokio::time::Instant::now() + limit;
        let id = self.find(id).await?.id;
        let mut watch = self.watch(&id);
        loop {
            let view = self.show(id.as_str()).await?;
            if is_so(&view) {
                return Ok(view);
            }
            tokio::select! {
                biased;
                () = self.until_closing() => return Err(Error::Closing),
                () = tokio::time::sleep_until(deadline) => return self.show(id.as_str()).await,
                () = watch.changed() => {}
            }
        }
    }

    /// Watches a task from now on.
    pub(super) fn watch(&self, id: &TaskId) -> Watch {
        Watch(self.inner.news.join(id).0)
    }

    /// The audit log, the oldest line first. `task` is an id or a prefix of one.
    pub async fn audit_log(
        &self,
        task: Option<&str>,
        since: Option<TimeMs>,
        limit: u32,
    ) -> Result<Vec<AuditLine>, Error> {
        let task_id_prefix = task.map(id_prefix);
        Ok(self.inner.store.audit(&AuditFilter { task_id_prefix, since, limit: Some(limit) }).await?)
    }
}

/// Waits for changes to one task.
pub(super) struct Watch(broadcast::Receiver<News>);

impl Watch {
    /// Returns when the task or one of its requests has changed since the last call.
    pub(super) async fn changed(&mut self) {
        loop {
            match self.0.recv().await {
                // `Lagged` means that news were missed: the task may have changed.
                Ok(News::Task(_)) | Err(broadcast::error::RecvError::Lagged(_)) => return,
                Ok(_) => {}
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

/// An id, or a prefix of one, with `codex-` in front if people left that out.
fn id_prefix(id: &str) -> String {
    let id = id.trim();
    if id.starts_with("codex-") { id.to_owned() } else { format!("codex-{id}") }
}
