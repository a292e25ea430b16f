//! Forks a task: the branch is a new task whose thread knows the whole history. Branch and first turn are one change.

use codex_session::{Failure, Session, SessionStatus};
use codex_wire::ThreadId;

use super::handover::OpensTask;
use super::runner::session_setup;
use super::turn_rows::QueuedBy;
use super::{Author, Bridge, Error, Inner, NOT_FINISHED, TaskView, state_event};
use crate::store::Write;
use crate::task::{Notification, Status, Task, TaskId, Used};

/// How a branch begins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NewBranch {
    /// The first prompt of the branch. Without one, the branch is paused until someone continues it.
    pub prompt: Option<String>,
    /// The caller's name for the request. The same name on the same trunk gives the same branch.
    pub client_request_id: Option<String>,
    /// Who forks the task.
    pub by: Author,
}

impl Bridge {
    /// Forks a finished task. The trunk stays as it is.
    pub async fn fork(&self, id: &str, new: NewBranch) -> Result<TaskView, Error> {
        let id = id.to_owned();
        self.to_completion(|bridge| async move { bridge.branch(&id, &new).await }).await
    }

    async fn branch(&self, id: &str, new: &NewBranch) -> Result<TaskView, Error> {
        let inner = &self.inner;
        self.check_name(new.client_request_id.as_deref())?;
        new.prompt.as_deref().map_or(Ok(()), |prompt| inner.check_prompt(prompt))?;
        let changing = inner.changing.lock().await;
        let trunk = self.find(id).await?;
        let name = new.client_request_id.as_ref().map(|name| name_of_branch(name, &trunk.id));
        if let Some(branch) = self.branched_by(name.as_ref(), new).await? {
            return self.view(branch).await;
        }
        if !trunk.status.is_finished() {
            return Err(Error::wrong_state(&trunk, NOT_FINISHED));
        }
        let no_thread = || Error::wrong_state(&trunk, "it has no thread that could be branched");
        let thread_id = trunk.thread_id.clone().ok_or_else(no_thread)?;
        let texts = [new.prompt.as_deref(), trunk.settings.developer_instructions.as_deref()];
        let opens = if new.prompt.is_some() { OpensTask::Yes } else { OpensTask::No };
        inner.check_quota(&new.by, opens, &texts).await?;
        let _still = inner.hold_turns(&trunk);
        drop(changing);
        let standing =
            self.forked(&trunk, thread_id).await.map_err(|failure| Error::Refused(failure.to_string()))?;
        let _changing = inner.changing.lock().await;
        // Another call may have made the same branch in the meantime. The unused thread does no harm.
        if let Some(branch) = self.branched_by(name.as_ref(), new).await? {
            return self.view(branch).await;
        }
        inner.check_quota(&new.by, opens, &texts).await?;
        let branch = self.add_branch(self.inner.branch_of(trunk.clone(), standing, name), new).await?;
        self.view(branch).await
    }

    /// The branch of this name, if it exists and had the same first prompt.
    async fn branched_by(&self, name: Option<&String>, new: &NewBranch) -> Result<Option<Task>, Error> {
        let Some(branch) = self.started_by(name).await? else { return Ok(None) };
        let began_alike = self.inner.began_with(&branch, new.prompt.as_deref()).await?;
        if began_alike { Ok(Some(branch)) } else { Err(Error::KeyReused(branch.id)) }
    }

    /// Stores a branch, with its first turn if there is a prompt.
    async fn add_branch(&self, mut branch: Task, new: &NewBranch) -> Result<Task, Error> {
        let inner = &self.inner;
        let (prompt, now) = (new.prompt.as_deref(), branch.created_at);
        branch.token.clone_from(&new.by.token);
        branch.settings.turn_given_by = new.by.kind;
        let from = branch.reason.clone().unwrap_or_default();
        let mut batch = vec![
            Write::AddTask(Box::new(branch.clone())),
            state_event(&branch, now),
            self.inner.audit(&new.by.name, "fork", Some(&branch.id), &from),
        ];
        if let Some(prompt) = prompt {
            // A branch starts with its trunk's usage. A caller who gives a prompt wants it to run in spite of limits.
            branch.waive_reached_limits();
            batch.extend(inner.another_turn(&mut branch, prompt, QueuedBy::Caller, now)?);
        }
        let texts = [prompt, branch.settings.developer_instructions.as_deref()];
        batch.extend(Inner::counted(&new.by, &branch.id, &texts));
        inner.commit(batch).await?;
        if prompt.is_some() {
            inner.enqueue(&branch);
            inner.begin_next();
        }
        Ok(branch)
    }

    /// Opens the trunk's thread, forks it, and closes both.
    async fn forked(&self, trunk: &Task, thread_id: ThreadId) -> Result<SessionStatus, Failure> {
        let inner = &self.inner;
        let trust = inner.config.trust_of(&trunk.settings);
        let config = session_setup(&inner.config, &trunk.settings, trust)?.session;
        let dial = inner.hosts.dial(trunk);
        let session = Session::resume(config, dial, None, thread_id).await?;
        let branch = session.fork().await;
        session.close().await;
        let branch = branch?;
        let standing = branch.status().await;
        branch.close().await;
        Ok(standing)
    }
}

impl Inner {
    /// A branch without a turn.
    fn branch_of(&self, trunk: Task, standing: SessionStatus, client_request_id: Option<String>) -> Task {
        let now = self.now();
        Task {
            id: self.new_task_id(),
            client_request_id,
            status: Status::Paused,
            reason: Some(format!("branched from {}; continue it with a prompt", trunk.id.short())),
            parked: None,
            used: Used::default(),
            thread_id: standing.thread_id,
            turn_id: None,
            epoch: standing.epoch,
            host: standing.host,
            final_text: None,
            error: None,
            notify_target: None,
            asks_in: None,
            notification: Notification::default(),
            created_at: now,
            updated_at: now,
            completed_at: None,
            ..trunk
        }
    }
}

/// The stored name of a branch. It includes the trunk: the same name on another trunk is distinct.
fn name_of_branch(name: &str, trunk: &TaskId) -> String {
    format!("{name} (branch of {trunk})")
}
