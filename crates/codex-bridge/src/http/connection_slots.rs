//! Limits for the connections of one listener, and for the concurrent calls of one caller.
//!
//! A connection is idle while no authenticated caller is being answered on it. If there are too many idle connections,
//! the one that has been idle longest is closed. So a client that opens many connections without sending a valid request
//! cannot keep others out.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use http_body_util::BodyExt;
use tokio::sync::Notify;

use super::Caller;
use crate::failure::{Code, Failure};

/// The limit for concurrent calls of one caller, open streams included. A page has one stream, an MCP session another.
const MAX_CALLS: usize = 128;

/// The connections of one listener.
#[derive(Debug)]
pub struct ConnectionSlots {
    max_idle: usize,
    idle: Mutex<Idle>,
}

/// The idle connections. Positions only grow, so the first one has been idle longest.
#[derive(Debug, Default)]
struct Idle {
    last_position: u64,
    evictions: BTreeMap<u64, Arc<Notify>>,
}

impl ConnectionSlots {
    /// Slots for any number of active connections, and for `max_idle` idle ones.
    pub fn new(max_idle: usize) -> Arc<Self> {
        Arc::new(Self { max_idle, idle: Mutex::default() })
    }

    /// A slot for a new connection.
    pub fn take(self: &Arc<Self>) -> Arc<ConnectionSlot> {
        let slot =
            ConnectionSlot { slots: Arc::clone(self), eviction: Arc::default(), position: Mutex::default() };
        slot.become_idle();
        Arc::new(slot)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub struct ConnectionSlot {
    slots: Arc<ConnectionSlots>,
    eviction: Arc<Notify>,
    /// The position among the idle connections. `None` while a caller is being answered.
    position: Mutex<Option<u64>>,
}

impl ConnectionSlot {
    /// Returns when the connection must be closed to make room for others.
    pub async fn evicted(&self) {
        self.eviction.notified().await;
    }

    fn become_idle(&self) {
        let mut idle = self.slots.idle();
        idle.last_position += 1;
        let position = idle.last_position;
        idle.evictions.insert(position, Arc::clone(&self.eviction));
        if idle.evictions.len() > self.slots.max_idle
            && let Some((_, longest)) = idle.evictions.pop_first()
        {
            longest.notify_one();
        }
        drop(idle);
        self.set_position(Some(position));
    }

    fn set_position(&self, position: Option<u64>) {
        let before =
            std::mem::replace(&mut *self.position.lock().unwrap_or_else(PoisonError::into_inner), position);
        if let Some(before) = before {
            self.slots.idle().evictions.remove(&before);
        }
    }
}

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.set_position(None);
    }
}

/// A call that is being answered. Its connection is not evicted.
#[derive(Debug)]
pub struct ActiveCall {
    slot: Option<Arc<ConnectionSlot>>,
    _permit: Option<CallPermit>,
}

impl ActiveCall {
    fn new(slot: Option<Arc<ConnectionSlot>>, permit: Option<CallPermit>) -> Self {
        if let Some(slot) = &slot {
            slot.set_position(None);
        }
        Self { slot, _permit: permit }
    }

    /// Keeps the call active until the whole body of the response has been sent.
    pub fn until_sent(self, response: Response) -> Response {
        response.map(|body| {
            // The body owns the call with this closure, and drops it when it has been sent.
            Body::new(body.map_err(move |error| {
                let _active_call = &self;
                error
            }))
        })
    }
}

impl Drop for ActiveCall {
    fn drop(&mut self) {
        if let Some(slot) = &self.slot {
            slot.become_idle();
        }
    }
}

/// The number of active calls of each caller. The limit keeps one caller from using up what all callers share.
#[derive(Debug, Default)]
pub struct CallLimits(Mutex<HashMap<String, usize>>);

/// One active call of a caller.
#[derive(Debug)]
pub struct CallPermit {
    limits: Arc<CallLimits>,
    caller: String,
}

impl CallLimits {
    /// Begins a call. Fails if the caller has too many active calls; local callers have no limit.
    pub fn begin(self: &Arc<Self>, caller: &Caller, request: &Request) -> Result<ActiveCall, Failure> {
        let permit = if caller.is_local() { None } else { Some(self.take(&caller.name)?) };
        Ok(ActiveCall::new(request.extensions().get().cloned(), permit))
    }

    fn take(self: &Arc<Self>, caller: &str) -> Result<CallPermit, Failure> {
        let mut calls = self.calls();
        let count = calls.entry(caller.to_owned()).or_default();
        if *count >= MAX_CALLS {
            let message = format!("{caller} already has {MAX_CALLS} open calls and streams");
            return Err(Failure::new(Code::TooManyCalls, message).hint("close some of them"));
        }
        *count += 1;
        drop(calls);
        Ok(CallPermit { limits: Arc::clone(self), caller: caller.to_owned() })
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut calls = self.limits.calls();
        match calls.get_mut(&self.caller) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(calls.remove(&self.caller)),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.evicted().now_or_never().is_some()
    }

    #[test]
    fn the_connection_that_was_idle_longest_is_evicted_first() {
        let slots = ConnectionSlots::new(2);
        let [first, second, third] = [slots.take(), slots.take(), slots.take()];
        assert_eq!([&first, &second, &third].map(|slot| is_evicted(slot)), [true, false, false]);
        drop(first);
        assert_eq!(slots.idle().evictions.len(), 2, "an evicted connection is not counted twice");
        let active_call = ActiveCall::new(Some(Arc::clone(&second)), None);
        let others = [slots.take(), slots.take(), slots.take()];
        assert!(is_evicted(&third) && !is_evicted(&second), "an active connection is not evicted");
        drop(active_call);
        assert!(is_evicted(&others[1]), "a call that has ended is the newest idle connection");
        drop((second, third, others));
        assert!(slots.idle().evictions.is_empty());
    }

    #[test]
    fn each_caller_has_its_own_limit() {
        let limits = Arc::<CallLimits>::default();
        let taken: Vec<_> = (0..MAX_CALLS).map(|_| limits.take("token phone").unwrap()).collect();
        assert_eq!(limits.take("token phone").unwrap_err().code, Code::TooManyCalls);
        let other = limits.take("token laptop").unwrap();
        drop((taken, other));
        limits.take("token phone").unwrap();
        assert!(limits.calls().is_empty());
    }

    #[tokio::test]
    async fn a_call_is_active_until_its_body_has_been_sent() {
        let (slots, limits) = (ConnectionSlots::new(1), Arc::<CallLimits>::default());
        let slot = slots.take();
        let active_call = ActiveCall::new(Some(Arc::clone(&slot)), limits.take("token phone").ok());
        let response = active_call.until_sent(Response::new(Body::from("whole")));
        assert_eq!(hyper::body::Body::size_hint(response.body()).exact(), Some(5), "with its length");
        assert!(slots.idle().evictions.is_empty() && !limits.calls().is_empty());
        drop(response);
        assert!(!slots.idle().evictions.is_empty() && limits.calls().is_empty());
    }
}
