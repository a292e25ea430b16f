//! A task's log as entries of a page: a call and its end are one, a question and its answer are one.
//!
//! Pure: gets stored events and gives what the templates show. Every text comes redacted; deceptive characters are
//! taken out here, and what is too long for a view is cut with its size.

use std::collections::HashMap;

use codex_bridge_core::event::{Event, Line, Seq, TurnStarted};
use codex_bridge_core::task::{Status, TurnRecord};
use redact::plain::plain;

use super::cut::{Shown, cut, size};
use super::diff::{self, File};
use super::links::Links;
use super::{markdown, words};
use crate::transcript::{CallEnd, Note, Part, part};

/// What is shown of a command's output: its beginning and its end.
const OUTPUT_BYTES: (usize, usize) = (4 * 1024, 12 * 1024);
/// What is shown of a command or of arguments.
const CALL_BYTES: (usize, usize) = (4 * 1024, 1024);
/// What is shown of a message.
const MESSAGE_BYTES: (usize, usize) = (96 * 1024, 16 * 1024);
/// What is shown of a prompt.
const PROMPT_BYTES: usize = 16 * 1024;
/// Lines of a prompt that are shown before it is unfolded.
const PROMPT_LINES: usize = 6;
/// What these lines may be.
const PROMPT_BEGINNING_BYTES: usize = 1000;
/// Prompts of logs that do not have them are known up to here.
const SUMMARY_CHARS: usize = 200;
/// Lines of a diff that are shown.
const DIFF_LINES: usize = 1500;

/// One entry of the timeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Names it on the page: a later version of it has the same name.
    pub key: String,
    /// The event that its texts can be had from whole.
    pub seq: Seq,
    /// The last event that is in it.
    pub last: Seq,
    /// When it began.
    pub at: String,
    /// What it is.
    pub what: What,
}

/// What an entry is.
#[derive(Debug, Clone, PartialEq)]
pub enum What {
    /// A turn began with this prompt.
    Prompt(Prompt),
    /// Codex said something: safe HTML.
    Message {
        /// The HTML.
        html: String,
        /// How much is missing at its end.
        missing: Option<String>,
    },
    /// A summary of what Codex thought: safe HTML.
    Thought {
        /// The HTML.
        html: String,
        /// How much is missing at its end.
        missing: Option<String>,
    },
    /// A command or another tool.
    Call(Call),
    /// What the turn changed.
    Diff(Vec<File>),
    /// Codex asked something.
    Asked {
        /// The question in one line.
        title: String,
        /// Which request.
        request_id: String,
        /// What came of it; none while it is open.
        outcome: Option<String>,
    },
    /// A line about the turn itself.
    Note {
        /// `wait`, `bad` or `quiet`.
        tone: &'static str,
        /// The line.
        text: String,
    },
}

/// What a turn began with.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// Which turn.
    pub number: u32,
    /// The first lines of a long prompt, which is folded.
    pub beginning: Option<String>,
    /// The prompt, as far as it is shown.
    pub text: String,
    /// How much more there is to be had.
    pub missing: Option<String>,
    /// What cannot be had any more, in words.
    pub lost: Option<String>,
}

/// A command or another tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// `waiting` (for an answer), `running`, `good` or `bad`.
    pub state: &'static str,
    /// What is to be done in one line.
    pub head: String,
    /// All of it, if it is more than that line.
    pub whole: Option<Shown>,
    /// How it ended, beyond good or bad: `exit 1 · 2.0 s`.
    pub ending: String,
    /// What it wrote.
    pub output: Shown,
    /// Output is shown at once when something went wrong.
    pub is_open: bool,
}

/// Reads events into entries.
#[derive(Debug, Default)]
pub struct Timeline {
    entries: Vec<Entry>,
    /// Where the entry of a call or a request is.
    places: HashMap<String, usize>,
    /// The calls that wait for an answer, by their requests.
    asked_by: HashMap<String, String>,
    prompts: HashMap<String, (u32, String)>,
    last_message: String,
    /// Where links may lead.
    links: Links,
}

impl Timeline {
    /// A timeline of a task with these turns.
    pub fn new(turns: &[TurnRecord], links: Links) -> Self {
        let prompt = |turn: &TurnRecord| {
            Some((turn.turn_id.as_ref()?.0.clone(), (turn.number, turn.prompt_summary.clone())))
        };
        Self { prompts: turns.iter().filter_map(prompt).collect(), links, ..Self::default() }
    }

    /// The entries of which something happened after this event.
    pub fn since(self, after: Seq) -> Vec<Entry> {
        self.entries.into_iter().filter(|entry| entry.last > after).collect()
    }

    /// Reads one event.
    pub fn read(&mut self, event: &Event) {
        let Some(part) = part(&event.line) else { return };
        match part {
            Part::Prompt(started) => self.turn_started(event, started),
            Part::Message(text) => self.message(event, text),
            Part::Thought(text) => self.thought(event, text),
            Part::CallBegan { call_id, announced } => {
                self.push(event, Some(format!("call-{call_id}")), What::Call(begun(&announced)));
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

    fn push(&mut self, event: &Event, key: Option<String>, what: What) {
        if let Some(key) = &key {
            self.places.insert(key.clone(), self.entries.len());
        }
        let key = key.unwrap_or_else(|| format!("e{}", event.seq));
        let at = words::moment(event.at);
        self.entries.push(Entry { key, seq: event.seq, last: event.seq, at, what });
    }

    fn turn_started(&mut self, event: &Event, started: &TurnStarted) {
        let listed = self.prompts.get(started.turn_id.as_str());
        let Some(number) = started.number.or(listed.map(|(number, _)| *number)) else { return };
        let what = match (started.prompt.as_deref(), listed) {
            (Some(whole), _) => {
                let lost =
                    started.prompt_cut_bytes.map(|bytes| format!("{} more were not kept", size(bytes)));
                What::Prompt(prompt(number, whole, lost))
            }
            // One of an older log, or of a disk without space.
            (None, Some((_, beginning))) => {
                let is_cut = beginning.chars().count() >= SUMMARY_CHARS;
                let lost = is_cut.then(|| "only the beginning was kept".to_owned());
                What::Prompt(prompt(number, beginning, lost))
            }
            (None, None) => return,
        };
        self.push(event, None, what);
    }

    fn message(&mut self, event: &Event, message: &str) {
        message.clone_into(&mut self.last_message);
        let shown = cut(message, MESSAGE_BYTES.0, MESSAGE_BYTES.1);
        let html = match &shown.missing {
            None => markdown::to_html(&shown.head, &self.links),
            // Half a structure is none: a cut text is shown as it is.
            Some(_) => format!("<pre>{}</pre>", markdown::escaped(&plain(&shown.head))),
        };
        self.push(event, None, What::Message { html, missing: shown.missing });
    }

    fn thought(&mut self, event: &Event, thought: &str) {
        let shown = cut(thought, MESSAGE_BYTES.0, MESSAGE_BYTES.1);
        self.push(
            event,
            None,
            What::Thought { html: markdown::to_html(&shown.head, &self.links), missing: shown.missing },
        );
    }

    fn call_ended(&mut self, event: &Event, end: &CallEnd<'_>) {
        let key = format!("call-{}", end.call_id);
        let place = self.places.get(&key).copied();
        let begun = place.and_then(|place| match &self.entries[place].what {
            What::Call(call) => Some(call.clone()),
            _ => None,
        });
        // Its beginning may be further back than was read.
        let ended = What::Call(ended(begun.unwrap_or_else(|| self::begun(end.name)), end));
        match place {
            Some(place) => {
                let entry = &mut self.entries[place];
                (entry.what, entry.last, entry.seq) = (ended, event.seq, event.seq);
            }
            None => self.push(event, Some(key), ended),
        }
    }

    fn asked(&mut self, event: &Event, request_id: &str, call_id: Option<&str>, title: &str) {
        let call = format!("call-{}", call_id.unwrap_or_default());
        self.turn_call(event, &call, "running", "waiting");
        self.asked_by.insert(request_id.to_owned(), call);
        let (title, request_id) = (plain(title).into_owned(), request_id.to_owned());
        let key = format!("asked-{request_id}");
        self.push(event, Some(key), What::Asked { title, request_id, outcome: None });
    }

    /// A call that was so is so now.
    fn turn_call(&mut self, event: &Event, key: &str, from: &str, to: &'static str) {
        let Some(place) = self.places.get(key) else { return };
        let entry = &mut self.entries[*place];
        if let What::Call(call) = &mut entry.what
            && call.state == from
        {
            (call.state, entry.last) = (to, event.seq);
        }
    }

    fn answered(&mut self, event: &Event, request_id: &str, said: String) {
        let key = format!("asked-{request_id}");
        if let Some(call) = self.asked_by.remove(request_id) {
            self.turn_call(event, &call, "waiting", "running");
        }
        let Some(place) = self.places.get(&key) else {
            let (title, request_id) = ("Codex asked something".to_owned(), request_id.to_owned());
            return self.push(event, Some(key), What::Asked { title, request_id, outcome: Some(said) });
        };
        let entry = &mut self.entries[*place];
        entry.last = event.seq;
        if let What::Asked { outcome, .. } = &mut entry.what {
            *outcome = Some(said);
        }
    }

    fn diff(&mut self, event: &Event, diff: &str) {
        let mut files = diff::files(diff);
        if files.is_empty() {
            return;
        }
        diff::bound(&mut files, DIFF_LINES);
        self.push(event, None, What::Diff(files));
    }

    fn state(&mut self, event: &Event, status: Status, reason: Option<&str>) {
        let (tone, words) = match status {
            Status::Paused => ("wait", "Paused"),
            Status::Lost => ("bad", "Lost"),
            Status::Cancelled => ("quiet", "Stopped"),
            Status::Failed => ("bad", "Failed"),
            Status::Completed => ("quiet", "Done"),
            _ => return,
        };
        let said = reason.map_or_else(|| words.to_owned(), |reason| format!("{words}: {reason}"));
        self.note(event, tone, &said);
    }

    fn turn_ended(&mut self, event: &Event, answer: Option<&str>, error: Option<&str>) {
        let untold = answer.filter(|answer| !answer.is_empty() && *answer != self.last_message);
        if let Some(answer) = untold {
            self.message(event, answer);
        }
        if let Some(error) = error {
            let key = format!("e{}-error", event.seq);
            let text = cut(&plain(error), CALL_BYTES.0, CALL_BYTES.1).head;
            self.push(event, Some(key), What::Note { tone: "bad", text });
        }
    }

    fn note(&mut self, event: &Event, tone: &'static str, said: &str) {
        let text = cut(&plain(said), CALL_BYTES.0, CALL_BYTES.1).head;
        self.push(event, None, What::Note { tone, text });
    }
}

/// A call that runs.
fn begun(announced: &str) -> Call {
    let said = plain(announced);
    let first = said.lines().next().unwrap_or_default();
    let head = cut(first, 160, 0).head;
    let is_whole = head.len() == said.len();
    let whole = (!is_whole).then(|| cut(&said, CALL_BYTES.0, CALL_BYTES.1));
    Call { state: "running", head, whole, ending: String::new(), output: Shown::default(), is_open: false }
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

/// With a capital letter: a remark stands by itself.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(chars).collect()
}

fn prompt(number: u32, whole: &str, lost: Option<String>) -> Prompt {
    let Shown { head: text, missing, .. } = cut(plain(whole).trim_end(), PROMPT_BYTES, 0);
    let end = text.match_indices('\n').nth(PROMPT_LINES - 1).map_or(text.len(), |(end, _)| end);
    let end = text.floor_char_boundary(end.min(PROMPT_BEGINNING_BYTES));
    let beginning = (end < text.len()).then(|| text[..end].to_owned());
    Prompt { number, beginning, text, missing, lost }
}

/// All text of an event, for those who want what the timeline cuts.
pub fn whole_text(event: &Event) -> String {
    let said = match &event.line {
        Line::Message(message) => &message.text,
        Line::Thought(thought) => &thought.text,
        Line::ToolCompleted(call) => &call.result,
        Line::Diff(line) => &line.diff,
        Line::TurnStarted(TurnStarted { prompt: Some(prompt), .. }) => prompt,
        other => &serde_json::to_string_pretty(other).unwrap_or_default(),
    };
    plain(said).into_owned()
}

#[cfg(test)]
mod tests;
