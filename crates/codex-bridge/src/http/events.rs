//! A task's log, as JSON lines or as server-sent events: what is stored after a number, then, if asked for, what comes.
//! Lines end when the task is at rest; server-sent events stay, since it may be continued.
//!
//! The store is the truth: news only says that there is more to read, so a follower that was too slow for the news
//! misses nothing. Text that is being written is not stored: a follower who wants it gets what there is of it first, then
//! each piece.

use std::collections::VecDeque;
use std::future::pending;
use std::sync::Arc;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use bytes::Bytes;
use codex_bridge_core::News;
use codex_bridge_core::bridge::LiveKind;
use codex_bridge_core::bridge::OpenText;
use codex_bridge_core::event::{self, Seq};
use codex_bridge_core::task::TaskId;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::stream::{Gone, Outlet, Shape, pipe};
use super::{App, Path, Query, Refusal, news};
use crate::calls;
use crate::failure::{Failure, Wrapped};
use crate::view::{Aside, Event, Live};

/// Events that are read at once.
const PAGE: u32 = 200;
/// So many ended calls are remembered: more than run at once.
const CALLS_OVER: usize = 32;
/// Where a browser that comes back says what it had.
const LAST_EVENT_ID: &str = "last-event-id";

pub async fn read(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(which): Query<calls::Events>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let task_id = app.bridge.find(&id).await?.id;
    let shape = Shape::wanted(&headers);
    let last = last_event_id(&headers)?;
    for number in [Some(which.after), last].into_iter().flatten() {
        if !(0..=calls::SEQ_MAX).contains(&number) {
            let message = format!("{number} is the number of no event");
            return Err(Failure::new("bad_call", message).hint("use 0 for all").into());
        }
    }
    let told = last.unwrap_or(which.after);
    let is_wanted = which.news && shape == Shape::Events;
    let news = if is_wanted { Some(news::join(&app).await?) } else { None };
    let (outlet, response) = pipe(shape, Some(told));
    let mut of_all = None;
    if let Some((first, lines)) = news {
        // The pipe is empty: nobody waits.
        let _ = outlet.put(None, first).await;
        of_all = Some(lines);
    }
    let (text_over, calls_over) = (0, VecDeque::new());
    let left = which.limit;
    let teller = Teller { app, task_id, outlet, shape, told, text_over, calls_over, left, of_all };
    tokio::spawn(teller.tell(which.follow || shape == Shape::Events, which.live));
    Ok(response)
}

/// The last event that a reader had before it was cut off.
fn last_event_id(headers: &HeaderMap) -> Result<Option<Seq>, Failure> {
    let Some(id) = headers.get(LAST_EVENT_ID).filter(|id| !id.is_empty()) else { return Ok(None) };
    let id = id.to_str().ok().and_then(|id| id.trim().parse().ok());
    let wrong = || Failure::new("bad_call", "Last-Event-ID must be the number of an event");
    id.map(Some).ok_or_else(wrong)
}

/// Tells one reader.
struct Teller {
    app: App,
    task_id: TaskId,
    outlet: Outlet,
    shape: Shape,
    /// The number of the last event that was told.
    told: Seq,
    /// The number of the last event that was told and ended a text: pieces of texts that began before are over.
    text_over: Seq,
    /// The calls of which the end was told last: pieces of their output are over, too.
    calls_over: VecDeque<String>,
    /// How many more may be told; none is no limit.
    left: Option<u32>,
    /// What is told of all tasks, if the reader wants that too.
    of_all: Option<Receiver<Bytes>>,
}

impl Teller {
    async fn tell(mut self, follow: bool, live: bool) {
        let outcome = if follow { self.follow(live).await } else { self.catch_up().await };
        match outcome {
            Ok(()) | Err(Stopped::Enough) => {}
            Err(Stopped::Stalled) => self.outlet.drop_reader(),
            Err(Stopped::Failed(error)) => {
                let told = Wrapped { error };
                // Whoever has gone needs no reason.
                let _ = self.outlet.put(None, self.shape.piece(None, "failure", &told)).await;
            }
        }
    }

    async fn follow(&mut self, live: bool) -> Result<(), Stopped> {
        let (mut news, mut open) = self.app.bridge.join(&self.task_id);
        loop {
            let is_over = self.shape == Shape::Lines && self.is_at_rest().await?;
            self.catch_up().await?;
            if is_over {
                return Ok(());
            }
            // After the log, since that is what came before it.
            for open in open.drain(..).filter(|_| live) {
                if self.is_open(open.call_id.as_ref(), open.after) {
                    self.line(so_far(open)).await?;
                }
            }
            // Live pieces go through one after the other; anything else means that there is more to read.
            loop {
                let app = self.app.clone();
                let next = tokio::select! {
                    next = news.recv() => next,
                    told = of_all(&mut self.of_all) => {
                        self.outlet.put(None, told?).await.map_err(gone)?;
                        continue;
                    }
                    () = self.outlet.left() => return Ok(()),
                    () = app.ended() => return Err(Stopped::Failed(super::tasks::stopping())),
                };
                match next {
                    Ok(News::Live { kind, text, call_id, after })
                        if live && self.is_open(call_id.as_ref(), after) =>
                    {
                        self.line(piece(kind, text, call_id)).await?;
                    }
                    Ok(News::Event(event)) if event.seq == self.told + 1 => {
                        self.event(Arc::unwrap_or_clone(event)).await?;
                    }
                    Ok(News::Event(event)) if event.seq > self.told => break,
                    // It may be at rest now, which ends a stream of lines.
                    Ok(News::Task(_)) if self.shape == Shape::Lines => break,
                    Ok(_) => {}
                    Err(RecvError::Lagged(_)) => {
                        (news, open) = self.app.bridge.join(&self.task_id);
                        break;
                    }
                    Err(RecvError::Closed) => return Ok(()),
                }
            }
        }
    }

    async fn is_at_rest(&self) -> Result<bool, Stopped> {
        let task = self.app.bridge.find(self.task_id.as_str()).await.map_err(failed)?;
        Ok(task.status.is_at_rest())
    }

    /// Whether a text that began after this event is still being written, for all that was told; output until its call
    /// has ended.
    fn is_open(&self, call_id: Option<&String>, after: Seq) -> bool {
        call_id.map_or(after >= self.text_over, |call_id| !self.calls_over.contains(call_id))
    }

    /// Tells all that is stored and was not told yet.
    async fn catch_up(&mut self) -> Result<(), Stopped> {
        loop {
            let page = self.app.bridge.events(&self.task_id, self.told, PAGE).await.map_err(failed)?;
            if page.is_empty() {
                return Ok(());
            }
            for event in page {
                if event.seq > self.told + 1 {
                    self.line(Event::aside(Aside::Gap { from: self.told + 1, to: event.seq - 1 })).await?;
                }
                self.event(event).await?;
            }
        }
    }

    async fn event(&mut self, event: event::Event) -> Result<(), Stopped> {
        if self.left == Some(0) {
            return Err(Stopped::Enough);
        }
        let (seq, ends_text) = (event.seq, event.line.ends_text());
        if let Some(call_id) = event.line.ended_call() {
            self.calls_over.truncate(CALLS_OVER - 1);
            self.calls_over.push_front(call_id.to_owned());
        }
        self.line(Event::from(event)).await?;
        self.left = self.left.map(|left| left - 1);
        self.told = seq;
        if ends_text {
            self.text_over = seq;
        }
        Ok(())
    }

    async fn line(&self, line: Event) -> Result<(), Stopped> {
        let piece = self.shape.piece(line.seq, line.kind(), &line);
        self.outlet.put(line.seq, piece).await.map_err(gone)
    }
}

/// The next line of what is told of all tasks; never, for those who do not want it.
async fn of_all(lines: &mut Option<Receiver<Bytes>>) -> Result<Bytes, Stopped> {
    let Some(lines) = lines else { return pending().await };
    lines.recv().await.map_err(|error| match error {
        RecvError::Lagged(_) => Stopped::Stalled,
        RecvError::Closed => Stopped::Enough,
    })
}

fn gone(gone: Gone) -> Stopped {
    match gone {
        Gone::Left => Stopped::Enough,
        Gone::Stalled => Stopped::Stalled,
    }
}

/// A piece of text as it is written.
fn piece(live: LiveKind, text: String, call_id: Option<String>) -> Event {
    Event::aside(Aside::Live(Live { live, text, call_id, so_far: false, left_out_bytes: None }))
}

/// A text that is being written, as far as it is.
fn so_far(open: OpenText) -> Event {
    let live = if open.call_id.is_some() { LiveKind::Output } else { LiveKind::Text };
    let left_out_bytes = Some(open.left_out_bytes).filter(|bytes| *bytes > 0);
    let (text, call_id) = (open.text, open.call_id);
    Event::aside(Aside::Live(Live { live, text, call_id, so_far: true, left_out_bytes }))
}

/// Why nothing more is told.
enum Stopped {
    /// The reader has gone, or has as many as it wanted.
    Enough,
    /// The reader does not read.
    Stalled,
    Failed(Failure),
}

fn failed(error: codex_bridge_core::bridge::Error) -> Stopped {
    Stopped::Failed(error.into())
}
