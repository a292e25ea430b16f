//! Bodies that are written while they are read: JSON lines, and server-sent events with a resume point.
//!
//! A reader that does not read holds at most what waits for it here. One of server-sent events that stalls is let go:
//! what waits is thrown away but for an event `dropped` that names the last id it took. It comes back with that and misses
//! nothing.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use serde::Serialize;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::timeout;
use tracing::info;

/// Pieces that wait for a slow reader.
const PIECES: usize = 64;
/// What they may weigh together.
const BYTES: usize = 1024 * 1024;
/// How long a reader of server-sent events may take no piece while the pipe is full.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// How often a quiet stream shows that it is there; proxies cut quiet ones after a minute.
const SIGN_OF_LIFE_EVERY: Duration = Duration::from_secs(15);
/// A line that readers of server-sent events skip.
const SIGN_OF_LIFE: &[u8] = b":\n\n";
/// How long a browser waits before it comes back.
const COME_BACK: &[u8] = b"retry: 1000\n\n";
/// Proxies that buffer would hold events back (nginx).
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// How the pieces are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One JSON object a line.
    Lines,
    /// Server-sent events.
    Events,
}

impl Shape {
    /// As the caller wants it.
    pub fn wanted(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
        let is_event_stream = |accept: &str| accept.contains("text/event-stream");
        if accepted.into_iter().any(is_event_stream) { Self::Events } else { Self::Lines }
    }

    /// One piece.
    pub fn piece(self, id: Option<i64>, name: &str, told: &impl Serialize) -> Bytes {
        let json = serde_json::to_string(told).unwrap_or_default();
        match (self, id) {
            (Self::Lines, _) => format!("{json}\n").into(),
            (Self::Events, Some(id)) => format!("id: {id}\nevent: {name}\ndata: {json}\n\n").into(),
            (Self::Events, None) => format!("event: {name}\ndata: {json}\n\n").into(),
        }
    }
}

/// Where pieces go in.
#[derive(Debug)]
pub struct Outlet {
    shape: Shape,
    queue: Arc<Queue>,
}

/// The reader takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It has gone.
    Left,
    /// It does not read.
    Stalled,
}

impl Outlet {
    /// Puts a piece in, when there is room.
    pub async fn put(&self, id: Option<i64>, piece: Bytes) -> Result<(), Gone> {
        loop {
            let taken = self.queue.taken.notified();
            match self.queue.offer(id, &piece) {
                Offer::Held => return Ok(()),
                Offer::Left => return Err(Gone::Left),
                Offer::Full => {}
            }
            match self.shape {
                // Who follows a log in a pager may leave it for as long as their connection stands.
                Shape::Lines => taken.await,
                Shape::Events => timeout(STALL_LIMIT, taken).await.map_err(|_| Gone::Stalled)?,
            }
        }
    }

    /// Comes back when the reader has gone.
    pub async fn left(&self) {
        loop {
            let taken = self.queue.taken.notified();
            if self.queue.held().has_left {
                return;
            }
            taken.await;
        }
    }

    /// Throws away all that waits. A stalled reader that reads on at last is told of what it took before.
    pub fn drop_reader(&self) {
        info!("a slow reader of a stream is dropped; it may come back with the number of its last event");
        let mut held = self.queue.held();
        let told =
            json!({ "last_id": held.last_id, "message": "too slow: come back with this as Last-Event-ID" });
        let dropped = self.shape.piece(None, "dropped", &told);
        held.bytes = dropped.len();
        held.pieces = VecDeque::from([(None, dropped)]);
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        self.queue.held().is_whole = true;
        self.queue.put.notify_waiters();
    }
}

/// What waits between the two ends.
#[derive(Debug, Default)]
struct Queue {
    held: Mutex<Held>,
    /// Something was put in, or nothing more will be.
    put: Notify,
    /// Something was taken out, or nothing more will be.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Held {
    pieces: VecDeque<(Option<i64>, Bytes)>,
    bytes: usize,
    /// The last id that the reader has.
    last_id: Option<i64>,
    /// Nothing more will be put in.
    is_whole: bool,
    /// Nothing more will be taken out.
    has_left: bool,
}

/// What became of a piece.
enum Offer {
    Held,
    Full,
    Left,
}

impl Queue {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn offer(&self, id: Option<i64>, piece: &Bytes) -> Offer {
        let mut held = self.held();
        if held.has_left {
            return Offer::Left;
        }
        // One that is larger than all that may wait waits alone.
        let is_room = held.bytes + piece.len() <= BYTES || held.pieces.is_empty();
        if held.pieces.len() >= PIECES || !is_room {
            return Offer::Full;
        }
        held.bytes += piece.len();
        held.pieces.push_back((id, piece.clone()));
        drop(held);
        self.put.notify_waiters();
        Offer::Held
    }

    /// The next piece; none when nothing more will come.
    async fn take(&self) -> Option<Bytes> {
        loop {
            let put = self.put.notified();
            {
                let mut held = self.held();
                if let Some((id, piece)) = held.pieces.pop_front() {
                    held.bytes -= piece.len();
                    held.last_id = id.or(held.last_id);
                    drop(held);
                    self.taken.notify_waiters();
                    return Some(piece);
                }
                if held.is_whole {
                    return None;
                }
            }
            put.await;
        }
    }
}

/// A stream and where it is written, for a reader that has all up to an id.
pub fn pipe(shape: Shape, last_id: Option<i64>) -> (Outlet, Response) {
    let queue = Arc::new(Queue::default());
    queue.held().last_id = last_id;
    let outlet = Outlet { shape, queue: Arc::clone(&queue) };
    let reading = Reading { shape, queue, has_begun: false };
    let body = stream::unfold(reading, |mut reading| async move {
        let piece = reading.next().await?;
        Some((Ok::<_, Infallible>(piece), reading))
    });
    let mut response = Body::from_stream(body).into_response();
    let media_type = match shape {
        Shape::Lines => "application/x-ndjson",
        Shape::Events => "text/event-stream",
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    (outlet, response)
}

/// Where pieces come out.
struct Reading {
    shape: Shape,
    queue: Arc<Queue>,
    has_begun: bool,
}

impl Reading {
    async fn next(&mut self) -> Option<Bytes> {
        if self.shape == Shape::Lines {
            return self.queue.take().await;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Bytes::from_static(COME_BACK));
        }
        let next = timeout(SIGN_OF_LIFE_EVERY, self.queue.take()).await;
        next.unwrap_or(Some(Bytes::from_static(SIGN_OF_LIFE)))
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        let mut held = self.queue.held();
        held.has_left = true;
        held.pieces.clear();
        drop(held);
        self.queue.taken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn rest(response: Response) -> String {
        let whole = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(whole.to_vec()).unwrap()
    }

    #[test]
    fn pieces_look_as_their_readers_expect() {
        let told = json!({ "kind": "state" });
        assert_eq!(Shape::Lines.piece(Some(3), "state", &told), "{\"kind\":\"state\"}\n");
        let expected = "id: 3\nevent: state\ndata: {\"kind\":\"state\"}\n\n";
        assert_eq!(Shape::Events.piece(Some(3), "state", &told), expected);
        assert_eq!(Shape::Events.piece(None, "live", &json!("a\nb")), "event: live\ndata: \"a\\nb\"\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_for_a_reader_that_stalls_is_thrown_away_but_for_a_resume_point() {
        let (outlet, response) = pipe(Shape::Events, Some(7));
        let mut body = response.into_body();
        for id in 8..10 {
            outlet.put(Some(id), Bytes::from(format!("{id} "))).await.unwrap();
        }
        // The time to come back, and the first of the two.
        for expected in ["retry: 1000\n\n", "8 "] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
        }
        for id in 10..10 + 63 {
            outlet.put(Some(id), Bytes::from(format!("{id} "))).await.unwrap();
        }
        assert_eq!(outlet.put(Some(99), Bytes::from_static(b"no")).await, Err(Gone::Stalled));
        outlet.drop_reader();
        assert_eq!(outlet.queue.held().pieces.len(), 1);
        drop(outlet);
        let told = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        assert!(told.starts_with("event: dropped\ndata: {\"last_id\":8,"), "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn large_pieces_are_counted_by_their_weight() {
        let (outlet, response) = pipe(Shape::Events, Some(7));
        let large = Bytes::from(vec![b'x'; BYTES / 2]);
        for id in 8..10 {
            outlet.put(Some(id), large.clone()).await.unwrap();
        }
        assert_eq!(outlet.put(Some(10), Bytes::from_static(b"no")).await, Err(Gone::Stalled));
        outlet.drop_reader();
        drop(outlet);
        assert!(rest(response).await.contains("{\"last_id\":7,"), "it has what it came with");
        // One that is larger than all that may wait is not kept back for ever.
        let (outlet, response) = pipe(Shape::Lines, None);
        outlet.put(None, Bytes::from(vec![b'x'; 2 * BYTES])).await.unwrap();
        drop(outlet);
        assert_eq!(rest(response).await.len(), 2 * BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_shows_that_it_is_there() {
        let (outlet, response) = pipe(Shape::Events, None);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(40)).await;
            outlet.put(None, Bytes::from_static(b"late")).await.unwrap();
        });
        assert_eq!(rest(response).await, "retry: 1000\n\n:\n\n:\n\nlate");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_of_lines_may_take_its_time() {
        let (outlet, response) = pipe(Shape::Lines, None);
        let writer = tokio::spawn(async move {
            for _ in 0..=PIECES {
                outlet.put(None, Bytes::from_static(b"x")).await.unwrap();
            }
        });
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(rest(response).await.len(), PIECES + 1);
        writer.await.unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_has_gone_is_noticed() {
        let (outlet, response) = pipe(Shape::Events, None);
        drop(response);
        outlet.left().await;
        assert_eq!(outlet.put(None, Bytes::new()).await, Err(Gone::Left));
    }
}
