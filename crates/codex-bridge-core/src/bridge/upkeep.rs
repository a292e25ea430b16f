//! Periodic upkeep: continues parked tasks, maintains hosts, deletes old data.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use codex_wire::host::pool::Change;
use tokio::time::Instant;
use tracing::{error, info};

use super::{Bridge, Inner, Watchdog};
use crate::store::{self, Prune, TaskFilter};
use crate::task::{Parked, Status, Task, TaskId};

/// Hosts are maintained once in this many rounds.
const HOSTS_EVERY: u64 = 6;
/// Old data is deleted once in this many rounds.
const PRUNE_EVERY: u64 = 720;
/// Runs until the bridge is dropped.
pub(super) async fn run(bridge: Weak<Inner>) {
    let mut looks: u64 = 0;
    let Some((every, woken)) =
        bridge.upgrade().map(|inner| (inner.config.upkeep_every, Arc::clone(&inner.resuming)))
    else {
        return;
    };
    let mut next_look = Instant::now() + every;
    loop {
        let Some(inner) = bridge.upgrade() else { return };
        let due = inner.resume_due().await.unwrap_or_else(|error| {
            error!(%error, "cannot continue parked tasks; retrying at the next upkeep");
            None
        });
        if Instant::now() >= next_look {
            next_look = Instant::now() + every;
            looks += 1;
            inner.look_after(looks).await;
        }
        let until = due.map_or(next_look, |at| next_look.min(Instant::now() + inner.config.clock.until(at)));
        drop(inner);
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until) => {}
            () = woken.notified() => {}
        }
    }
}

impl Inner {
    async fn look_after(self: &Arc<Self>, looks: u64) {
        self.adopt_doubtful().await;
        if looks.is_multiple_of(HOSTS_EVERY) {
            let changes = self.hosts.maintain().await;
            let retiring = changes.iter().filter(|change| matches!(change, Change::Retiring { .. }));
            retiring.for_each(|_| self.counters.fire(Watchdog::Host));
        }
        if looks.is_multiple_of(PRUNE_EVERY) {
            match self.prune().await {
                Ok(tasks) => info!(tasks, "old tasks and events were deleted"),
                Err(error) => error!(%error, "old tasks and events could not be deleted"),
            }
        }
    }

    /// The CODEX_HOME whose login a task uses.
    pub(crate) fn login_home(&self, task: &Task) -> PathBuf {
        self.config.home_of(task.settings.codex_home.as_ref())
    }

    /// Whether the host on which the task's thread was last open is alive.
    pub(crate) async fn has_live_host(&self, task: &Task) -> bool {
        match &task.epoch {
            Some(epoch) => self.hosts.is_alive(epoch).await,
            None => false,
        }
    }

    /// The task that carries the notice for all tasks that wait for this login.
    pub(crate) async fn carrier_of_notice(
        &self,
        home: &Path,
        login: &str,
    ) -> Result<Option<TaskId>, store::Error> {
        let paused = TaskFilter { statuses: vec![Status::Paused], ..TaskFilter::default() };
        let carries = |task: &Task| match &task.parked {
            Some(Parked::Login { seen, carries_notice: true }) => {
                seen == login && self.login_home(task) == home
            }
            _ => false,
        };
        Ok(self.store.tasks(&paused).await?.into_iter().find(carries).map(|task| task.id))
    }

    /// The fingerprint of the login that a task uses. It changes with every login. `None` if it cannot be read.
    pub(crate) async fn login_fingerprint(&self, task: &Task) -> Option<String> {
        self.hosts.login(&self.login_home(task)).await
    }

    /// Deletes what is older than the operator wants to keep. Returns how many tasks were deleted.
    pub(super) async fn prune(&self) -> Result<u64, super::Error> {
        let keep = i64::try_from(self.config.keep_tasks.as_millis()).unwrap_or(i64::MAX);
        let ended_before = self.now().saturating_sub(keep);
        Ok(self.store.prune(Prune { ended_before, events_per_task: self.config.keep_events }).await?)
    }
}

impl Bridge {
    /// Deletes old data now. Returns how many tasks were deleted.
    pub async fn forget_old(&self) -> Result<u64, super::Error> {
        self.to_completion(|bridge| async move { bridge.inner.prune().await }).await
    }
}
