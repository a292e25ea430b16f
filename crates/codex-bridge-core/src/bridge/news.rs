//! What listeners are told: committed changes, and live text while it is being written.
//!
//! Live text is not stored. This module keeps it until the log has the message or the end of the call. One lock covers
//! both the kept text and the announcements. So a listener who joins in the middle gets the text so far and then every
//! later delta, each once.
//!
//! A listener to one task hears only of that task. Otherwise, a hundred listeners that each skip the news of two
//! hundred tasks took most of the daemon's time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redact::plain::plain;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::event::{Event, Line, Seq};
use crate::task::TaskId;

/// How many news of all tasks a slow listener may be behind before it misses some.
const NEWS: usize = 8192;
/// The same for a listener to one task.
const NEWS_OF_ONE: usize = 256;
/// How much of a message is kept while it is being written. The beginning is dropped first.
const TEXT_MAX_BYTES: usize = 256 * 1024;
/// The same for a command's output, which may be endless.
const OUTPUT_MAX_BYTES: usize = 16 * 1024;
/// For how many commands of a task output is kept. The oldest is dropped first.
const OUTPUTS: usize = 8;

/// A committed change, or live text.
#[derive(Debug, Clone)]
pub enum News {
    /// A task changed.
    Task(TaskId),
    /// A line was appended to a task's log.
    Event(Arc<Event>),
    /// A delivery was added, attempted or finished.
    Deliveries,
    /// A text delta of a task. It is never stored, and sent only to listeners to that task.
    Live {
        /// The kind of text.
        kind: LiveKind,
        /// The delta, redacted and without deceptive characters.
        text: String,
        /// The call that wrote the output.
        call_id: Option<String>,
        /// The log's last event when this text began. A listener who has read a later event that [ends
        /// texts](crate::event::Line::ends_text) already has the whole text.
        after: Seq,
    },
}

/// The kind of live text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveKind {
    /// A message.
    Text,
    /// The model's reasoning.
    Reasoning,
    /// A command's output.
    Output,
}

/// A message or output that is being written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenText {
    /// The call that writes the output.
    pub call_id: Option<String>,
    /// The log's last event when the text began.
    pub after: Seq,
    /// The text so far, redacted.
    pub text: String,
    /// How many bytes at the beginning were dropped.
    pub left_out_bytes: usize,
}

/// Sends news to listeners, and keeps live text.
pub(crate) struct Newsroom {
    of_all: broadcast::Sender<News>,
    rooms: Mutex<Rooms>,
}

#[derive(Default)]
struct Rooms {
    /// The listeners per task. Tasks whose listeners are gone are removed at the next `join`.
    of_one: HashMap<TaskId, broadcast::Sender<News>>,
    /// The live text of running turns.
    writing: HashMap<TaskId, Writing>,
}

#[derive(Debug, Default)]
struct Writing {
    last_seq: Seq,
    /// Texts whose end is not yet in the log; at most one of them is a message.
    open: Vec<OpenText>,
    /// Whether the beginning of the message went to an earlier daemon: the rest alone would be half a message.
    joined_midway: bool,
}

impl Newsroom {
    pub(crate) fn new() -> Self {
        Self { of_all: broadcast::channel(NEWS).0, rooms: Mutex::default() }
    }

    /// News of all tasks from now on, without live text.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<News> {
        self.of_all.subscribe()
    }

    /// News of this task from now on, and its live texts so far.
    pub(crate) fn join(&self, task_id: &TaskId) -> (broadcast::Receiver<News>, Vec<OpenText>) {
        let mut rooms = self.rooms();
        rooms.of_one.retain(|_, listeners| listeners.receiver_count() > 0);
        let listeners =
            rooms.of_one.entry(task_id.clone()).or_insert_with(|| broadcast::channel(NEWS_OF_ONE).0);
        let receiver = listeners.subscribe();
        (receiver, rooms.writing.get(task_id).map(|writing| writing.open.clone()).unwrap_or_default())
    }

    /// A turn of the task begins.
    pub(crate) fn turn_started(&self, task_id: &TaskId) {
        self.rooms().writing.insert(task_id.clone(), Writing::default());
    }

    /// The turn was running before this daemon: a message may have begun earlier.
    pub(crate) fn turn_joined_midway(&self, task_id: &TaskId) {
        let midway = Writing { joined_midway: true, ..Writing::default() };
        self.rooms().writing.insert(task_id.clone(), midway);
    }

    /// The turn has ended: drops its live text.
    pub(crate) fn turn_ended(&self, task_id: &TaskId) {
        self.rooms().writing.remove(task_id);
    }

    /// Announces a change to deliveries.
    pub(crate) fn tell_deliveries(&self) {
        // There may be no listeners.
        self.of_all.send(News::Deliveries).ok();
    }

    /// Announces what was committed.
    pub(crate) fn tell_committed(&self, events: Vec<Event>, changed: Vec<TaskId>) {
        let mut rooms = self.rooms();
        for event in events {
            let Some(task_id) = event.task_id.clone() else { continue };
            if let Some(own) = rooms.writing.get_mut(&task_id) {
                own.commit(&event);
            }
            self.tell(&rooms, &task_id, News::Event(Arc::new(event)));
        }
        for task_id in changed {
            self.tell(&rooms, &task_id, News::Task(task_id.clone()));
        }
    }

    /// Sends a text delta, without deceptive characters, because listeners show it as it comes. Each delta is cleaned
    /// by itself: if an escape sequence spans two deltas, its visible rest stays, but never the escape.
    pub(crate) fn tell_live(&self, task_id: &TaskId, kind: LiveKind, text: &str) {
        let mut rooms = self.rooms();
        let Some(own) = rooms.writing.get_mut(task_id) else { return };
        let (after, text) = match kind {
            LiveKind::Text if own.joined_midway => return,
            LiveKind::Text => own.write(None, text),
            _ => (own.last_seq, plain(text).into_owned()),
        };
        rooms.tell(task_id, News::Live { kind, text, call_id: None, after });
    }

    /// As [`Self::tell_live`], for a command's output.
    pub(crate) fn tell_output(&self, task_id: &TaskId, call_id: String, text: &str) {
        let mut rooms = self.rooms();
        let Some(own) = rooms.writing.get_mut(task_id) else { return };
        let (after, text) = own.write(Some(&call_id), text);
        rooms.tell(task_id, News::Live { kind: LiveKind::Output, text, call_id: Some(call_id), after });
    }

    fn tell(&self, rooms: &Rooms, task_id: &TaskId, news: News) {
        rooms.tell(task_id, news.clone());
        // There may be no listeners.
        self.of_all.send(news).ok();
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    fn tell(&self, task_id: &TaskId, news: News) {
        if let Some(listeners) = self.of_one.get(task_id) {
            // The listeners may be gone.
            listeners.send(news).ok();
        }
    }
}

impl Writing {
    fn commit(&mut self, event: &Event) {
        self.last_seq = event.seq;
        self.open.retain(|text| !text.ends_with(event));
        if event.line.ends_text() {
            self.joined_midway = false;
        }
    }

    /// Keeps a delta. Returns after which event its text began, and the cleaned delta.
    fn write(&mut self, call_id: Option<&String>, piece: &str) -> (Seq, String) {
        let open = self.open_text(call_id);
        let piece = open.add(piece);
        (open.after, piece)
    }

    /// The text of this call, or the message; begun if there is none.
    fn open_text(&mut self, call_id: Option<&String>) -> &mut OpenText {
        let known = self.open.iter().position(|text| text.call_id.as_ref() == call_id);
        let at = known.unwrap_or_else(|| {
            let is_output = |text: &OpenText| text.call_id.is_some();
            if call_id.is_some() && self.open.iter().filter(|text| is_output(text)).count() == OUTPUTS {
                let oldest = self.open.iter().position(is_output).unwrap_or_default();
                self.open.remove(oldest);
            }
            let call_id = call_id.cloned();
            self.open.push(OpenText { call_id, after: self.last_seq, ..OpenText::default() });
            self.open.len() - 1
        });
        &mut self.open[at]
    }
}

impl OpenText {
    /// Whether the log has the whole text with this event.
    pub fn ends_with(&self, event: &Event) -> bool {
        match &self.call_id {
            None => event.line.ends_text(),
            Some(call_id) => {
                matches!(event.line, Line::TurnEnded(_)) || event.line.ended_call() == Some(call_id)
            }
        }
    }

    /// Adds a delta. Returns it cleaned.
    fn add(&mut self, piece: &str) -> String {
        // Whether a joiner is deceptive depends on the character before it, here the last one of the previous delta.
        let last = self.text.chars().next_back().map(String::from).unwrap_or_default();
        let joined = format!("{last}{piece}");
        let piece =
            plain(&joined).strip_prefix(&last).map_or_else(|| plain(piece).into_owned(), str::to_owned);
        self.text.push_str(&piece);
        let most = if self.call_id.is_some() { OUTPUT_MAX_BYTES } else { TEXT_MAX_BYTES };
        if self.text.len() > most {
            // Cuts to less than the limit, so that not every delta moves the whole text.
            let cut = self.text.ceil_char_boundary(self.text.len() - most / 4 * 3);
            self.text.drain(..cut);
            self.left_out_bytes += cut;
        }
        piece
    }
}

#[cfg(test)]
mod tests;
