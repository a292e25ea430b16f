//! Setting things right at the start: no row says that something works when nothing does.

use super::runner::Mode;
use super::{Bridge, Error, Inner, append};
use crate::event::Line;
use crate::request::{RequestRecord, RequestState};
use crate::store::{self, RequestFilter, TaskFilter, Write};
use crate::task::{Status, Task, TaskId, TurnProgress};

impl Bridge {
    /// For every task that was under way: its host lives → it is taken up; its host is dead → it is accounted for.
    pub(super) async fn recover(&self) -> Result<(), Error> {
        let inner = &self.inner;
        self.orphan_dead_requests().await?;
        let under_way = TaskFilter {
            statuses: vec![Status::Queued, Status::Starting, Status::Working, Status::Interrupting],
            ..TaskFilter::default()
        };
        let paused = TaskFilter { statuses: vec![Status::Paused], ..TaskFilter::default() };
        inner.remember_limits(&inner.store.tasks(&paused).await?);
        let tasks = inner.store.tasks(&under_way).await?;
        inner.remember_limits(&tasks);
        let mut unsent = Vec::new();
        for task in tasks {
            match inner.store.turns(&task.id).await?.pop() {
                Some(turn) if turn.progress != TurnProgress::Recorded => {
                    inner.queue().admit(inner.ticket(&task));
                    inner.run(task.id.clone(), Mode::Recovered);
                }
                turn => unsent.push((turn.map_or(task.created_at, |turn| turn.created_at), task)),
            }
        }
        // Who asked for a turn first comes first, whoever was there first.
        unsent.sort_by_key(|(asked_at, task)| (*asked_at, task.created_at));
        for (_, task) in unsent {
            inner.wait_again(task).await?;
        }
        inner.begin_next();
        Ok(())
    }

    /// Requests of hosts that are gone can never be answered.
    async fn orphan_dead_requests(&self) -> Result<(), Error> {
        for mut request in self.inner.unanswered(None).await? {
            if !self.inner.hosts.lives(&request.key.epoch).await {
                let closed = self.inner.close_request(&mut request, RequestState::Orphaned);
                self.inner.commit(closed.into()).await?;
                self.inner.redact_whole_changes(&request).await?;
            }
        }
        Ok(())
    }
}

impl Inner {
    /// Nothing of its turn was ever sent: it waits as if nothing had happened.
    async fn wait_again(&self, mut task: Task) -> Result<(), Error> {
        if task.status != Status::Queued {
            task.status = Status::Queued;
            self.save_state(&mut task).await?;
        }
        if task.used.host_losses > 0 {
            self.line_up_to_resume(&task);
        } else {
            self.line_up(&task);
        }
        Ok(())
    }

    /// The requests of a task, or of all, of which Codex has taken no answer.
    pub(crate) async fn unanswered(
        &self,
        task_id: Option<TaskId>,
    ) -> Result<Vec<RequestRecord>, store::Error> {
        let states = vec![RequestState::Open, RequestState::Decided];
        self.store.requests(&RequestFilter { task_id, states, ..RequestFilter::default() }).await
    }

    /// What records that a request is closed.
    pub(crate) fn close_request(&self, request: &mut RequestRecord, state: RequestState) -> [Write; 2] {
        let now = self.now();
        request.close(state, &self.config.redactor, now);
        let closed = append(&request.task_id, now, Line::closed(request));
        [Write::SaveRequest(Box::new(request.clone())), closed]
    }
}
