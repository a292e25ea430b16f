//! Recovery: afterwards every unfinished task has a runner or a place in the queue.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tracing::error;

use super::runner::Mode;
use super::{Bridge, Error, Inner, append};
use crate::event::Line;
use crate::request::{RequestRecord, RequestState};
use crate::store::{self, RequestFilter, TaskFilter, Write};
use crate::task::{Status, Task, TaskId, TurnProgress};

impl Bridge {
    /// Recovers everything when the bridge starts.
    pub(super) async fn recover(&self) -> Result<(), Error> {
        self.orphan_dead_requests().await?;
        let paused = TaskFilter { statuses: vec![Status::Paused], ..TaskFilter::default() };
        self.inner.remember_limits(&self.inner.store.tasks(&paused).await?);
        self.inner.adopt_tasks().await
    }

    /// Closes requests of dead hosts: nobody can answer them.
    async fn orphan_dead_requests(&self) -> Result<(), Error> {
        for mut request in self.inner.unanswered(None).await? {
            if !self.inner.hosts.is_alive(&request.key.epoch).await {
                let closed = self.inner.close_request(&mut request, RequestState::Orphaned);
                self.inner.commit(closed.into()).await?;
                self.inner.redact_whole_changes(&request).await?;
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Gives each unfinished task without a runner a runner if its prompt may have been sent, else queues it again. The
    /// runner finds out whether the host is still alive.
    ///
    /// At the start these are all unfinished tasks. Later they are tasks whose commit succeeded although the store
    /// reported an error.
    pub(super) async fn adopt_tasks(self: &Arc<Self>) -> Result<(), Error> {
        // A task that is being handed over has no place in the queue yet.
        let _changing = self.changing.lock().await;
        let under_way = TaskFilter {
            statuses: vec![Status::Queued, Status::Starting, Status::Working, Status::Interrupting],
            ..TaskFilter::default()
        };
        let mut tasks = self.store.tasks(&under_way).await?;
        // A turn that ends now loses its runner here. Its next runner finds no open turn, and ends.
        tasks.retain(|task| self.runner(&task.id).is_none() && !self.queue().holds(&task.id));
        self.remember_limits(&tasks);
        let mut unsent = Vec::new();
        for task in tasks {
            match self.store.turns(&task.id).await?.pop() {
                Some(turn) if turn.progress != TurnProgress::Recorded => {
                    self.queue().admit(self.ticket(&task));
                    self.run(task.id.clone(), Mode::Recovered);
                }
                turn => unsent.push((turn.map_or(task.created_at, |turn| turn.created_at), task)),
            }
        }
        // Queued turns keep the order in which they were handed over.
        unsent.sort_by_key(|(asked_at, task)| (*asked_at, task.created_at));
        for (_, task) in unsent {
            self.requeue_unsent(task).await?;
        }
        self.begin_next();
        Ok(())
    }

    /// Adopts the tasks of commits whose outcome is in doubt.
    pub(super) async fn adopt_doubtful(self: &Arc<Self>) {
        if self.is_in_doubt.swap(false, Ordering::SeqCst)
            && let Err(error) = self.adopt_tasks().await
        {
            error!(%error, "cannot look for tasks without a runner; retrying at the next upkeep");
            self.is_in_doubt.store(true, Ordering::SeqCst);
        }
    }

    /// Queues a task again whose prompt was never sent.
    async fn requeue_unsent(&self, mut task: Task) -> Result<(), Error> {
        if task.status != Status::Queued {
            task.status = Status::Queued;
            self.save_state(&mut task).await?;
        }
        if task.used.host_losses > 0 {
            self.enqueue_to_resume(&task);
        } else {
            self.enqueue(&task);
        }
        Ok(())
    }

    /// The requests whose decision Codex has not confirmed, of one task or of all.
    pub(crate) async fn unanswered(
        &self,
        task_id: Option<TaskId>,
    ) -> Result<Vec<RequestRecord>, store::Error> {
        let states = vec![RequestState::Open, RequestState::Decided];
        self.store.requests(&RequestFilter { task_id, states, ..RequestFilter::default() }).await
    }

    /// The writes that close a request.
    pub(crate) fn close_request(&self, request: &mut RequestRecord, state: RequestState) -> [Write; 2] {
        let now = self.now();
        request.close(state, &self.config.redactor, now);
        let closed = append(&request.task_id, now, Line::closed(request));
        [Write::SaveRequest(Box::new(request.clone())), closed]
    }
}
