//! What is told to those who listen: what has become durable, and text while it is being written.
//!
//! Text that is being written is not stored, so it is remembered here until its message, or the end of its call, is. One lock orders what is
//! remembered and what is told: whoever joins in the middle gets the text so far and then every later piece, each once.
//!
//! Those who listen to one task are told of that alone: a hundred listeners that each skip the news of two hundred tasks
//! took most of the daemon's time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redact::plain::plain;
use serde::{Deserialize, Serialize};
use tokio::sync::broadcast;

use crate::event::{Event, Line, Seq};
use crate::task::TaskId;

/// News of all tasks that a slow listener may be behind before it misses some.
const NEWS: usize = 8192;
/// News of one task.
const NEWS_OF_ONE: usize = 256;
/// At most so much of a message is remembered while it is written: its end.
const TEXT_MAX_BYTES: usize = 256 * 1024;
/// The same of what a command writes, which may be endless.
const OUTPUT_MAX_BYTES: usize = 16 * 1024;
/// So many commands of a task are remembered, the newest ones.
const OUTPUTS: usize = 8;

/// Something that is durable now, or text that is being written.
#[derive(Debug, Clone)]
pub enum News {
    /// A task changed.
    Task(TaskId),
    /// A line was appended to a task's log.
    Event(Arc<Event>),
    /// What is told to others changed: something is to be told, or is on its way, or came to an end.
    Deliveries,
    /// A piece of text of a task, as it is written. Never stored, and told only to those who listen to its task.
    Live {
        /// Which text.
        kind: LiveKind,
        /// The piece, redacted and plain.
        text: String,
        /// The call that wrote it, for output.
        call_id: Option<String>,
        /// The log's last event when this text began. Whoever has read a later event that
        /// [ends texts](crate::event::Line::ends_text) has the whole of it already.
        after: Seq,
    },
}

/// Which text is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LiveKind {
    /// A message.
    Text,
    /// What the model thinks.
    Reasoning,
    /// What a command writes.
    Output,
}

/// A message or output that is being written, as far as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenText {
    /// The call that writes it, for output.
    pub call_id: Option<String>,
    /// The log's last event when it began.
    pub after: Seq,
    /// Its text, redacted.
    pub text: String,
    /// How much of its beginning was too much to be remembered.
    pub left_out_bytes: usize,
}

/// Tells news, and remembers what is being written.
pub(crate) struct Newsroom {
    of_all: broadcast::Sender<News>,
    rooms: Mutex<Rooms>,
}

#[derive(Default)]
struct Rooms {
    /// The tasks that somebody listens to, and some that somebody did.
    of_one: HashMap<TaskId, broadcast::Sender<News>>,
    /// The tasks whose turns run.
    writing: HashMap<TaskId, Writing>,
}

#[derive(Debug, Default)]
struct Writing {
    last_seq: Seq,
    /// Each with its end not yet in the log; at most one of them is a message.
    open: Vec<OpenText>,
    /// The beginning of what is being written was told to somebody else: its pieces alone would be half a message.
    joined_midway: bool,
}

impl Newsroom {
    pub(crate) fn new() -> Self {
        Self { of_all: broadcast::channel(NEWS).0, rooms: Mutex::default() }
    }

    /// What happens to all tasks from now on, but for texts that are being written.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<News> {
        self.of_all.subscribe()
    }

    /// What happens to this task from now on, and the texts of it that are open now.
    pub(crate) fn join(&self, task_id: &TaskId) -> (broadcast::Receiver<News>, Vec<OpenText>) {
        let mut rooms = self.rooms();
        rooms.of_one.retain(|_, listeners| listeners.receiver_count() > 0);
        let listeners =
            rooms.of_one.entry(task_id.clone()).or_insert_with(|| broadcast::channel(NEWS_OF_ONE).0);
        let receiver = listeners.subscribe();
        (receiver, rooms.writing.get(task_id).map(|writing| writing.open.clone()).unwrap_or_default())
    }

    /// A task's turn is run from here on.
    pub(crate) fn turn_runs(&self, task_id: &TaskId) {
        self.rooms().writing.insert(task_id.clone(), Writing::default());
    }

    /// It was under way before: what is being written may have begun long ago.
    pub(crate) fn turn_was_joined_midway(&self, task_id: &TaskId) {
        let midway = Writing { joined_midway: true, ..Writing::default() };
        self.rooms().writing.insert(task_id.clone(), midway);
    }

    /// Nothing more is written.
    pub(crate) fn turn_is_over(&self, task_id: &TaskId) {
        self.rooms().writing.remove(task_id);
    }

    /// Tells that deliveries changed.
    pub(crate) fn tell_deliveries(&self) {
        // Nobody may be listening.
        self.of_all.send(News::Deliveries).ok();
    }

    /// Tells what is durable now.
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

    /// Tells a piece of text as it is written, without what could deceive the eye: whoever looks on shows it as it
    /// comes. Each piece by itself: of a sequence that lies across two its visible rest stays, never its escape.
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

    /// The same for what a command writes.
    pub(crate) fn tell_output(&self, task_id: &TaskId, call_id: String, text: &str) {
        let mut rooms = self.rooms();
        let Some(own) = rooms.writing.get_mut(task_id) else { return };
        let (after, text) = own.write(Some(&call_id), text);
        rooms.tell(task_id, News::Live { kind: LiveKind::Output, text, call_id: Some(call_id), after });
    }

    fn tell(&self, rooms: &Rooms, task_id: &TaskId, news: News) {
        rooms.tell(task_id, news.clone());
        // Nobody may be listening.
        self.of_all.send(news).ok();
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    fn tell(&self, task_id: &TaskId, news: News) {
        if let Some(listeners) = self.of_one.get(task_id) {
            // They may have gone.
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

    /// Remembers a piece; says after which event its text began, and what is plain of it.
    fn write(&mut self, call_id: Option<&String>, piece: &str) -> (Seq, String) {
        let open = self.open_text(call_id);
        let piece = open.add(piece);
        (open.after, piece)
    }

    /// The text that goes on: that of this call, or the message.
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
    /// Whether the log has all of it with this line.
    pub fn ends_with(&self, event: &Event) -> bool {
        match &self.call_id {
            None => event.line.ends_text(),
            Some(call_id) => {
                matches!(event.line, Line::TurnEnded(_)) || event.line.ended_call() == Some(call_id)
            }
        }
    }

    /// Adds a piece; gives what is plain of it.
    fn add(&mut self, piece: &str) -> String {
        // What may follow a picture is told by the picture, which may have ended the piece before.
        let last = self.text.chars().next_back().map(String::from).unwrap_or_default();
        let joined = format!("{last}{piece}");
        let piece =
            plain(&joined).strip_prefix(&last).map_or_else(|| plain(piece).into_owned(), str::to_owned);
        self.text.push_str(&piece);
        let most = if self.call_id.is_some() { OUTPUT_MAX_BYTES } else { TEXT_MAX_BYTES };
        if self.text.len() > most {
            // Less than may be kept, so that not every piece moves all of it.
            let cut = self.text.ceil_char_boundary(self.text.len() - most / 4 * 3);
            self.text.drain(..cut);
            self.left_out_bytes += cut;
        }
        piece
    }
}

#[cfg(test)]
mod tests;
