//! What is told to those who listen: what has become durable, and text while it is being written.
//!
//! Text that is being written is not stored, so it is remembered here until its message is. One lock orders what is
//! remembered and what is told: whoever joins in the middle gets the text so far and then every later piece, each once.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use redact::plain::plain;
use tokio::sync::broadcast;

use crate::event::{Event, Seq};
use crate::task::TaskId;

/// News that a slow listener may be behind before it misses some.
const NEWS: usize = 8192;
/// At most so much of a message is remembered while it is written: its end.
const TEXT_MAX_BYTES: usize = 256 * 1024;
/// What is left of a text that has become too long. Less than may be kept, so that not every piece moves all of it.
const TEXT_KEPT_BYTES: usize = TEXT_MAX_BYTES / 4 * 3;
/// The kind of live pieces that make up a message.
const TEXT: &str = "text";

/// Something that is durable now, or text that is being written.
#[derive(Debug, Clone)]
pub enum News {
    /// A task changed.
    Task(TaskId),
    /// A line was appended to a task's log.
    Event(Event),
    /// A piece of text of a task, as it is written. Never stored.
    Live {
        /// Whose.
        task_id: TaskId,
        /// `text`, `reasoning` or `output`.
        kind: &'static str,
        /// The piece, redacted and plain.
        text: String,
        /// The log's last event when this text began. Whoever has read a later event that
        /// [ends texts](Event::ends_text) has the whole of it already.
        after: Seq,
    },
}

/// The message that is being written, as far as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenText {
    /// The log's last event when it began.
    pub after: Seq,
    /// Its text, redacted.
    pub text: String,
    /// How much of its beginning was too much to be remembered.
    pub left_out_bytes: usize,
}

/// Tells news, and remembers what is being written.
pub(crate) struct Newsroom {
    sender: broadcast::Sender<News>,
    /// The tasks whose turns run.
    writing: Mutex<HashMap<TaskId, Writing>>,
}

#[derive(Debug, Default)]
struct Writing {
    last_seq: Seq,
    open: Option<OpenText>,
    /// The beginning of what is being written was told to somebody else: its pieces alone would be half a message.
    joined_midway: bool,
}

impl Newsroom {
    pub(crate) fn new() -> Self {
        Self { sender: broadcast::channel(NEWS).0, writing: Mutex::default() }
    }

    /// What happens from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<News> {
        self.sender.subscribe()
    }

    /// What happens from now on, and the text of this task that is open now.
    pub(crate) fn join(&self, task_id: &TaskId) -> (broadcast::Receiver<News>, Option<OpenText>) {
        let writing = self.writing();
        let open = writing.get(task_id).and_then(|writing| writing.open.clone());
        (self.sender.subscribe(), open)
    }

    /// A task's turn is run from here on.
    pub(crate) fn turn_runs(&self, task_id: &TaskId) {
        self.writing().insert(task_id.clone(), Writing::default());
    }

    /// It was under way before: what is being written may have begun long ago.
    pub(crate) fn turn_was_joined_midway(&self, task_id: &TaskId) {
        let midway = Writing { joined_midway: true, ..Writing::default() };
        self.writing().insert(task_id.clone(), midway);
    }

    /// Nothing more is written.
    pub(crate) fn turn_is_over(&self, task_id: &TaskId) {
        self.writing().remove(task_id);
    }

    /// Tells what is durable now.
    pub(crate) fn tell_committed(&self, events: &[Event], changed: Vec<TaskId>) {
        let mut writing = self.writing();
        for event in events {
            let own = event.task_id.as_ref().and_then(|task_id| writing.get_mut(task_id));
            if let Some(own) = own {
                own.commit(event);
            }
            // Nobody may be listening.
            let _ = self.sender.send(News::Event(event.clone()));
        }
        for task_id in changed {
            let _ = self.sender.send(News::Task(task_id));
        }
    }

    /// Tells a piece of text as it is written, without what could deceive the eye: whoever looks on shows it as it
    /// comes. Each piece by itself: of a sequence that lies across two its visible rest stays, never its escape.
    pub(crate) fn tell_live(&self, task_id: &TaskId, kind: &'static str, text: &str) {
        let mut writing = self.writing();
        let Some(own) = writing.get_mut(task_id) else { return };
        let (after, text) = match kind {
            TEXT if own.joined_midway => return,
            TEXT => own.write(text),
            _ => (own.last_seq, plain(text).into_owned()),
        };
        let _ = self.sender.send(News::Live { task_id: task_id.clone(), kind, text, after });
    }

    fn writing(&self) -> MutexGuard<'_, HashMap<TaskId, Writing>> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writing {
    fn commit(&mut self, event: &Event) {
        self.last_seq = event.seq;
        if event.ends_text() {
            self.open = None;
            self.joined_midway = false;
        }
    }

    /// Remembers a piece; says after which event its text began, and what is plain of it.
    fn write(&mut self, piece: &str) -> (Seq, String) {
        let after = self.last_seq;
        let open = self.open.get_or_insert_with(|| OpenText { after, ..OpenText::default() });
        // What may follow a picture is told by the picture, which may have ended the piece before.
        let last = open.text.chars().next_back().map(String::from).unwrap_or_default();
        let joined = format!("{last}{piece}");
        let piece =
            plain(&joined).strip_prefix(&last).map_or_else(|| plain(piece).into_owned(), str::to_owned);
        open.text.push_str(&piece);
        if open.text.len() > TEXT_MAX_BYTES {
            let cut = open.text.ceil_char_boundary(open.text.len() - TEXT_KEPT_BYTES);
            open.text.drain(..cut);
            open.left_out_bytes += cut;
        }
        (open.after, piece)
    }
}

#[cfg(test)]
mod tests;
