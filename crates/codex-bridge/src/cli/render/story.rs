//! A task's log as people read it: what was said, what was run, what came of it.
//!
//! Gets events one by one, as they are stored, and gives lines. What it must remember between them is which call
//! began with which command, and what stands right above. Draws no status line and asks nothing.

use std::collections::HashMap;

use codex_bridge_core::diff::{self, Fate};
use codex_bridge_core::task::Status;
use redact::plain::plain;

use super::fold::{Fold, fold};
use super::paint::Paint;
use super::width::{cut, wrap};
use crate::amount::counted;
use crate::transcript::{CallEnd, Note, Part, part};
use crate::view::{Aside, Event, Told};

/// Files that a change names before it only counts them.
const MAX_FILES: usize = 12;

/// Tells a task's log.
#[derive(Debug)]
pub struct Story {
    paint: Paint,
    room: usize,
    /// Calls that have begun and not ended: how each was announced.
    calls: HashMap<String, String>,
    above: Above,
    last_message: String,
}

/// What stands right above the next line.
#[derive(Debug, PartialEq, Eq)]
enum Above {
    Nothing,
    Call(String),
    Other,
}

impl Story {
    /// A story for lines of this many columns.
    pub fn new(paint: Paint, room: usize) -> Self {
        Self { paint, room, calls: HashMap::new(), above: Above::Nothing, last_message: String::new() }
    }

    /// The window has changed.
    pub fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// The lines of an event; most have one, many have none.
    pub fn tell(&mut self, event: &Event) -> Vec<String> {
        match &event.told {
            Told::Aside(Aside::Gap { from, to }) => {
                self.note(&self.paint.waiting("!"), &format!("lines {from} to {to} are no longer kept"))
            }
            Told::Aside(Aside::Live(_)) => Vec::new(),
            Told::Line(line) => part(line).map(|part| self.draw(part)).unwrap_or_default(),
        }
    }

    fn draw(&mut self, part: Part<'_>) -> Vec<String> {
        match part {
            Part::Message(text) => self.message(text),
            Part::CallBegan { call_id, announced } => self.call_began(call_id, announced),
            Part::CallEnded(end) => self.call_ended(&end),
            Part::Asked { title, .. } => {
                let mut lines = self.before_question();
                lines.extend(self.signed(&self.paint.waiting("?"), title));
                lines
            }
            Part::Answered { outcome, .. } => self.signed(&self.paint.waiting("→"), &outcome),
            Part::Note(about, text) => self.note(&self.paint.waiting(sign(about)), &text),
            Part::Changes(diff) => self.diff(diff),
            Part::State { status, reason } => self.state(status, reason),
            Part::TurnEnded { answer, error } => self.turn_ended(answer, error),
            Part::Prompt(_) | Part::Thought(_) => Vec::new(),
        }
    }

    /// A message that was shown while it was written: nothing is to be said again.
    pub fn message_was_shown(&mut self, message: &str) {
        message.clone_into(&mut self.last_message);
        self.above = Above::Other;
    }

    /// What must stand before a text that is shown while it is written.
    pub fn before_message(&mut self) -> Vec<String> {
        self.gap(Above::Other)
    }

    /// What must stand before a question. Its call is still the last thing that was said: the question is about it.
    pub fn before_question(&mut self) -> Vec<String> {
        let above = std::mem::replace(&mut self.above, Above::Nothing);
        let is_first = above == Above::Nothing;
        self.above = if is_first { Above::Other } else { above };
        if is_first { Vec::new() } else { vec![String::new()] }
    }

    /// An empty line between blocks.
    fn gap(&mut self, next: Above) -> Vec<String> {
        let is_first = std::mem::replace(&mut self.above, next) == Above::Nothing;
        if is_first { Vec::new() } else { vec![String::new()] }
    }

    fn message(&mut self, message: &str) -> Vec<String> {
        message.clone_into(&mut self.last_message);
        let mut lines = self.gap(Above::Other);
        lines.extend(wrap(plain(message).trim_end(), self.room));
        lines
    }

    fn call_began(&mut self, call_id: &str, announced: String) -> Vec<String> {
        let mut lines = self.gap(Above::Call(call_id.to_owned()));
        lines.extend(self.announce(&announced));
        self.calls.insert(call_id.to_owned(), announced);
        lines
    }

    fn announce(&self, announced: &str) -> Vec<String> {
        let folded = fold(announced);
        let shown = folded.iter().enumerate().flat_map(|(index, part)| {
            let indent = if index == 0 { "" } else { "  " };
            let room = self.room.saturating_sub(indent.len());
            match part {
                Fold::Line(line) => wrap(line, room),
                Fold::Hidden(count) => vec![format!("… {}", counted(*count, "more line"))],
            }
            .into_iter()
            .map(move |line| format!("{indent}{line}"))
        });
        shown.map(|line| self.paint.strong(&line)).collect()
    }

    fn call_ended(&mut self, end: &CallEnd<'_>) -> Vec<String> {
        let announced = self.calls.remove(end.call_id);
        let mut lines = Vec::new();
        if self.above != Above::Call(end.call_id.to_owned()) {
            // Something stands between: say again what this belongs to.
            lines = self.gap(Above::Other);
            let announced = announced.unwrap_or_else(|| end.name.to_owned());
            lines.push(self.paint.strong(&cut(&announced, self.room)));
        }
        self.above = Above::Other;
        lines.extend(self.output(end.output));
        let sign = if end.is_error { self.paint.bad("✗") } else { self.paint.good("✓") };
        lines.push(format!("  {sign} {}", self.paint.faint(&end.ending)).trim_end().to_owned());
        lines
    }

    fn output(&self, output: &str) -> Vec<String> {
        let output = plain(output);
        let room = self.room.saturating_sub(4);
        let line = |fold: &Fold<'_>| match fold {
            Fold::Line(line) => format!("  │ {}", cut_kept(line, room)),
            Fold::Hidden(count) => format!("  │ … {} …", counted(*count, "more line")),
        };
        fold(&output).iter().map(|part| self.paint.faint(line(part).trim_end())).collect()
    }

    fn state(&mut self, status: Status, reason: Option<&str>) -> Vec<String> {
        match status {
            Status::Paused | Status::Lost | Status::Cancelled | Status::Failed | Status::Interrupting => {
                let said = reason.map_or_else(|| status.to_string(), |reason| format!("{status}: {reason}"));
                self.note(&self.paint.waiting("!"), &said)
            }
            _ => Vec::new(),
        }
    }

    fn turn_ended(&mut self, answer: Option<&str>, error: Option<&str>) -> Vec<String> {
        let untold = answer.filter(|answer| !answer.is_empty() && *answer != self.last_message);
        let mut lines = untold.map(|answer| self.message(answer)).unwrap_or_default();
        if let Some(error) = error {
            lines.extend(self.note(&self.paint.bad("✗"), error));
        }
        lines
    }

    fn diff(&mut self, diff: &str) -> Vec<String> {
        let mut files = diff::files(diff);
        files.retain(diff::File::is_named);
        if files.is_empty() {
            return Vec::new();
        }
        let mut lines = self.gap(Above::Other);
        lines.extend(self.files(&files));
        lines
    }

    fn files(&self, files: &[diff::File]) -> Vec<String> {
        let mut lines = vec![self.paint.strong(&format!("{} changed", counted(files.len(), "file")))];
        for file in files.iter().take(MAX_FILES) {
            let counts = format!("+{} -{}", file.added, file.removed);
            let fate = match file.fate {
                Fate::New => " (new)",
                Fate::Deleted => " (deleted)",
                Fate::Moved => " (moved)",
                Fate::Changed => "",
            };
            let room = self.room.saturating_sub(counts.len() + fate.len() + 4);
            let path = cut(&plain(&file.path), room);
            let counts = format!(
                "{} {}",
                self.paint.good(&format!("+{}", file.added)),
                self.paint.bad(&format!("-{}", file.removed))
            );
            lines.push(format!("  {path}  {counts}{fate}"));
        }
        if files.len() > MAX_FILES {
            lines.push(self.paint.faint(&format!("  … {} more", files.len() - MAX_FILES)));
        }
        lines
    }

    /// A block of its own with a sign before it.
    fn note(&mut self, sign: &str, said: &str) -> Vec<String> {
        let mut lines = self.gap(Above::Other);
        lines.extend(self.signed(sign, said));
        lines
    }

    fn signed(&self, sign: &str, said: &str) -> Vec<String> {
        let mut lines = wrap(plain(said).trim_end(), self.room.saturating_sub(2)).into_iter();
        let first = format!("{sign} {}", lines.next().unwrap_or_default());
        std::iter::once(first).chain(lines.map(|line| format!("  {line}"))).collect()
    }
}

/// What stands before a remark.
fn sign(about: Note) -> &'static str {
    match about {
        Note::Warning => "!",
        Note::Declined => "→",
        Note::TerminalInput => "$",
        Note::Steered => "+",
    }
}

/// Like [`cut`], but what stands at the beginning of a line stays: output is often a table.
fn cut_kept(line: &str, room: usize) -> String {
    let line = line.replace('\t', "    ");
    if super::width::columns(&line) <= room {
        return line;
    }
    let indent: String = line.chars().take_while(|char| *char == ' ').take(room / 2).collect();
    let mut kept = String::new();
    let mut used = indent.len() + 1;
    for char in line.trim_start().chars() {
        used += super::width::char_columns(char);
        if used > room {
            break;
        }
        kept.push(char);
    }
    format!("{indent}{kept}…")
}

#[cfg(test)]
mod tests;
