//! A task's log as entries of a page. A call and its end are one entry, and so are a request and its outcome.
//!
//! Pure: turns stored events into what the templates show. The texts are already redacted. Deceptive characters are
//! removed here, and long texts are shortened.

use std::collections::HashMap;

use codex_bridge_core::event::{Event, Line, Seq, TurnStarted};
use codex_bridge_core::task::{Status, TurnRecord};
use redact::plain::plain;

use super::cut::{Excerpt, cut, size};
use super::diff::{self, File};
use super::links::Links;
use super::{markdown, words};
use crate::transcript::{CallEnd, Note, Part, part};

/// The shown bytes of a command's output: beginning and end.
const OUTPUT_BYTES: (usize, usize) = (4 * 1024, 12 * 1024);
/// The shown bytes of a command or of arguments.
const CALL_BYTES: (usize, usize) = (4 * 1024, 1024);
/// The shown bytes of a message.
const MESSAGE_BYTES: (usize, usize) = (96 * 1024, 16 * 1024);
/// The shown bytes of a prompt.
const PROMPT_BYTES: usize = 16 * 1024;
/// The lines of a folded prompt.
const PROMPT_LINES: usize = 6;
/// The bytes of a folded prompt.
const PROMPT_BEGINNING_BYTES: usize = 1000;
/// Older logs have only this many characters of a prompt.
const SUMMARY_CHARS: usize = 200;
/// The shown lines of a diff.
const DIFF_LINES: usize = 1500;

/// One entry of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The id on the page. A later version of the entry has the same id.
    pub key: String,
    /// The event with the whole text.
    pub seq: Seq,
    /// The last event of the entry.
    pub last: Seq,
    /// The time of the first event.
    pub at: String,
    /// The content.
    pub kind: EntryKind,
}

/// The content of an entry.
#[derive(Debug, Clone, PartialEq)]
pub enum EntryKind {
    /// The prompt of a turn.
    Prompt(Prompt),
    /// A message of Codex.
    Message {
        /// The message as safe HTML.
        html: String,
        /// The size of what is missing at the end.
        missing: Option<String>,
    },
    /// A summary of Codex's reasoning.
    Thought {
        /// The message as safe HTML.
        html: String,
        /// The size of what is missing at the end.
        missing: Option<String>,
    },
    /// A command or another tool.
    Call(Call),
    /// The changes of the turn.
    Diff(Vec<File>),
    /// A request of Codex.
    Asked {
        /// The request in one line.
        title: String,
        /// The id of the request.
        request_id: String,
        /// The outcome. `None` while the request is open.
        outcome: Option<String>,
    },
    /// A note about the turn.
    Note {
        /// `wait`, `bad` or `quiet`.
        tone: &'static str,
        /// The note.
        text: String,
    },
}

/// The prompt of a turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// The number of the turn.
    pub number: u32,
    /// The first lines, if the prompt is folded.
    pub beginning: Option<String>,
    /// The prompt, shortened if it is long.
    pub text: String,
    /// The size of what is not shown.
    pub missing: Option<String>,
    /// A sentence about what was not stored.
    pub lost: Option<String>,
}

/// A command or another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `waiting` (for a decision), `running`, `good` or `bad`.
    pub state: &'static str,
    /// The command or tool in one line.
    pub head: String,
    /// The whole command, if it has more than that line.
    pub whole: Option<Excerpt>,
    /// The result: `exit 1 · 2.0 s`.
    pub ending: String,
    /// The output.
    pub output: Excerpt,
    /// Whether the output is unfolded, as it is for a failed call.
    pub is_open: bool,
}

/// Turns events into entries.
#[derive(Debug, Default)]
pub struct Timeline {
    entries: Vec<Entry>,
    /// The index of the entry of each call and request.
    positions: HashMap<String, usize>,
    /// The call of each open request.
    waiting_calls: HashMap<String, String>,
    prompts: HashMap<String, (u32, String)>,
    last_message: String,
    /// The rule for links.
    links: Links,
}

impl Timeline {
    /// An empty timeline for a task with these turns.
    pub fn new(turns: &[TurnRecord], links: Links) -> Self {
        let prompt = |turn: &TurnRecord| {
            Some((turn.turn_id.as_ref()?.0.clone(), (turn.number, turn.prompt_summary.clone())))
        };
        Self { prompts: turns.iter().filter_map(prompt).collect(), links, ..Self::default() }
    }

    /// The entries that changed after this event.
    pub fn since(self, after: Seq) -> Vec<Entry> {
        self.entries.into_iter().filter(|entry| entry.last > after).collect()
    }

    /// Adds one event.
    pub fn read(&mut self, event: &Event) {
        let Some(part) = part(&event.line) else { return };
        match part {
            Part::Prompt(started) => self.turn_started(event, started),
            Part::Message(text) => self.message(event, text),
            Part::Thought(text) => self.thought(event, text),
            Part::CallBegan { call_id, headline } => {
                self.push(event, Some(format!("call-{call_id}")), EntryKind::Call(begun(&headline)));
            }
            Part::CallEnded(end) => self.call_ended(event, &end),
            Part::Asked { request_id, call_id, title } => self.asked(event, request_id, call_id, title),
            Part::Answered { request_id, outcome } => self.answered(event, request_id, outcome),
            Part::Changes(diff) => self.diff(event, diff),
            Part::State { status, reason } => self.state(event, status, reason),
            Part::TurnEnded { answer, error } => self.turn_ended(event, answer, error),
            Part::Note(Note::Steered, text) => self.note(event, "quiet", &capitalised(&text)),
            Part::Note(_, text) => self.note(event, "wait", &capitalised(&text)),
        }
    }

    fn push(&mut self, event: &Event, key: Option<String>, kind: EntryKind) {
        if let Some(key) = &key {
            self.positions.insert(key.clone(), self.entries.len());
        }
        let key = key.unwrap_or_else(|| format!("e{}", event.seq));
        let at = words::moment(event.at);
        self.entries.push(Entry { key, seq: event.seq, last: event.seq, at, kind });
    }

    fn turn_started(&mut self, event: &Event, started: &TurnStarted) {
        let listed = self.prompts.get(started.turn_id.as_str());
        let Some(number) = started.number.or(listed.map(|(number, _)| *number)) else { return };
        let kind = match (started.prompt.as_deref(), listed) {
            (Some(whole), _) => {
                let lost =
                    started.prompt_cut_bytes.map(|bytes| format!("{} more were not stored", size(bytes)));
                EntryKind::Prompt(prompt(number, whole, lost))
            }
            // The log is of an older version, or the disk was full.
            (None, Some((_, beginning))) => {
                let is_cut = beginning.chars().count() >= SUMMARY_CHARS;
                let lost = is_cut.then(|| "only the beginning was stored".to_owned());
                EntryKind::Prompt(prompt(number, beginning, lost))
            }
            (None, None) => return,
        };
        self.push(event, None, kind);
    }

    fn message(&mut self, event: &Event, message: &str) {
        message.clone_into(&mut self.last_message);
        let shown = cut(message, MESSAGE_BYTES.0, MESSAGE_BYTES.1);
        let html = match &shown.missing {
            None => markdown::to_html(&shown.head, &self.links),
            // Cut Markdown may render wrongly, so it is shown as plain text.
            Some(_) => format!("<pre>{}</pre>", markdown::escaped(&plain(&shown.head))),
        };
        self.push(event, None, EntryKind::Message { html, missing: shown.missing });
    }

    fn thought(&mut self, event: &Event, thought: &str) {
        let shown = cut(thought, MESSAGE_BYTES.0, MESSAGE_BYTES.1);
        self.push(
            event,
            None,
            EntryKind::Thought { html: markdown::to_html(&shown.head, &self.links), missing: shown.missing },
        );
    }

    fn call_ended(&mut self, event: &Event, end: &CallEnd<'_>) {
        let key = format!("call-{}", end.call_id);
        let index = self.positions.get(&key).copied();
        let begun = index.and_then(|index| match &self.entries[index].kind {
            EntryKind::Call(call) => Some(call.clone()),
            _ => None,
        });
        // The call may have begun before the events that were read.
        let ended = EntryKind::Call(ended(begun.unwrap_or_else(|| self::begun(end.name)), end));
        match index {
            Some(index) => {
                let entry = &mut self.entries[index];
                (entry.kind, entry.last, entry.seq) = (ended, event.seq, event.seq);
            }
            None => self.push(event, Some(key), ended),
        }
    }

    fn asked(&mut self, event: &Event, request_id: &str, call_id: Option<&str>, title: &str) {
        let call = format!("call-{}", call_id.unwrap_or_default());
        self.change_call_state(event, &call, "running", "waiting");
        self.waiting_calls.insert(request_id.to_owned(), call);
        let (title, request_id) = (plain(title).into_owned(), request_id.to_owned());
        let key = format!("asked-{request_id}");
        self.push(event, Some(key), EntryKind::Asked { title, request_id, outcome: None });
    }

    /// Changes the state of a call, if it is `from`.
    fn change_call_state(&mut self, event: &Event, key: &str, from: &str, to: &'static str) {
        let Some(index) = self.positions.get(key) else { return };
        let entry = &mut self.entries[*index];
        if let EntryKind::Call(call) = &mut entry.kind
            && call.state == from
        {
            (call.state, entry.last) = (to, event.seq);
        }
    }

    fn answered(&mut self, event: &Event, request_id: &str, result: String) {
        let key = format!("asked-{request_id}");
        if let Some(call) = self.waiting_calls.remove(request_id) {
            self.change_call_state(event, &call, "waiting", "running");
        }
        let Some(index) = self.positions.get(&key) else {
            let (title, request_id) = ("Codex asked something".to_owned(), request_id.to_owned());
            return self.push(
                event,
                Some(key),
                EntryKind::Asked { title, request_id, outcome: Some(result) },
            );
        };
        let entry = &mut self.entries[*index];
        entry.last = event.seq;
        if let EntryKind::Asked { outcome, .. } = &mut entry.kind {
            *outcome = Some(result);
        }
    }

    fn diff(&mut self, event: &Event, diff: &str) {
        let mut files = diff::files(diff);
        if files.is_empty() {
            return;
        }
        diff::bound(&mut files, DIFF_LINES);
        self.push(event, None, EntryKind::Diff(files));
    }

    fn state(&mut self, event: &Event, status: Status, reason: Option<&str>) {
        let tone = match status {
            Status::Paused => "wait",
            Status::Lost | Status::Failed => "bad",
            Status::Cancelled | Status::Completed => "quiet",
            _ => return,
        };
        let text = reason.map_or_else(|| status.to_string(), |reason| format!("{status}: {reason}"));
        let text = capitalised(&text);
        self.note(event, tone, &text);
    }

    fn turn_ended(&mut self, event: &Event, answer: Option<&str>, error: Option<&str>) {
        let unshown = answer.filter(|answer| !answer.is_empty() && *answer != self.last_message);
        if let Some(answer) = unshown {
            self.message(event, answer);
        }
        if let Some(error) = error {
            let key = format!("e{}-error", event.seq);
            let text = cut(&plain(error), CALL_BYTES.0, CALL_BYTES.1).head;
            self.push(event, Some(key), EntryKind::Note { tone: "bad", text });
        }
    }

    fn note(&mut self, event: &Event, tone: &'static str, text: &str) {
        let text = cut(&plain(text), CALL_BYTES.0, CALL_BYTES.1).head;
        self.push(event, None, EntryKind::Note { tone, text });
    }
}

/// A running call.
fn begun(announced: &str) -> Call {
    let text = plain(announced);
    let first = text.lines().next().unwrap_or_default();
    let head = cut(first, 160, 0).head;
    let is_whole = head.len() == text.len();
    let whole = (!is_whole).then(|| cut(&text, CALL_BYTES.0, CALL_BYTES.1));
    Call { state: "running", head, whole, ending: String::new(), output: Excerpt::default(), is_open: false }
}

fn ended(begun: Call, end: &CallEnd<'_>) -> Call {
    Call {
        state: if end.is_error { "bad" } else { "good" },
        ending: end.ending.clone(),
        output: cut(plain(end.output).trim_end(), OUTPUT_BYTES.0, OUTPUT_BYTES.1),
        is_open: end.is_error,
        ..begun
    }
}

/// The text with a capital letter at its beginning.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(chars).collect()
}

fn prompt(number: u32, whole: &str, lost: Option<String>) -> Prompt {
    let Excerpt { head: text, missing, .. } = cut(plain(whole).trim_end(), PROMPT_BYTES, 0);
    let end = text.match_indices('\n').nth(PROMPT_LINES - 1).map_or(text.len(), |(end, _)| end);
    let end = text.floor_char_boundary(end.min(PROMPT_BEGINNING_BYTES));
    let beginning = (end < text.len()).then(|| text[..end].to_owned());
    Prompt { number, beginning, text, missing, lost }
}

/// The whole text of an event.
pub fn whole_text(event: &Event) -> String {
    let text = match &event.line {
        Line::Message(message) => &message.text,
        Line::Thought(thought) => &thought.text,
        Line::ToolCompleted(call) => &call.result,
        Line::Diff(line) => &line.diff,
        Line::TurnStarted(TurnStarted { prompt: Some(prompt), .. }) => prompt,
        other => &serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    plain(text).into_owned()
}

#[cfg(test)]
mod tests;
