//! Setting things right at the start: no row says that something works when nothing does.

use codex_wire::host::pool::Change;

use super::{Bridge, Error, Inner, now_ms, ticket};
use crate::request::{RequestRecord, RequestState};
use crate::runner::Mode;
use crate::store::{RequestFilter, TaskFilter, Write};
use crate::task::{Status, Task, TurnProgress};

impl Bridge {
    /// For every task that was under way: its host lives → it is taken up; its host is dead → it is accounted for.
    pub(super) async fn recover(&self, _changes: &[Change]) -> Result<(), Error> {
        let inner = &self.inner;
        self.orphan_dead_requests().await?;
        let under_way = TaskFilter {
            statuses: vec![Status::Queued, Status::Starting, Status::Working, Status::Interrupting],
            ..TaskFilter::default()
        };
        // The oldest first, so that the queue keeps its order.
        for task in inner.store.tasks(&under_way).await?.into_iter().rev() {
            if self.was_sent(&task).await? {
                inner.queue().admit(ticket(&task));
                inner.run(task.id.clone(), Mode::Recovered);
            } else {
                // Nothing of it was ever sent: it waits as if nothing had happened.
                inner.line_up(&task);
            }
        }
        inner.begin_next();
        Ok(())
    }

    async fn was_sent(&self, task: &Task) -> Result<bool, Error> {
        let turns = self.inner.store.turns(&task.id).await?;
        Ok(turns.last().is_some_and(|turn| !matches!(turn.progress, TurnProgress::Recorded)))
    }

    /// Requests of hosts that are gone can never be answered.
    async fn orphan_dead_requests(&self) -> Result<(), Error> {
        let states = vec![RequestState::Open, RequestState::Decided];
        let filter = RequestFilter { states, ..RequestFilter::default() };
        for mut request in self.inner.store.requests(&filter).await? {
            if self.inner.hosts.find(&request.key.epoch).await.is_none() {
                self.inner.orphan(&mut request).await?;
            }
        }
        Ok(())
    }
}

impl Inner {
    async fn orphan(&self, request: &mut RequestRecord) -> Result<(), Error> {
        request.state = RequestState::Orphaned;
        request.sealed_decision = None;
        request.closed_at = Some(now_ms());
        self.commit(vec![Write::SaveRequest(Box::new(request.clone()))]).await?;
        Ok(())
    }
}
