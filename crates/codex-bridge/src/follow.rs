//! Follows a task's log: first the stored events, then new ones as they come.
//!
//! Events are read from the store. News only says that there is more to read, so a follower that is too slow for the news
//! misses nothing. Text that is being written is not stored: a follower first gets the text so far, then each new piece.

use std::collections::VecDeque;
use std::sync::Arc;

use codex_bridge_core::News;
use codex_bridge_core::bridge::{LiveKind, OpenText};
use codex_bridge_core::desk::TaskLog;
use codex_bridge_core::event::{self, Seq};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tracing::info;

use crate::failure::Failure;
use crate::view::{Event, Live, Unlogged};

/// The number of events that are read at once.
const PAGE: u32 = 200;
/// The number of ended calls that are remembered. More than ever run at once.
const MAX_ENDED_CALLS: usize = 32;

/// How long a log is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// To the present end of the log.
    Now,
    /// Until the task has finished.
    Finished,
    /// Until the listener disconnects. A finished task may be continued.
    Disconnected,
}

/// What a follower reads.
#[derive(Debug, Clone, Copy)]
pub struct FollowOptions {
    /// Only events with a higher number.
    pub after: Seq,
    /// The most events to give.
    pub limit: Option<u32>,
    /// When to stop.
    pub until: Until,
    /// Also give text that is being written.
    pub live: bool,
}

/// Reads one task's log for one listener.
pub struct Follower {
    log: TaskLog,
    until: Until,
    live: bool,
    step: Step,
    /// The number of the last event that was read.
    last_seq: Seq,
    /// The last event that ended a text. Pieces of texts that began before it are outdated.
    text_ended_at: Seq,
    /// The calls that ended last. Pieces of their output are outdated.
    ended_calls: VecDeque<String>,
    /// How many more events may be given. None is no limit.
    remaining: Option<u32>,
    news: Receiver<News>,
    open_texts: Vec<OpenText>,
    /// Events that were read and not given yet; at most one page.
    ready: VecDeque<Event>,
}

/// What the follower does next if no event is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Read the store. If the task had finished before, the end of the log is the end.
    CatchUp {
        has_finished: Option<bool>,
    },
    /// Wait for news.
    Listen,
    Done,
}

impl Follower {
    /// A follower of this log.
    pub fn new(log: TaskLog, options: FollowOptions) -> Self {
        let (news, open_texts) = log.join();
        Self {
            log,
            until: options.until,
            live: options.live,
            step: Step::CatchUp { has_finished: None },
            last_seq: options.after,
            text_ended_at: 0,
            ended_calls: VecDeque::new(),
            remaining: options.limit,
            news,
            open_texts,
            ready: VecDeque::new(),
        }
    }

    /// The next event; none at the end. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Event>, Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Ok(Some(event));
            }
            match self.step {
                Step::CatchUp { has_finished: None } => {
                    let has_finished = self.until == Until::Finished && self.log.is_finished().await?;
                    self.step = Step::CatchUp { has_finished: Some(has_finished) };
                }
                Step::CatchUp { has_finished: Some(has_finished) } => self.catch_up(has_finished).await?,
                Step::Listen => self.listen().await?,
                Step::Done => return Ok(None),
            }
        }
    }

    /// Reads one page from the store.
    async fn catch_up(&mut self, has_finished: bool) -> Result<(), Failure> {
        let page = self.log.after(self.last_seq, PAGE).await?;
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
        // Open texts come after the log, because they are newer.
        for open in std::mem::take(&mut self.open_texts) {
            if self.live && self.is_open(open.call_id.as_ref(), open.after) {
                self.ready.push_back(so_far(open));
            }
        }
        self.step = Step::Listen;
        Ok(())
    }

    /// Waits for news. Live pieces are passed on; other news means that the store has more to read.
    async fn listen(&mut self) -> Result<(), Failure> {
        let news = tokio::select! {
            news = self.news.recv() => news,
            () = self.log.until_closing() => {
                return Err(Failure::stopping());
            }
        };
        match news {
            Ok(News::Live { kind, text, call_id, after })
                if self.live && self.is_open(call_id.as_ref(), after) =>
            {
                self.ready.push_back(piece(kind, text, call_id));
            }
            Ok(News::Event(event)) if event.seq == self.last_seq + 1 => {
                self.take(Arc::unwrap_or_clone(event));
            }
            Ok(News::Event(event)) if event.seq > self.last_seq => self.read_on(),
            // The task may have finished.
            Ok(News::Task(_)) if self.until == Until::Finished => self.read_on(),
            Ok(_) => {}
            Err(RecvError::Lagged(missed)) => {
                info!(task = %self.log.task_id(), missed, "a slow reader missed news and continues from the store");
                (self.news, self.open_texts) = self.log.join();
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
        if self.remaining == Some(0) {
            self.step = Step::Done;
            return;
        }
        if event.seq > self.last_seq + 1 {
            self.ready
                .push_back(Event::unlogged(Unlogged::Gap { from: self.last_seq + 1, to: event.seq - 1 }));
        }
        self.remaining = self.remaining.map(|remaining| remaining - 1);
        self.last_seq = event.seq;
        if event.line.ends_text() {
            self.text_ended_at = event.seq;
        }
        if let Some(call_id) = event.line.ended_call() {
            self.ended_calls.truncate(MAX_ENDED_CALLS - 1);
            self.ended_calls.push_front(call_id.to_owned());
        }
        self.ready.push_back(Event::from(event));
    }

    /// Whether a text that began after this event is still being written, as far as the log was read. The output of a call
    /// is open until the call ends.
    fn is_open(&self, call_id: Option<&String>, after: Seq) -> bool {
        call_id.map_or(after >= self.text_ended_at, |call_id| !self.ended_calls.contains(call_id))
    }
}

/// An event with a new piece of text.
fn piece(live: LiveKind, text: String, call_id: Option<String>) -> Event {
    Event::unlogged(Unlogged::Live(Live { live, text, call_id, so_far: false, left_out_bytes: None }))
}

/// An event with the text so far.
fn so_far(open: OpenText) -> Event {
    let live = if open.call_id.is_some() { LiveKind::Output } else { LiveKind::Text };
    let left_out_bytes = Some(open.left_out_bytes).filter(|bytes| *bytes > 0);
    let (text, call_id) = (open.text, open.call_id);
    Event::unlogged(Unlogged::Live(Live { live, text, call_id, so_far: true, left_out_bytes }))
}
