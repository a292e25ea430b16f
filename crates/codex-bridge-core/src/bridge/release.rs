//! Releases a task's thread, so that another program, such as Codex's own terminal, can open it.
//!
//! codex 0.166 lets one process at a time write to a thread, and keeps an unused thread loaded for half an hour.
//! Archiving unloads the thread at once. Unarchiving makes it visible to others again.

use std::time::Duration;

use codex_wire::call::{ThreadArchive, ThreadUnarchive};

use super::{Bridge, Error, Inner, NOT_FINISHED, TaskView};
use crate::task::Task;

/// The time limit of each call.
const CALL_LIMIT: Duration = Duration::from_secs(10);

impl Bridge {
    /// Releases the thread of a finished task. The task stays, and opens its thread again when it is continued.
    pub async fn release(&self, id: &str) -> Result<TaskView, Error> {
        let id = id.to_owned();
        self.to_completion(|bridge| async move {
            let inner = &bridge.inner;
            let changing = inner.changing.lock().await;
            let task = bridge.find(&id).await?;
            if !task.status.is_finished() {
                return Err(Error::wrong_state(&task, NOT_FINISHED));
            }
            if task.thread_id.is_none() {
                return Err(Error::wrong_state(&task, "it has no thread"));
            }
            let _still = inner.hold_turns(&task);
            drop(changing);
            inner.unload_thread(&task).await.map_err(Error::Refused)?;
            bridge.view(task).await
        })
        .await
    }
}

impl Inner {
    /// Unloads the thread of a task. The caller makes sure that no turn of the task begins.
    pub(crate) async fn unload_thread(&self, task: &Task) -> Result<(), String> {
        let (Some(thread_id), Some(epoch)) = (task.thread_id.clone(), &task.epoch) else { return Ok(()) };
        // A host that is gone has nothing loaded.
        let Some(link) = self.hosts.connect(epoch, CALL_LIMIT).await else { return Ok(()) };
        let link = link.map_err(|error| error.to_string())?;
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
