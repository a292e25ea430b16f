//! Following a task's log: what is stored after a number, then, if wanted, what comes.
//!
//! The store is the truth. News only says that there is more to read, so a follower that was too slow for the news misses
//! nothing. Text that is being written is not stored: a follower who wants it first gets what there is of it, then each
//! piece.

use std::collections::VecDeque;
use std::sync::Arc;

use codex_bridge_core::bridge::{LiveKind, OpenText};
use codex_bridge_core::event::{self, Seq};
use codex_bridge_core::task::TaskId;
use codex_bridge_core::{Bridge, News};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tracing::info;

use crate::failure::Failure;
use crate::view::{Aside, Event, Live};

/// Events that are read at once.
const PAGE: u32 = 200;
/// So many ended calls are remembered: more than run at once.
const CALLS_OVER: usize = 32;

/// How long a log is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To its present end.
    Now,
    /// Until the task has finished.
    Finished,
    /// As long as somebody listens: a finished task may be continued.
    Left,
}

/// What of a log is wanted.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Only events with a higher number.
    pub after: Seq,
    /// At most so many events.
    pub limit: Option<u32>,
    /// How long.
    pub until: Until,
    /// Also text that is being written.
    pub live: bool,
}

/// Reads one task's log for one listener.
pub struct Follower {
    bridge: Bridge,
    task_id: TaskId,
    until: Until,
    live: bool,
    step: Step,
    /// The number of the last event that was read.
    read: Seq,
    /// The last event that ended a text: pieces of texts that began before it are over.
    text_over: Seq,
    /// The calls that ended last: pieces of their output are over, too.
    calls_over: VecDeque<String>,
    /// How many more events may be given; none is no limit.
    left: Option<u32>,
    news: Receiver<News>,
    open: Vec<OpenText>,
    /// What was read and not given yet: at most a page.
    ready: VecDeque<Event>,
}

/// What is done when nothing is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The store is read on. The log is over at its end if the task had finished before.
    CatchUp {
        has_finished: Option<bool>,
    },
    /// Nothing more is stored: the news is awaited.
    Listen,
    Done,
}

impl Follower {
    /// A follower of this task.
    pub fn new(bridge: Bridge, task_id: TaskId, wanted: Wanted) -> Self {
        let (news, open) = bridge.join(&task_id);
        Self {
            bridge,
            task_id,
            until: wanted.until,
            live: wanted.live,
            step: Step::CatchUp { has_finished: None },
            read: wanted.after,
            text_over: 0,
            calls_over: VecDeque::new(),
            left: wanted.limit,
            news,
            open,
            ready: VecDeque::new(),
        }
    }

    /// The next event; none at the end. Nothing is lost if it is dropped before it is done.
    pub async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match self.step {
                Step::CatchUp { has_finished: None } => {
                    let has_finished = self.until == Until::Finished && self.has_finished().await?;
                    self.step = Step::CatchUp { has_finished: Some(has_finished) };
                }
                Step::CatchUp { has_finished: Some(has_finished) } => self.catch_up(has_finished).await?,
                Step::Listen => self.listen().await?,
                Step::Done => return Ok(None),
            }
        }
    }

    async fn has_finished(&self) -> Result<bool, Failure> {
        Ok(self.bridge.find(self.task_id.as_str()).await?.status.is_finished())
    }

    /// Reads a page of what is stored.
    async fn catch_up(&mut self, has_finished: bool) -> Result<(), Failure> {
        let page = self.bridge.events(&self.task_id, self.read, PAGE).await?;
        if !page.is_empty() {
            for event in page {
                self.take(event);
            }
            return Ok(());
        }
        if has_finished || self.until == Until::Now {
            self.step = Step::Done;
            return Ok(());
        }
        // After the log, since that is what came before it.
        for open in std::mem::take(&mut self.open) {
            if self.live && self.is_open(open.call_id.as_ref(), open.after) {
                self.ready.push_back(so_far(open));
            }
        }
        self.step = Step::Listen;
        Ok(())
    }

    /// Waits for news. Live pieces go through one after the other; anything else means that there is more to read.
    async fn listen(&mut self) -> Result<(), Failure> {
        let news = tokio::select! {
            news = self.news.recv() => news,
            () = self.bridge.until_closing() => {
                return Err(Failure::stopping());
            }
        };
        match news {
            Ok(News::Live { kind, text, call_id, after })
                if self.live && self.is_open(call_id.as_ref(), after) =>
            {
                self.ready.push_back(piece(kind, text, call_id));
            }
            Ok(News::Event(event)) if event.seq == self.read + 1 => self.take(Arc::unwrap_or_clone(event)),
            Ok(News::Event(event)) if event.seq > self.read => self.read_on(),
            // The task may have finished, which ends a log that is followed to that point.
            Ok(News::Task(_)) if self.until == Until::Finished => self.read_on(),
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => {
                info!(task = %self.task_id, missed, "a slow reader missed news; it reads on in the store");
                (self.news, self.open) = self.bridge.join(&self.task_id);
                self.read_on();
            }
            Err(RecvError::Closed) => self.step = Step::Done,
        }
        Ok(())
    }

    fn read_on(&mut self) {
        self.step = Step::CatchUp { has_finished: None };
    }

    fn take(&mut self, event: event::Event) {
        if self.left == Some(0) {
            self.step = Step::Done;
            return;
        }
        if event.seq > self.read + 1 {
            self.ready.push_back(Event::aside(Aside::Gap { from: self.read + 1, to: event.seq - 1 }));
        }
        self.left = self.left.map(|left| left - 1);
        self.read = event.seq;
        if event.line.ends_text() {
            self.text_over = event.seq;
        }
        if let Some(call_id) = event.line.ended_call() {
            self.calls_over.truncate(CALLS_OVER - 1);
            self.calls_over.push_front(call_id.to_owned());
        }
        self.ready.push_back(Event::from(event));
    }

    /// Whether a text that began after this event is still being written, for all that was read; output until its call has
    /// ended.
    fn is_open(&self, call_id: Option<&String>, after: Seq) -> bool {
        call_id.map_or(after >= self.text_over, |call_id| !self.calls_over.contains(call_id))
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
