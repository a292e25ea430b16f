//! Streamed responses: JSON lines, or server-sent events with a resume point.
//!
//! The queue of each reader is bounded. A stalled reader of server-sent events is dropped: its queue is replaced by one
//! `dropped` event with the last id that it has read. It can reconnect with that id and misses nothing.

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

/// The limit for queued chunks of one reader.
const MAX_CHUNKS: usize = 64;
/// The limit for the bytes of all queued chunks.
const MAX_BYTES: usize = 1024 * 1024;
/// How long a reader of server-sent events may read nothing while its queue is full.
const STALL_LIMIT: Duration = Duration::from_secs(10);
/// How often a quiet stream sends a keep-alive. Proxies cut quiet connections after a minute.
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(15);
/// A comment, which readers of server-sent events skip.
const KEEP_ALIVE: &[u8] = b":\n\n";
/// Tells a browser to wait one second before it reconnects.
const RETRY: &[u8] = b"retry: 1000\n\n";
/// Tells nginx not to buffer, which would delay events.
const NO_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The format of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// One JSON object a line.
    Lines,
    /// Server-sent events.
    Events,
}

impl Format {
    /// The format that the caller accepts.
    pub fn accepted_by(headers: &HeaderMap) -> Self {
        let accepted = headers.get_all(ACCEPT).iter().filter_map(|accept| accept.to_str().ok());
        let is_event_stream = |accept: &str| accept.contains("text/event-stream");
        if accepted.into_iter().any(is_event_stream) { Self::Events } else { Self::Lines }
    }

    /// Formats one event.
    pub fn chunk(self, id: Option<i64>, name: &str, data: &impl Serialize) -> Bytes {
        let json = serde_json::to_string(data).unwrap_or_default();
        match (self, id) {
            (Self::Lines, _) => format!("{json}\n").into(),
            (Self::Events, Some(id)) => format!("id: {id}\nevent: {name}\ndata: {json}\n\n").into(),
            (Self::Events, None) => format!("event: {name}\ndata: {json}\n\n").into(),
        }
    }
}

/// The writing end of a stream.
#[derive(Debug)]
pub struct Writer {
    format: Format,
    queue: Arc<Queue>,
}

/// Why the reader gets no more chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// The reader has closed the connection.
    Closed,
    /// The reader does not read.
    Stalled,
}

impl Writer {
    /// Queues a chunk. Waits while the queue is full.
    pub async fn send(&self, id: Option<i64>, chunk: Bytes) -> Result<(), Gone> {
        loop {
            let taken = self.queue.taken.notified();
            match self.queue.push(id, &chunk) {
                Push::Queued => return Ok(()),
                Push::Closed => return Err(Gone::Closed),
                Push::Full => {}
            }
            match self.format {
                // A person who reads a log in a pager may pause for any time.
                Format::Lines => taken.await,
                Format::Events => timeout(STALL_LIMIT, taken).await.map_err(|_| Gone::Stalled)?,
            }
        }
    }

    /// Returns when the reader has closed the connection.
    pub async fn closed(&self) {
        loop {
            let taken = self.queue.taken.notified();
            if self.queue.held().is_closed {
                return;
            }
            taken.await;
        }
    }

    /// Drops a stalled reader: replaces its queue by a `dropped` event with the last id that it has read.
    pub fn drop_reader(&self) {
        info!("a slow reader of a stream was dropped; it can resume after its last event");
        let mut held = self.queue.held();
        let message = "the reader was too slow: reconnect with last_id as Last-Event-ID";
        let data = json!({ "last_id": held.last_id, "message": message });
        let dropped = self.format.chunk(None, "dropped", &data);
        held.bytes = dropped.len();
        held.chunks = VecDeque::from([(None, dropped)]);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.held().is_complete = true;
        self.queue.queued.notify_waiters();
    }
}

/// The chunks between the two ends.
#[derive(Debug, Default)]
struct Queue {
    held: Mutex<Held>,
    /// A chunk was queued, or the stream is complete.
    queued: Notify,
    /// A chunk was taken, or the reader has closed the connection.
    taken: Notify,
}

#[derive(Debug, Default)]
struct Held {
    chunks: VecDeque<(Option<i64>, Bytes)>,
    bytes: usize,
    /// The id of the last event that the reader has read.
    last_id: Option<i64>,
    /// No more chunks will be queued.
    is_complete: bool,
    /// The reader has closed the connection.
    is_closed: bool,
}

enum Push {
    Queued,
    Full,
    Closed,
}

impl Queue {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, id: Option<i64>, chunk: &Bytes) -> Push {
        let mut held = self.held();
        if held.is_closed {
            return Push::Closed;
        }
        // A chunk above the limit is accepted into an empty queue.
        let has_room = held.bytes + chunk.len() <= MAX_BYTES || held.chunks.is_empty();
        if held.chunks.len() >= MAX_CHUNKS || !has_room {
            return Push::Full;
        }
        held.bytes += chunk.len();
        held.chunks.push_back((id, chunk.clone()));
        drop(held);
        self.queued.notify_waiters();
        Push::Queued
    }

    /// The next chunk. `None` at the end of the stream.
    async fn take(&self) -> Option<Bytes> {
        loop {
            let queued = self.queued.notified();
            {
                let mut held = self.held();
                if let Some((id, chunk)) = held.chunks.pop_front() {
                    held.bytes -= chunk.len();
                    held.last_id = id.or(held.last_id);
                    drop(held);
                    self.taken.notify_waiters();
                    return Some(chunk);
                }
                if held.is_complete {
                    return None;
                }
            }
            queued.await;
        }
    }
}

/// A stream for a reader that has read everything up to `last_id`: the writing end and the response.
pub fn open(format: Format, last_id: Option<i64>) -> (Writer, Response) {
    let queue = Arc::new(Queue::default());
    queue.held().last_id = last_id;
    let writer = Writer { format, queue: Arc::clone(&queue) };
    let reader = Reader { format, queue, has_begun: false };
    let body = stream::unfold(reader, |mut reader| async move {
        let chunk = reader.next().await?;
        Some((Ok::<_, Infallible>(chunk), reader))
    });
    let mut response = Body::from_stream(body).into_response();
    let media_type = match format {
        Format::Lines => "application/x-ndjson",
        Format::Events => "text/event-stream",
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(NO_BUFFERING, HeaderValue::from_static("no"));
    (writer, response)
}

struct Reader {
    format: Format,
    queue: Arc<Queue>,
    has_begun: bool,
}

impl Reader {
    async fn next(&mut self) -> Option<Bytes> {
        if self.format == Format::Lines {
            return self.queue.take().await;
        }
        if !std::mem::replace(&mut self.has_begun, true) {
            return Some(Bytes::from_static(RETRY));
        }
        let next = timeout(KEEP_ALIVE_EVERY, self.queue.take()).await;
        next.unwrap_or(Some(Bytes::from_static(KEEP_ALIVE)))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let mut held = self.queue.held();
        held.is_closed = true;
        held.chunks.clear();
        drop(held);
        self.queue.taken.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn whole_body(response: Response) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[test]
    fn an_event_has_the_format_of_its_stream() {
        let data = json!({ "kind": "state" });
        assert_eq!(Format::Lines.chunk(Some(3), "state", &data), "{\"kind\":\"state\"}\n");
        let expected = "id: 3\nevent: state\ndata: {\"kind\":\"state\"}\n\n";
        assert_eq!(Format::Events.chunk(Some(3), "state", &data), expected);
        assert_eq!(Format::Events.chunk(None, "live", &json!("a\nb")), "event: live\ndata: \"a\\nb\"\n\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_reader_loses_its_queue_and_gets_a_resume_point() {
        let (writer, response) = open(Format::Events, Some(7));
        let mut body = response.into_body();
        for id in 8..10 {
            writer.send(Some(id), Bytes::from(format!("{id} "))).await.unwrap();
        }
        // The retry time, and the first event.
        for expected in ["retry: 1000\n\n", "8 "] {
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), expected);
        }
        for id in 10..10 + 63 {
            writer.send(Some(id), Bytes::from(format!("{id} "))).await.unwrap();
        }
        assert_eq!(writer.send(Some(99), Bytes::from_static(b"no")).await, Err(Gone::Stalled));
        writer.drop_reader();
        assert_eq!(writer.queue.held().chunks.len(), 1);
        drop(writer);
        let text = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
        assert!(text.starts_with("event: dropped\ndata: {\"last_id\":8,"), "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn large_chunks_are_counted_by_their_bytes() {
        let (writer, response) = open(Format::Events, Some(7));
        let large = Bytes::from(vec![b'x'; MAX_BYTES / 2]);
        for id in 8..10 {
            writer.send(Some(id), large.clone()).await.unwrap();
        }
        assert_eq!(writer.send(Some(10), Bytes::from_static(b"no")).await, Err(Gone::Stalled));
        writer.drop_reader();
        drop(writer);
        assert!(
            whole_body(response).await.contains("{\"last_id\":7,"),
            "the reader has the id that it came with"
        );
        // A chunk above the limit is sent nevertheless.
        let (writer, response) = open(Format::Lines, None);
        writer.send(None, Bytes::from(vec![b'x'; 2 * MAX_BYTES])).await.unwrap();
        drop(writer);
        assert_eq!(whole_body(response).await.len(), 2 * MAX_BYTES);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_sends_keep_alives() {
        let (writer, response) = open(Format::Events, None);
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(40)).await;
            writer.send(None, Bytes::from_static(b"late")).await.unwrap();
        });
        assert_eq!(whole_body(response).await, "retry: 1000\n\n:\n\n:\n\nlate");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_of_lines_may_take_its_time() {
        let (writer, response) = open(Format::Lines, None);
        let sending = tokio::spawn(async move {
            for _ in 0..=MAX_CHUNKS {
                writer.send(None, Bytes::from_static(b"x")).await.unwrap();
            }
        });
        tokio::time::sleep(Duration::from_hours(1)).await;
        assert_eq!(whole_body(response).await.len(), MAX_CHUNKS + 1);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn a_reader_that_has_gone_is_noticed() {
        let (writer, response) = open(Format::Events, None);
        drop(response);
        writer.closed().await;
        assert_eq!(writer.send(None, Bytes::new()).await, Err(Gone::Closed));
    }
}
