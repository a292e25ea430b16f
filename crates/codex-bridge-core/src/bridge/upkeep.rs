//! What is done now and then: parked tasks go on, hosts are looked after, old things are forgotten.

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use super::{Bridge, Inner, now_ms};
use crate::store::{TaskFilter, Write};
use crate::task::{Parked, Status, Task, TaskId, TimeMs};

/// Hosts are looked after every so many looks.
const HOSTS_EVERY: u64 = 6;
/// Old things are forgotten every so many looks.
const PRUNE_EVERY: u64 = 720;
/// Tasks of one account do not all go on at once.
const STAGGER_MS: TimeMs = 2_000;

/// What a parked task is told when it goes on.
const GO_ON: &str = "The previous turn stopped because of an account limit or login, which is in order now. Look at the \
    state of things, then finish the task.";

/// Runs for as long as the bridge does.
pub(super) async fn run(bridge: Weak<Inner>) {
    let mut looks: u64 = 0;
    let Some(every) = bridge.upgrade().map(|inner| inner.config.upkeep_every) else { return };
    loop {
        tokio::time::sleep(every).await;
        let Some(inner) = bridge.upgrade() else { return };
        looks += 1;
        // What fails now is tried again at the next look.
        let _ = inner.unpark().await;
        if looks.is_multiple_of(HOSTS_EVERY) {
            let _ = inner.hosts.maintain().await;
        }
        if looks.is_multiple_of(PRUNE_EVERY) {
            let _ = inner.prune().await;
        }
    }
}

impl Inner {
    /// Lets parked tasks go on, staggered. Where nobody knows when a limit ends, one task of a home probes for all.
    async fn unpark(self: &Arc<Self>) -> Result<(), super::Error> {
        let paused = TaskFilter { statuses: vec![Status::Paused], ..TaskFilter::default() };
        let now = now_ms();
        let mut probing = self.probing_homes().await?;
        let mut delay = 0;
        for task in self.store.tasks(&paused).await?.into_iter().rev() {
            let home = &task.settings.codex_home;
            let due = match &task.parked {
                Some(Parked::UsageLimit { resume_at, is_known: true }) => now >= resume_at + delay,
                Some(Parked::UsageLimit { resume_at, .. }) => now >= *resume_at && !probing.contains(home),
                Some(Parked::Login { seen }) => *seen != self.login_fingerprint(&task),
                None => false,
            };
            if due {
                delay += STAGGER_MS;
                probing.push(home.clone());
                self.go_on(&task.id).await?;
            }
        }
        Ok(())
    }

    /// Homes in which a task that met a limit is under way again.
    async fn probing_homes(&self) -> Result<Vec<Option<PathBuf>>, super::Error> {
        let under_way = TaskFilter {
            statuses: vec![Status::Queued, Status::Starting, Status::Working],
            ..TaskFilter::default()
        };
        let tasks = self.store.tasks(&under_way).await?;
        Ok(tasks
            .into_iter()
            .filter(|task| task.used.limit_hits > 0)
            .map(|task| task.settings.codex_home)
            .collect())
    }

    async fn go_on(self: &Arc<Self>, task_id: &TaskId) -> Result<(), super::Error> {
        let _changing = self.changing.lock().await;
        match self.store.task(task_id).await?.filter(|task| task.parked.is_some()) {
            Some(mut task) => self.requeue(&mut task, GO_ON).await,
            None => Ok(()),
        }
    }

    /// What the login of a task looks like from outside: it changes when somebody logs in.
    pub(crate) fn login_fingerprint(&self, task: &Task) -> String {
        let home = task.settings.codex_home.clone().or_else(|| self.config.codex_home.clone());
        let default = || self.config.parent_env.get("HOME").map(|home| PathBuf::from(home).join(".codex"));
        let file = home.or_else(default).unwrap_or_default().join("auth.json");
        match std::fs::metadata(&file).and_then(|file| file.modified()) {
            Ok(modified) => format!("{modified:?}"),
            Err(_) => "none".to_owned(),
        }
    }

    /// Forgets what is older than the operator wants it kept; says how many tasks.
    pub(super) async fn prune(&self) -> Result<u64, super::Error> {
        let keep = i64::try_from(self.config.keep_tasks.as_millis()).unwrap_or(i64::MAX);
        let ended_before = now_ms().saturating_sub(keep);
        let prune = Write::Prune { ended_before, events_per_task: self.config.keep_events };
        Ok(self.commit(vec![prune]).await?.pruned_tasks)
    }
}

impl Bridge {
    /// Forgets now what would be forgotten soon; says how many tasks.
    pub async fn forget_old(&self) -> Result<u64, super::Error> {
        self.inner.prune().await
    }
}
