//! A task's log as JSON lines: what is stored after a number, then, if asked for, what comes until the task is at rest.
//!
//! The store is the truth: news only says that there is more to read, so a follower that was too slow for the news
//! misses nothing.

use std::convert::Infallible;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use codex_bridge_core::News;
use codex_bridge_core::event::{self, Seq};
use codex_bridge_core::task::TaskId;
use futures_util::stream;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;

use super::{App, Refusal};
use crate::calls;
use crate::failure::{Failure, Wrapped};
use crate::view::Event;

/// Events that are read at once.
const PAGE: u32 = 200;
/// Lines that wait for a slow reader.
const LINES: usize = 64;

pub async fn read(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(which): Query<calls::Events>,
) -> Result<Response, Refusal> {
    let task_id = app.bridge.find(&id).await?.id;
    let (lines, waiting) = mpsc::channel(LINES);
    let teller = Teller { app, task_id, lines, told: which.after, left: which.limit };
    tokio::spawn(teller.tell(which.follow, which.live));
    let body = stream::unfold(waiting, |mut waiting| async move {
        let line: Bytes = waiting.recv().await?;
        Some((Ok::<_, Infallible>(line), waiting))
    });
    Ok(([("content-type", "application/x-ndjson")], Body::from_stream(body)).into_response())
}

/// Tells one reader.
struct Teller {
    app: App,
    task_id: TaskId,
    lines: mpsc::Sender<Bytes>,
    /// The number of the last event that was told.
    told: Seq,
    /// How many more may be told; none is no limit.
    left: Option<u32>,
}

/// The reader needs no more: it has gone, or has as many as it wanted.
struct Enough;

impl Teller {
    async fn tell(mut self, follow: bool, live: bool) {
        let outcome = if follow { self.follow(live).await } else { self.catch_up().await };
        if let Err(Stopped::Failed(error)) = outcome {
            let _ = self.line(&Wrapped { error }).await;
        }
    }

    async fn follow(&mut self, live: bool) -> Result<(), Stopped> {
        let mut news = self.app.bridge.news();
        loop {
            let is_at_rest =
                self.app.bridge.find(self.task_id.as_str()).await.map_err(failed)?.status.is_at_rest();
            self.catch_up().await?;
            if is_at_rest {
                return Ok(());
            }
            // Live pieces go through one after the other; anything else means that there is more to read.
            loop {
                let app = self.app.clone();
                let next = tokio::select! {
                    next = news.recv() => next,
                    () = self.lines.closed() => return Ok(()),
                    () = app.ended() => return Err(Stopped::Failed(super::tasks::stopping())),
                };
                match next {
                    Ok(News::Live { task_id, kind, text }) if task_id == self.task_id && live => {
                        self.line(&Event::live(kind, text)).await?;
                    }
                    Ok(News::Event(event)) if event.task_id.as_ref() == Some(&self.task_id) => {
                        if event.seq == self.told + 1 { self.event(event).await? } else { break }
                    }
                    Ok(News::Task(task_id)) if task_id == self.task_id => break,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => break,
                    Err(RecvError::Closed) => return Ok(()),
                }
            }
        }
    }

    /// Tells all that is stored and was not told yet.
    async fn catch_up(&mut self) -> Result<(), Stopped> {
        loop {
            let page = self.app.bridge.events(&self.task_id, self.told, PAGE).await.map_err(failed)?;
            if page.is_empty() {
                return Ok(());
            }
            for event in page {
                self.event(event).await?;
            }
        }
    }

    async fn event(&mut self, event: event::Event) -> Result<(), Stopped> {
        if self.left == Some(0) {
            return Err(Stopped::Enough);
        }
        self.left = self.left.map(|left| left - 1);
        self.told = event.seq;
        self.line(&Event::from(event)).await.map_err(|Enough| Stopped::Enough)
    }

    async fn line(&self, line: &impl serde::Serialize) -> Result<(), Enough> {
        let mut text = serde_json::to_vec(line).unwrap_or_default();
        text.push(b'\n');
        self.lines.send(text.into()).await.map_err(|_| Enough)
    }
}

/// Why nothing more is told.
enum Stopped {
    Enough,
    Failed(Failure),
}

impl From<Enough> for Stopped {
    fn from(_: Enough) -> Self {
        Self::Enough
    }
}

fn failed(error: codex_bridge_core::bridge::Error) -> Stopped {
    Stopped::Failed(error.into())
}
