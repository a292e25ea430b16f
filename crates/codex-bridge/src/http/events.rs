//! A task's log, as JSON lines or as server-sent events. JSON lines end when the task has finished. Server-sent events do
//! not, because the task may be continued.

use std::future::pending;

use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use codex_bridge_core::event::Seq;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tracing::warn;

use super::stream::{self, Format, Gone};
use super::{Call, Path, Query, Refusal, news};
use crate::calls;
use crate::failure::{Code, ErrorBody, Failure};
use crate::follow::{FollowOptions, Follower, Until};

/// A browser that reconnects sends the id of its last event in this header.
const LAST_EVENT_ID: &str = "last-event-id";

pub async fn read(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    Query(which): Query<calls::Events>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let log = app.desk.log(&caller, &id).await?;
    let format = Format::accepted_by(&headers);
    let last = last_event_id(&headers)?;
    for number in [Some(which.after), last].into_iter().flatten() {
        if !(0..=calls::SEQ_MAX).contains(&number) {
            let message = format!("no event has the number {number}");
            return Err(Failure::new(Code::BadCall, message).hint("use 0 for all events").into());
        }
    }
    let after = last.unwrap_or(which.after);
    let until = match format {
        Format::Events => Until::Disconnected,
        Format::Lines if which.follow => Until::Finished,
        Format::Lines => Until::Now,
    };
    let wants_news = which.news && format == Format::Events;
    let joined = if wants_news { Some(news::join(&app).await?) } else { None };
    let (writer, response) = stream::open(format, Some(after));
    let mut news = None;
    if let Some((first, lines)) = joined {
        // Does not wait: the queue is empty.
        writer.send(None, first).await.ok();
        news = Some(lines);
    }
    let wanted = FollowOptions { after, limit: which.limit, until, live: which.live };
    let follower = Follower::new(log, wanted);
    tokio::spawn(LogStream { follower, writer, format, news }.run());
    Ok(response)
}

/// The last event that a reader got before it reconnected.
fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, Failure> {
    let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else { return Ok(None) };
    let id = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    let invalid = || Failure::new(Code::BadCall, "Last-Event-ID must be the number of an event");
    id.map(Some).ok_or_else(invalid)
}

struct LogStream {
    follower: Follower,
    writer: stream::Writer,
    format: Format,
    /// The news of all tasks, if the reader wants them too.
    news: Option<Receiver<Bytes>>,
}

impl LogStream {
    async fn run(mut self) {
        match self.write().await {
            Ok(()) | Err(Stopped::Reader(Gone::Closed)) => {}
            Err(Stopped::Reader(Gone::Stalled)) => self.writer.drop_reader(),
            Err(Stopped::Failed(error)) => {
                warn!(%error, "the log of a task could not be read");
                let failure = ErrorBody { error };
                // An error means that the reader has closed the connection.
                self.writer.send(None, self.format.chunk(None, "failure", &failure)).await.ok();
            }
        }
    }

    async fn write(&mut self) -> Result<(), Stopped> {
        loop {
            let (id, chunk) = tokio::select! {
                event = self.follower.next() => match event.map_err(Stopped::Failed)? {
                    Some(event) => (event.seq, self.format.chunk(event.seq, event.kind(), &event)),
                    None => return Ok(()),
                },
                line = next_news(&mut self.news) => (None, line.map_err(Stopped::Reader)?),
                () = self.writer.closed() => return Ok(()),
            };
            self.writer.send(id, chunk).await.map_err(Stopped::Reader)?;
        }
    }
}

/// The next line of news. Never returns for a reader that does not want news.
async fn next_news(lines: &mut Option<Receiver<Bytes>>) -> Result<Bytes, Gone> {
    let Some(lines) = lines else { return pending().await };
    lines.recv().await.map_err(|error| match error {
        RecvError::Lagged(_) => Gone::Stalled,
        RecvError::Closed => Gone::Closed,
    })
}

enum Stopped {
    Reader(Gone),
    Failed(Failure),
}
