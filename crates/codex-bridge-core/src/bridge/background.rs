//! Work in the background: changes that complete although their caller is gone, and loops that end with the bridge.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::{Bridge, Error, Inner};
use crate::task::{Task, TaskId};

/// How long changes may take when the bridge closes. The next bridge finds an unfinished change, as after a crash.
const LAST_CHANGES: Duration = Duration::from_secs(5);

impl Bridge {
    /// Runs a change to completion, even if its caller goes away. Every change of the bridge uses this. Reads and waits
    /// do not, and can be dropped at any point.
    ///
    /// An HTTP server drops a handler's future when its client hangs up. The store still applies what it was given.
    /// Were the change part of that future, the steps after the commit would be lost: queueing a task, giving a
    /// decision to Codex, forgetting a token.
    pub(crate) async fn to_completion<T, Change>(
        &self,
        change: impl FnOnce(Self) -> Change + Send,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        Change: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (reply, outcome) = oneshot::channel();
        // Boxed, so that the steps below are compiled once for each type of outcome and not for each change.
        let change: BoxFuture<'static, _> = Box::pin(change(self.clone()));
        self.inner.changes.spawn(async move {
            // The caller may be gone.
            reply.send(change.await).ok();
        });
        outcome.await.unwrap_or(Err(Error::CutOff))
    }
}

impl Inner {
    /// Keeps a finished task from beginning another turn until the returned guard is dropped. The task can be queued,
    /// and waits. For slow work on the task's thread, so that [`Inner::changing`] is held only for this call.
    pub(super) fn hold_turns(self: &Arc<Self>, task: &Task) -> TurnHold {
        self.queue().admit(self.ticket(task));
        TurnHold { inner: Arc::clone(self), task_id: task.id.clone() }
    }
}

/// Keeps a task from beginning a turn, until dropped.
pub(super) struct TurnHold {
    inner: Arc<Inner>,
    task_id: TaskId,
}

impl Drop for TurnHold {
    fn drop(&mut self) {
        self.inner.queue().finish(&self.task_id);
        self.inner.begin_next();
    }
}

/// Futures that run beside their callers and end with the bridge.
#[derive(Debug)]
pub(super) struct BackgroundWork {
    /// `None` once the bridge is closed: nothing can be spawned then.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Default for BackgroundWork {
    fn default() -> Self {
        Self { running: Mutex::new(Some(JoinSet::new())) }
    }
}

impl BackgroundWork {
    fn running(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(running) = self.running().as_mut() {
            // Collects futures that have ended, so that the set does not grow.
            while let Some(ended) = running.try_join_next() {
                if let Err(error) = ended {
                    error!(%error, "background work of the bridge panicked");
                }
            }
            let work: BoxFuture<'static, ()> = Box::pin(work);
            running.spawn(work);
        }
    }

    /// Stops spawning, and aborts what runs.
    pub(super) async fn abort_all(&self) {
        let running = self.running().take();
        if let Some(mut running) = running {
            running.shutdown().await;
        }
    }

    /// Stops spawning, and waits for what runs, up to a limit.
    pub(super) async fn finish(&self) {
        let running = self.running().take();
        if let Some(mut running) = running {
            let ended = async { while running.join_next().await.is_some() {} };
            if tokio::time::timeout(LAST_CHANGES, ended).await.is_err() {
                warn!(
                    "the daemon ends before all changes are complete; the next daemon finds what they left"
                );
            }
            running.shutdown().await;
        }
    }
}
