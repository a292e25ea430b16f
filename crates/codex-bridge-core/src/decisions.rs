//! Hands decisions to whoever waits for them. A decision that comes first waits for its asker.
//!
//! A decision and its asker find each other by the name of the request and by its digest: a decision never reaches
//! another request that has the same name.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use codex_session::{Decider, Decision, RequestKey};
use tokio::sync::oneshot;

/// Decisions on their way.
#[derive(Default)]
pub(crate) struct Decisions {
    slots: Mutex<HashMap<Asked, Slot>>,
}

/// Names what was asked: which request, and its digest.
type Asked = (RequestKey, String);

enum Slot {
    Asked(oneshot::Sender<(Decision, Decider)>),
    Decided(Decision, Decider),
    /// Its asker has it.
    Given,
}

impl Decisions {
    fn slots(&self) -> MutexGuard<'_, HashMap<Asked, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives a decision to its asker, now or when it asks.
    pub(crate) fn put(&self, key: &RequestKey, digest: &str, decision: Decision, by: Decider) {
        let mut slots = self.slots();
        let name = (key.clone(), digest.to_owned());
        let kept = match slots.remove(&name) {
            Some(Slot::Asked(asker)) => asker.send((decision, by)),
            _ => Err((decision, by)),
        };
        // For whoever asks next, if the one that asked has gone.
        let slot = kept.map_or_else(|(decision, by)| Slot::Decided(decision, by), |()| Slot::Given);
        slots.insert(name, slot);
    }

    /// Waits for the decision on a request.
    pub(crate) async fn wait(&self, key: RequestKey, digest: String) -> (Decision, Decider) {
        let receiver = {
            let mut slots = self.slots();
            let asked = (key, digest);
            if let Some(Slot::Decided(decision, by)) = slots.remove(&asked) {
                slots.insert(asked, Slot::Given);
                return (decision, by);
            }
            let (sender, receiver) = oneshot::channel();
            slots.insert(asked, Slot::Asked(sender));
            receiver
        };
        // Forgotten: the request was closed, and this future is dropped in a moment.
        receiver.await.unwrap_or((Decision::Decline, Decider::Policy("the request was closed".to_owned())))
    }

    /// Whether a decision waits for its asker, or was given to it.
    pub(crate) fn has(&self, key: &RequestKey, digest: &str) -> bool {
        let slots = self.slots();
        matches!(slots.get(&(key.clone(), digest.to_owned())), Some(Slot::Decided(..) | Slot::Given))
    }

    /// Whoever asked is gone, with what it was given.
    pub(crate) fn asker_left(&self, key: &RequestKey) {
        self.slots().retain(|(of, _), slot| of != key || matches!(slot, Slot::Decided(..)));
    }

    /// The request is closed: nothing is waited for any more.
    pub(crate) fn forget(&self, key: &RequestKey) {
        self.slots().retain(|(of, _), _| of != key);
    }
}

#[cfg(test)]
mod tests {
    use codex_wire::{Epoch, RequestId};
    use futures_util::FutureExt;

    use super::*;

    fn ada() -> Decider {
        Decider::Person("ada".to_owned())
    }

    fn decided() -> (Decisions, RequestKey) {
        (Decisions::default(), RequestKey { epoch: Epoch("e".to_owned()), id: RequestId::Number(0) })
    }

    #[test]
    fn a_decision_is_had_until_its_request_is_closed_whoever_came_first() {
        let (decisions, key) = decided();
        decisions.put(&key, "d", Decision::Accept, ada());
        assert!(decisions.has(&key, "d"));
        assert_eq!(
            decisions.wait(key.clone(), "d".to_owned()).now_or_never(),
            Some((Decision::Accept, ada()))
        );
        assert!(decisions.has(&key, "d"), "it is with its asker");
        decisions.forget(&key);
        let mut asker = Box::pin(decisions.wait(key.clone(), "d".to_owned()));
        assert_eq!(asker.as_mut().now_or_never(), None);
        assert!(!decisions.has(&key, "d"));
        decisions.put(&key, "d", Decision::Decline, ada());
        assert!(decisions.has(&key, "d"));
        assert_eq!(asker.now_or_never(), Some((Decision::Decline, ada())));
    }

    #[test]
    fn what_an_asker_that_left_was_given_is_gone_with_it_and_nothing_else() {
        let (decisions, key) = decided();
        assert_eq!(decisions.wait(key.clone(), "d".to_owned()).now_or_never(), None);
        decisions.put(&key, "d", Decision::Accept, ada());
        decisions.asker_left(&key);
        assert_eq!(
            decisions.wait(key.clone(), "d".to_owned()).now_or_never(),
            Some((Decision::Accept, ada()))
        );
        decisions.asker_left(&key);
        assert!(!decisions.has(&key, "d"));
    }

    #[test]
    fn a_decision_does_not_reach_another_request_of_the_same_name() {
        let (decisions, key) = decided();
        decisions.put(&key, "what was shown", Decision::Accept, ada());
        assert_eq!(decisions.wait(key.clone(), "something else".to_owned()).now_or_never(), None);
        let asker = decisions.wait(key.clone(), "what was shown".to_owned());
        assert_eq!(asker.now_or_never(), Some((Decision::Accept, ada())));
        decisions.forget(&key);
        assert!(!decisions.has(&key, "what was shown"));
    }
}
