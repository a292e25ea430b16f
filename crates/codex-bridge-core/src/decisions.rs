//! Hands decisions to whoever waits for them. A decision that comes first waits for its asker.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use codex_session::{Decider, Decision, RequestKey};
use tokio::sync::oneshot;

/// Decisions on their way.
#[derive(Default)]
pub(crate) struct Decisions {
    slots: Mutex<HashMap<RequestKey, Slot>>,
}

enum Slot {
    Asked(oneshot::Sender<(Decision, Decider)>),
    Decided(Decision, Decider),
}

impl Decisions {
    fn slots(&self) -> MutexGuard<'_, HashMap<RequestKey, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a decision to its asker, now or when it asks.
    pub(crate) fn put(&self, key: &RequestKey, decision: Decision, by: Decider) {
        let mut slots = self.slots();
        match slots.remove(key) {
            // An asker that has gone needs no answer.
            Some(Slot::Asked(asker)) => drop(asker.send((decision, by))),
            _ => drop(slots.insert(key.clone(), Slot::Decided(decision, by))),
        }
    }

    /// Waits for the decision on a request.
    pub(crate) async fn wait(&self, key: RequestKey) -> (Decision, Decider) {
        let receiver = {
            let mut slots = self.slots();
            if let Some(Slot::Decided(decision, by)) = slots.remove(&key) {
                return (decision, by);
            }
            let (sender, receiver) = oneshot::channel();
            slots.insert(key, Slot::Asked(sender));
            receiver
        };
        // Forgotten: the request was closed, and this future is dropped in a moment.
        receiver.await.unwrap_or((Decision::Decline, Decider::Policy("the request was closed".to_owned())))
    }

    /// Whether a decision waits for its asker.
    pub(crate) fn has(&self, key: &RequestKey) -> bool {
        matches!(self.slots().get(key), Some(Slot::Decided(..)))
    }

    /// The request is closed: nothing is waited for any more.
    pub(crate) fn forget(&self, key: &RequestKey) {
        self.slots().remove(key);
    }
}
