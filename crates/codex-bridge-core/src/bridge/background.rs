//! How changes are made: each is carried out to its end, whoever still waits for it. And what a bridge has running beside
//! its callers, so that it ends with the bridge.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tracing::{error, warn};

use super::{Bridge, Error, Inner};
use crate::task::{Task, TaskId};

/// How long changes that were begun may take when the bridge closes. What is cut off then is found by the next one, as
/// after a crash.
const LAST_CHANGES: Duration = Duration::from_secs(5);

impl Bridge {
    /// Carries a change out to its end, whether or not anybody still waits for it. Every change of the bridge goes this
    /// way; looking and waiting do not, and can be broken off anywhere.
    ///
    /// The store applies what it was given even if nobody waits for its answer. Were the change a part of its caller's
    /// future, then whatever must follow (lining a task up, giving a decision to Codex, forgetting a token) would never
    /// happen if that future were dropped in between, as an HTTP server does when its client hangs up.
    pub(crate) async fn to_its_end<T, Change>(
        &self,
        change: impl FnOnce(Self) -> Change + Send,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        Change: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let (reply, outcome) = oneshot::channel();
        let change = change(self.clone());
        self.inner.changes.spawn(async move {
            // Nobody need still wait.
            reply.send(change.await).ok();
        });
        outcome.await.unwrap_or(Err(Error::CutOff))
    }
}

impl Inner {
    /// Keeps a task at rest from beginning another turn until what is given back is dropped: it may line up, and waits.
    /// For what takes long and needs its thread, so that nobody else has to wait for that. Called while the task cannot
    /// change.
    pub(super) fn hold_still(self: &Arc<Self>, task: &Task) -> HeldStill {
        self.queue().admit(self.ticket(task));
        HeldStill { inner: Arc::clone(self), task_id: task.id.clone() }
    }
}

/// A task that begins no turn until this is dropped.
pub(super) struct HeldStill {
    inner: Arc<Inner>,
    task_id: TaskId,
}

impl Drop for HeldStill {
    fn drop(&mut self) {
        self.inner.queue().finish(&self.task_id);
        self.inner.begin_next();
    }
}

/// Work that runs beside its callers and ends with the bridge.
#[derive(Debug)]
pub(super) struct Spawned {
    /// None once the bridge is closed: nothing begins then.
    running: Mutex<Option<JoinSet<()>>>,
}

impl Default for Spawned {
    fn default() -> Self {
        Self { running: Mutex::new(Some(JoinSet::new())) }
    }
}

impl Spawned {
    fn running(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        if let Some(running) = self.running().as_mut() {
            // Those that ended are let go, so that the set does not grow.
            while let Some(ended) = running.try_join_next() {
                if let Err(error) = ended {
                    error!(%error, "work of the bridge broke off");
                }
            }
            running.spawn(work);
        }
    }

    /// Begins nothing more, and ends what runs.
    pub(super) async fn abort_all(&self) {
        let running = self.running().take();
        if let Some(mut running) = running {
            running.shutdown().await;
        }
    }

    /// Begins nothing more, and lets what runs come to its end, unless that takes too long.
    pub(super) async fn finish(&self) {
        let running = self.running().take();
        if let Some(mut running) = running {
            let ended = async { while running.join_next().await.is_some() {} };
            if tokio::time::timeout(LAST_CHANGES, ended).await.is_err() {
                warn!("changes are cut off by the end of the daemon; the next one finds what they left");
            }
            running.shutdown().await;
        }
    }
}
