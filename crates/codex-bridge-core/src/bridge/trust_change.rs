//! Applies the operator's trust levels to new and existing tasks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex_session::Sandbox;

use super::{Bridge, Error};
use crate::store::TaskFilter;
use crate::task::{Task, TaskId, TimeMs};
use crate::trust::{Trust, TrustedRoots};

/// codex 0.166 unloads a thread half an hour after its last listener has left.
const MAY_BE_LOADED_MS: TimeMs = 60 * 60 * 1000;

impl Bridge {
    /// Records a new trust level in the audit log, before it is applied.
    pub async fn note_trust(&self, by: &str, detail: &str) -> Result<(), Error> {
        let note = self.inner.audit(by, "trust", None, detail);
        self.to_completion(|bridge| async move { Ok(bridge.inner.commit(vec![note]).await?) }).await
    }

    /// Replaces all trust levels; paths are real paths. Every turn that begins from now on uses the new levels. Unloads
    /// the threads of finished tasks whose directory is no longer trusted, together with that directory's MCP servers.
    /// Also unloads threads whose commands may still run and write in a directory that is trusted now.
    ///
    /// Returns the tasks that keep the old level until their turn ends.
    pub async fn decide_trust(&self, roots: BTreeMap<PathBuf, Trust>) -> Result<Vec<TaskId>, Error> {
        self.to_completion(|bridge| async move { bridge.apply_trust(roots).await }).await
    }

    async fn apply_trust(&self, roots: BTreeMap<PathBuf, Trust>) -> Result<Vec<TaskId>, Error> {
        let config = &self.inner.config;
        let old = TrustedRoots::default();
        old.replace(config.trusted_roots.all());
        // First of all, so that every turn uses the new levels that is not yet among the running ones.
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

    /// Whether the operator trusts this very directory.
    pub(crate) fn is_trusted_root(&self, dir: &Path) -> bool {
        self.inner.config.trusted_roots.all().get(dir) == Some(&Trust::Trusted)
    }

    /// The running tasks whose commands may write in a directory. They could change it before it is trusted.
    pub(crate) async fn writers_in(&self, root: &Path) -> Result<Vec<TaskId>, Error> {
        let tasks = self.inner.store.tasks(&TaskFilter::default()).await?;
        let writes = |task: &Task| task.status.is_running() && self.may_write_in(task, root);
        Ok(tasks.into_iter().filter(writes).map(|task| task.id).collect())
    }

    /// Whether the sandbox of a task lets commands write somewhere in a directory. Ignores that a trusted directory is
    /// read-only for the tasks of directories above it.
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
    task.status.is_finished()
        && task.thread_id.is_some()
        && task.epoch.is_some()
        && now.saturating_sub(task.updated_at) < MAY_BE_LOADED_MS
}
