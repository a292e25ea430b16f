//! Giving a task's thread back: another program, such as Codex's own terminal, may open it.
//!
//! codex 0.166 lets one process at a time write to a thread, and one that nobody listens to any more stays loaded for
//! half an hour. Archiving unloads it at once; unarchiving puts it back where others look for it.

use std::time::Duration;

use codex_session::link;
use codex_wire::call::{ThreadArchive, ThreadUnarchive};
use codex_wire::host::Host;
use codex_wire::{Epoch, ThreadId};

use super::{Bridge, Error, TaskView};

/// How long each call may take.
const CALL_LIMIT: Duration = Duration::from_secs(10);

impl Bridge {
    /// Frees the thread of a task at rest. The task stays, and opens its thread again when it is continued.
    pub async fn release(&self, id: &str) -> Result<TaskView, Error> {
        let id = id.to_owned();
        self.to_its_end(|bridge| async move { bridge.let_go_of(&id).await }).await
    }

    async fn let_go_of(&self, id: &str) -> Result<TaskView, Error> {
        let inner = &self.inner;
        let changing = inner.changing.lock().await;
        let task = self.find(id).await?;
        let wrong = |message| Error::WrongState { task_id: task.id.clone(), status: task.status, message };
        if !task.status.is_at_rest() {
            return Err(wrong("it is still under way; wait for its end, or interrupt it"));
        }
        let thread_id = task.thread_id.clone().ok_or_else(|| wrong("it has no thread"))?;
        let _still = inner.hold_still(&task);
        drop(changing);
        // On a host that has gone nothing holds it.
        if let Some(host) = self.living_host(task.epoch.as_ref()).await {
            self.unload(host, thread_id).await.map_err(Error::Refused)?;
        }
        self.view(task).await
    }

    async fn living_host(&self, epoch: Option<&Epoch>) -> Option<Host> {
        self.inner.hosts.find(epoch?).await
    }

    async fn unload(&self, host: Host, thread_id: ThreadId) -> Result<(), String> {
        let link = link::connect(host, CALL_LIMIT).await.map_err(|it| it.to_string())?;
        let peer = &link.connection.peer;
        let archive = ThreadArchive { thread_id: thread_id.clone() };
        let archived = peer.call(&archive, CALL_LIMIT).await;
        let put_back = peer.call(&ThreadUnarchive { thread_id }, CALL_LIMIT).await;
        let left = link.leave().await;
        archived.map_err(|error| error.to_string())?;
        put_back.map_err(|error| error.to_string())?;
        left
    }
}
