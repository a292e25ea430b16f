//! The connections of one door. One on which a caller is being answered is theirs for as long as that takes; all others
//! have nobody's word for them, and when there are too many of these, the one that was so for longest is closed.
//!
//! So nobody who only connects keeps others out, however often they do it: whoever sends a good request meanwhile is
//! answered.

use std::collections::{BTreeMap, HashMap};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Frame, SizeHint};
use tokio::sync::Notify;

use super::Caller;
use crate::failure::{Code, Failure};

/// Calls of one caller that are answered at once, streams among them. A page has one, an MCP session another.
const CALLS_EACH: usize = 128;

/// The connections of one door.
#[derive(Debug)]
pub struct Seats {
    most_idle: usize,
    idle: Mutex<Idle>,
}

/// Those on which nobody is being answered, the one that is so for longest first.
#[derive(Debug, Default)]
struct Idle {
    last: u64,
    seats: BTreeMap<u64, Arc<Notify>>,
}

impl Seats {
    /// Of which so many may have nobody's word for them.
    pub fn new(most_idle: usize) -> Arc<Self> {
        Arc::new(Self { most_idle, idle: Mutex::default() })
    }

    /// A seat for one that has just come.
    pub fn take(self: &Arc<Self>) -> Arc<Seat> {
        let seat = Seat { seats: Arc::clone(self), leave: Arc::default(), place: Mutex::default() };
        seat.be_idle();
        Arc::new(seat)
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    leave: Arc<Notify>,
    /// Where it stands among the idle ones, if it does.
    place: Mutex<Option<u64>>,
}

impl Seat {
    /// Comes back when the connection is to be closed for others.
    pub async fn given_away(&self) {
        self.leave.notified().await;
    }

    fn be_idle(&self) {
        let mut idle = self.seats.idle();
        idle.last += 1;
        let place = idle.last;
        idle.seats.insert(place, Arc::clone(&self.leave));
        if idle.seats.len() > self.seats.most_idle
            && let Some((_, longest)) = idle.seats.pop_first()
        {
            longest.notify_one();
        }
        drop(idle);
        self.stand_at(Some(place));
    }

    /// Stands somewhere else from now on, or, with none, is out of the others' way.
    fn stand_at(&self, place: Option<u64>) {
        let before =
            std::mem::replace(&mut *self.place.lock().unwrap_or_else(PoisonError::into_inner), place);
        if let Some(before) = before {
            self.seats.idle().seats.remove(&before);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.stand_at(None);
    }
}

/// A caller who is being answered. Their connection is not closed for others meanwhile.
#[derive(Debug)]
pub struct Answering {
    seat: Option<Arc<Seat>>,
    _share: Option<Share>,
}

impl Answering {
    /// On this seat, if there is one.
    fn new(seat: Option<Arc<Seat>>, share: Option<Share>) -> Self {
        if let Some(seat) = &seat {
            seat.stand_at(None);
        }
        Self { seat, _share: share }
    }

    /// The same answer, which goes on until its body has gone out.
    pub fn until_told(self, response: Response) -> Response {
        response.map(|body| Body::new(Told { body, _answering: self }))
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        if let Some(seat) = &self.seat {
            seat.be_idle();
        }
    }
}

/// A body, and that somebody is being answered with it.
struct Told {
    body: Body,
    _answering: Answering,
}

impl hyper::body::Body for Told {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How many calls of each caller are being answered, so that none of them can use up what is there for all.
#[derive(Debug, Default)]
pub struct Shares(Mutex<HashMap<String, usize>>);

/// One call among those of its caller.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    caller: String,
}

impl Shares {
    /// That this caller is being answered, unless they have too many calls open. The owner of the machine's account may
    /// have any number.
    pub fn answering(self: &Arc<Self>, caller: &Caller, request: &Request) -> Result<Answering, Failure> {
        let share = if caller.is_local() { None } else { Some(self.take(&caller.name)?) };
        Ok(Answering::new(request.extensions().get().cloned(), share))
    }

    fn take(self: &Arc<Self>, caller: &str) -> Result<Share, Failure> {
        let mut calls = self.calls();
        let count = calls.entry(caller.to_owned()).or_default();
        if *count >= CALLS_EACH {
            let message = format!("{caller} has {CALLS_EACH} calls and streams open already");
            return Err(Failure::new(Code::TooManyCalls, message).hint("close some of them"));
        }
        *count += 1;
        drop(calls);
        Ok(Share { shares: Arc::clone(self), caller: caller.to_owned() })
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut calls = self.shares.calls();
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

    fn is_given_away(seat: &Seat) -> bool {
        seat.given_away().now_or_never().is_some()
    }

    #[test]
    fn the_one_that_was_idle_for_longest_goes_first() {
        let seats = Seats::new(2);
        let [first, second, third] = [seats.take(), seats.take(), seats.take()];
        assert_eq!([&first, &second, &third].map(|seat| is_given_away(seat)), [true, false, false]);
        drop(first);
        assert_eq!(seats.idle().seats.len(), 2, "it is not counted twice");
        let answering = Answering::new(Some(Arc::clone(&second)), None);
        let others = [seats.take(), seats.take(), seats.take()];
        assert!(is_given_away(&third) && !is_given_away(&second), "whoever is answered stays");
        drop(answering);
        assert!(is_given_away(&others[1]), "and is the last of the idle ones then");
        drop((second, third, others));
        assert!(seats.idle().seats.is_empty());
    }

    #[test]
    fn each_caller_has_a_share() {
        let shares = Arc::<Shares>::default();
        let taken: Vec<_> = (0..CALLS_EACH).map(|_| shares.take("token phone").unwrap()).collect();
        assert_eq!(shares.take("token phone").unwrap_err().code, Code::TooManyCalls);
        let other = shares.take("token laptop").unwrap();
        drop((taken, other));
        shares.take("token phone").unwrap();
        assert!(shares.calls().is_empty());
    }

    #[tokio::test]
    async fn an_answer_lasts_until_its_body_has_gone_out() {
        let (seats, shares) = (Seats::new(1), Arc::<Shares>::default());
        let seat = seats.take();
        let answering = Answering::new(Some(Arc::clone(&seat)), shares.take("token phone").ok());
        let response = answering.until_told(Response::new(Body::from("whole")));
        assert_eq!(hyper::body::Body::size_hint(response.body()).exact(), Some(5), "with its length");
        assert!(seats.idle().seats.is_empty() && !shares.calls().is_empty());
        drop(response);
        assert!(!seats.idle().seats.is_empty() && shares.calls().is_empty());
    }
}
