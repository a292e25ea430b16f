//! A decision of the operator's about directories takes effect: for new tasks, and for those that exist.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex_session::Sandbox;

use super::{Bridge, Error};
use crate::store::TaskFilter;
use crate::task::{Task, TaskId, TimeMs};
use crate::trust::{Trust, TrustedRoots};

/// codex 0.166 unloads a thread half an hour after nobody listens to it any more.
const MAY_BE_LOADED_MS: TimeMs = 60 * 60 * 1000;

impl Bridge {
    /// Notes in the audit log what was decided about a directory, before it is done.
    pub async fn note_trust(&self, by: &str, detail: &str) -> Result<(), Error> {
        let note = self.inner.audit(by, "trust", None, detail);
        self.to_its_end(|bridge| async move { Ok(bridge.inner.commit(vec![note]).await?) }).await
    }

    /// Puts these decisions, by real paths, in the place of all others. Every turn that begins from now on goes by them.
    /// Threads at rest that were trusted and no longer are get unloaded, with the MCP servers of their directories; so are
    /// those whose commands may still run and write in a directory that is trusted now.
    ///
    /// Gives the tasks for which the level that held before still counts: until their turn ends.
    pub async fn decide_trust(&self, roots: BTreeMap<PathBuf, Trust>) -> Result<Vec<TaskId>, Error> {
        self.to_its_end(|bridge| async move { bridge.apply_trust(roots).await }).await
    }

    async fn apply_trust(&self, roots: BTreeMap<PathBuf, Trust>) -> Result<Vec<TaskId>, Error> {
        let config = &self.inner.config;
        let old = TrustedRoots::default();
        old.replace(config.trusted_roots.all());
        // First of all: whatever begins from here on goes by them, and what has begun is among those that run.
        config.trusted_roots.replace(roots);
        let was_trusted = |root: &PathBuf| old.all().get(root) == Some(&Trust::Trusted);
        let is_raised = |(root, level): &(PathBuf, Trust)| *level == Trust::Trusted && !was_trusted(root);
        let raised: Vec<_> = config.trusted_roots.all().into_iter().filter(is_raised).collect();
        let mut unchanged = Vec::new();
        for task in &self.inner.store.tasks(&TaskFilter::default()).await? {
            let before = old.level(&task.settings.cwd).unwrap_or(task.settings.trust);
            let is_other = config.trust_of(&task.settings) != before;
            let may_write = raised.iter().any(|(root, _)| self.may_write_in(task, root));
            let is_left = if task.status.is_running() {
                is_other || may_write
            } else {
                ((is_other && before == Trust::Trusted) || may_write)
                    && may_be_loaded(task, self.inner.now())
                    && self.release(task.id.as_str()).await.is_err()
            };
            if is_left {
                unchanged.push(task.id.clone());
            }
        }
        Ok(unchanged)
    }

    /// The tasks under way whose commands may write in a directory: its files could be theirs by the time it is trusted.
    pub async fn writers_in(&self, root: &Path) -> Result<Vec<TaskId>, Error> {
        let tasks = self.inner.store.tasks(&TaskFilter::default()).await?;
        let writes = |task: &Task| task.status.is_running() && self.may_write_in(task, root);
        Ok(tasks.into_iter().filter(writes).map(|task| task.id).collect())
    }

    /// Whether the sandbox of a task lets its commands write somewhere in a directory. One that is trusted already is
    /// read-only for tasks above it.
    fn may_write_in(&self, task: &Task, root: &Path) -> bool {
        let settings = &task.settings;
        let temp = self.inner.config.temp_dir().unwrap_or_else(|| PathBuf::from("/tmp"));
        let mut writable = settings.writable_roots.iter().chain([&settings.cwd, &temp]);
        match settings.sandbox {
            Sandbox::ReadOnly => false,
            Sandbox::WorkspaceWrite => writable.any(|dir| root.starts_with(dir) || dir.starts_with(root)),
            Sandbox::DangerFullAccess => true,
        }
    }
}

fn may_be_loaded(task: &Task, now: TimeMs) -> bool {
    task.status.is_at_rest()
        && task.thread_id.is_some()
        && task.epoch.is_some()
        && now.saturating_sub(task.updated_at) < MAY_BE_LOADED_MS
}
