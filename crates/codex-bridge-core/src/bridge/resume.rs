//! Continues tasks by themselves: after a usage limit, a login or the loss of a host. One task of a home at a time.

use std::collections::HashSet;
use std::sync::{Arc, MutexGuard, PoisonError};

use tracing::error;

use super::{Error, Inner, Watchdog};
use crate::accounts::{Accounts, Limit, Pace};
use crate::store::{TaskFilter, Write};
use crate::task::{Parked, Status, Task, TaskId, TimeMs};

/// The prompt of a task that continues after a usage limit or a missing login.
pub(crate) const GO_ON: &str = "The previous turn stopped because of an account limit or login, which is in order now. Look at the \
    state of things, then finish the task.";

/// The reason of a parked task that has no turn left.
const NO_TURN_LEFT: &str =
    "what it waited for is over, but it has used all its turns; continue it to give it one more";

/// The reason of a queued task that a usage limit holds back.
const HELD: &str = "the account's usage limit is reached; the turn begins when the limit ends";

impl Inner {
    pub(super) fn accounts(&self) -> MutexGuard<'_, Accounts> {
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task hit its account's limit. Returns the limit, which holds for all tasks of the home.
    pub(crate) fn limit_hit(&self, task: &Task, resets_at: Option<TimeMs>, now: TimeMs) -> Limit {
        let home = self.login_home(task);
        let limit = self.accounts().met(&home, &task.id, resets_at, now);
        self.queue().hold(&home);
        self.resuming.notify_one();
        limit
    }

    /// A turn that began at `began_at` was served: that lifts an earlier limit of its account.
    pub(crate) fn was_served(&self, task: &Task, began_at: TimeMs) {
        let home = self.login_home(task);
        if self.accounts().served(&home, began_at) {
            self.resuming.notify_one();
        }
    }

    /// Records in the task which limit holds back its next turn, if any.
    pub(super) fn hold_back(&self, task: &mut Task) {
        let home = self.login_home(task);
        let limit = self.accounts().limit(&home, &task.id, self.now());
        task.parked = limit.map(|limit| limit.parked());
        task.reason = limit.map(|_| HELD.to_owned());
    }

    /// A person continues this task: it may begin in spite of a limit.
    pub(super) fn try_now(&self, task: &Task) {
        let home = self.login_home(task);
        self.accounts().try_now(&home, &task.id, self.now());
    }

    /// Queues a task that continues after its host was lost, behind other such tasks of its home.
    pub(crate) fn enqueue_to_resume(&self, task: &Task) {
        let mut ticket = self.ticket(task);
        ticket.is_held = true;
        self.queue().push(ticket);
        self.resuming.notify_one();
    }

    /// A turn has ended. If it was the probe, another task may probe.
    pub(super) async fn end_probe(&self, task_id: &TaskId) {
        let task = match self.store.task(task_id).await {
            Ok(Some(task)) => task,
            Ok(None) => return,
            Err(error) => {
                return error!(task = %task_id, %error, "the store failed; parked tasks of this home may continue later than due");
            }
        };
        let home = self.login_home(&task);
        if self.accounts().ended(&home, task_id) {
            self.resuming.notify_one();
        }
    }

    /// Restores usage limits from stored tasks, before any task begins.
    pub(super) fn remember_limits(&self, tasks: &[Task]) {
        for task in tasks {
            let Some(Parked::UsageLimit { resume_at, is_known }) = task.parked else { continue };
            let home = self.login_home(task);
            let hits = task.used.limit_hits.max(1);
            let limit = Limit { resume_at, is_known, hits, met_at: task.updated_at };
            self.accounts().remember(&home, limit);
        }
    }

    /// Continues the parked tasks that may, one of a home at a time. Returns when the next one may.
    pub(super) async fn resume_due(self: &Arc<Self>) -> Result<Option<TimeMs>, Error> {
        let mut next: Option<TimeMs> = None;
        let mut later = |at: TimeMs| next = Some(next.map_or(at, |next| next.min(at)));
        let mut homes_with_waiting_tasks = HashSet::new();
        let paused = TaskFilter { statuses: vec![Status::Paused], ..TaskFilter::default() };
        for task in self.store.tasks(&paused).await?.into_iter().rev() {
            match &task.parked {
                Some(Parked::UsageLimit { .. }) => self.share_limit(&task).await?,
                Some(Parked::Login { seen, .. }) => {
                    let now = self.login_fingerprint(&task).await;
                    if now.is_none_or(|now| now == *seen) {
                        continue;
                    }
                }
                None => continue,
            }
            let home = self.login_home(&task);
            let pace = self.accounts().may_resume(&home, &task.id, self.now());
            match pace {
                Pace::Now => self.continue_parked(&task).await?,
                Pace::At(at) => {
                    later(at);
                    homes_with_waiting_tasks.insert(home);
                }
            }
        }
        let held = self.queue().held();
        self.tell_held(held.iter().map(|(task_id, _)| task_id).collect()).await?;
        // A limit may end during this loop: queued tasks must not overtake parked ones, which have waited longer.
        for (task_id, home) in held.into_iter().filter(|(_, home)| !homes_with_waiting_tasks.contains(home)) {
            let pace = self.accounts().may_resume(&home, &task_id, self.now());
            match pace {
                Pace::Now => self.queue().release(&task_id),
                Pace::At(at) => later(at),
            }
        }
        self.begin_next();
        Ok(next)
    }

    /// Updates a parked task to the present limit of its account.
    async fn share_limit(&self, task: &Task) -> Result<(), Error> {
        let home = self.login_home(task);
        let limit = self.accounts().limit(&home, &task.id, self.now()).map(|limit| limit.parked());
        if limit.is_none() || limit == task.parked {
            return Ok(());
        }
        let _changing = self.changing.lock().await;
        let still = self.store.task(&task.id).await?.filter(|now| now.parked == task.parked);
        if let Some(mut task) = still {
            (task.parked, task.updated_at) = (limit, self.now());
            self.commit(vec![Write::SaveTask(Box::new(task))]).await?;
        }
        Ok(())
    }

    /// Records the limit in tasks that were queued before the limit was hit.
    async fn tell_held(&self, held: HashSet<&TaskId>) -> Result<(), Error> {
        if held.is_empty() {
            return Ok(());
        }
        let queued = TaskFilter { statuses: vec![Status::Queued], ..TaskFilter::default() };
        for task in self.store.tasks(&queued).await? {
            let limit = self.accounts().limit(&self.login_home(&task), &task.id, self.now());
            let parked = limit.map(|limit| limit.parked());
            if !held.contains(&task.id) || parked.is_none() || parked == task.parked {
                continue;
            }
            let _changing = self.changing.lock().await;
            let still = self.store.task(&task.id).await?.filter(|now| now.status == Status::Queued);
            if let Some(mut task) = still {
                (task.parked, task.reason) = (parked, Some(HELD.to_owned()));
                self.save_state(&mut task).await?;
            }
        }
        Ok(())
    }

    async fn continue_parked(self: &Arc<Self>, task: &Task) -> Result<(), Error> {
        let went_on = self.requeue_parked(&task.id).await;
        if !matches!(went_on, Ok(true)) {
            let home = self.login_home(task);
            self.accounts().ended(&home, &task.id);
        }
        went_on.map(drop)
    }

    /// Returns whether the task was queued.
    async fn requeue_parked(self: &Arc<Self>, task_id: &TaskId) -> Result<bool, Error> {
        let _changing = self.changing.lock().await;
        match self.store.task(task_id).await?.filter(|task| task.parked.is_some()) {
            Some(task) if !task.status.is_finished() => Ok(false),
            Some(mut task) if !task.has_turn_left() => {
                task.parked = None;
                task.reason = Some(NO_TURN_LEFT.to_owned());
                self.counters.fire(Watchdog::Turns);
                self.save_state(&mut task).await?;
                Ok(false)
            }
            Some(mut task) => {
                self.requeue(&mut task, GO_ON).await?;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}
