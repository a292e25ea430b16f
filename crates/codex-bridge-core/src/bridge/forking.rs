//! Branching a task: a task of its own whose thread knows everything up to now.

use codex_session::{Failure, Session, Standing};
use codex_wire::ThreadId;

use super::turning::new_task_id;
use super::{Bridge, Error, TaskView, now_ms, state_event};
use crate::runner::session_config;
use crate::store::Write;
use crate::task::{Notification, Status, Task, Used};

impl Bridge {
    /// Branches a task at rest. The branch is paused until someone continues it; the trunk stays as it is.
    pub async fn fork(&self, id: &str) -> Result<TaskView, Error> {
        let id = id.to_owned();
        self.to_its_end(|bridge| async move { bridge.branch(&id).await }).await
    }

    async fn branch(&self, id: &str) -> Result<TaskView, Error> {
        let inner = &self.inner;
        let changing = inner.changing.lock().await;
        let trunk = self.find(id).await?;
        let wrong = |message| Error::WrongState { task_id: trunk.id.clone(), status: trunk.status, message };
        if !trunk.status.is_at_rest() {
            return Err(wrong("it is still under way; wait for its end, or interrupt it"));
        }
        let thread_id =
            trunk.thread_id.clone().ok_or_else(|| wrong("it never had a thread that could be branched"))?;
        let _still = inner.hold_still(&trunk);
        drop(changing);
        let standing =
            self.forked(&trunk, thread_id).await.map_err(|failure| Error::Refused(failure.to_string()))?;
        let now = now_ms();
        let branch = Task {
            id: new_task_id(),
            client_request_id: None,
            status: Status::Paused,
            reason: Some(format!("branched from {}; continue it with a prompt", trunk.id)),
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
        };
        inner.commit(vec![Write::AddTask(Box::new(branch.clone())), state_event(&branch, now)]).await?;
        self.view(branch).await
    }

    /// Opens the trunk, branches it, and leaves both.
    async fn forked(&self, trunk: &Task, thread_id: ThreadId) -> Result<Standing, Failure> {
        let inner = &self.inner;
        let config = session_config(&inner.config, &trunk.settings);
        let dial = inner.hosts.dial(trunk);
        let session = Session::resume(config, dial, None, thread_id).await?;
        let branch = session.fork().await;
        session.close().await;
        let branch = branch?;
        let standing = branch.standing().await;
        branch.close().await;
        Ok(standing)
    }
}
