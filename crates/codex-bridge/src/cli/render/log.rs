//! Renders a task's log for people: messages, commands and their results, requests.
//!
//! Takes events one by one and gives lines. Remembers the headlines of running calls, and the kind of the block above.

use std::collections::HashMap;

use codex_bridge_core::diff::{self, Fate};
use codex_bridge_core::task::Status;
use redact::plain::plain;

use super::fold::{Fold, fold};
use super::paint::Paint;
use super::width::{beginning, columns, cut, wrap};
use crate::amount::counted;
use crate::transcript::{CallEnd, Note, Part, part};
use crate::view::{Event, EventContent, Unlogged};

/// The number of changed files that are named; more are only counted.
const MAX_FILES: usize = 12;

/// Renders a task's log.
#[derive(Debug)]
pub struct LogRenderer {
    paint: Paint,
    width: usize,
    /// The headlines of running calls, by call id.
    calls: HashMap<String, String>,
    above: BlockAbove,
    last_message: String,
}

/// The block above the next line.
#[derive(Debug, PartialEq, Eq)]
enum BlockAbove {
    Nothing,
    Call(String),
    Other,
}

impl LogRenderer {
    /// A renderer for lines of this width.
    pub fn new(paint: Paint, width: usize) -> Self {
        Self { paint, width, calls: HashMap::new(), above: BlockAbove::Nothing, last_message: String::new() }
    }

    /// Changes the width, if the window was resized.
    pub fn set_width(&mut self, width: usize) {
        self.width = width;
    }

    /// The lines of an event. Many events have none.
    pub fn render(&mut self, event: &Event) -> Vec<String> {
        match &event.content {
            EventContent::Unlogged(Unlogged::Gap { from, to }) => {
                self.note(&self.paint.waiting("!"), &format!("events {from} to {to} are no longer stored"))
            }
            EventContent::Unlogged(Unlogged::Live(_)) => Vec::new(),
            EventContent::Line(line) => part(line).map(|part| self.draw(part)).unwrap_or_default(),
        }
    }

    fn draw(&mut self, part: Part<'_>) -> Vec<String> {
        match part {
            Part::Message(text) => self.message(text),
            Part::CallBegan { call_id, headline } => self.call_began(call_id, headline),
            Part::CallEnded(end) => self.call_ended(&end),
            Part::Asked { title, .. } => {
                let mut lines = self.before_question();
                lines.extend(self.with_sign(&self.paint.waiting("?"), title));
                lines
            }
            Part::Answered { outcome, .. } => self.with_sign(&self.paint.waiting("→"), &outcome),
            Part::Note(note, text) => self.note(&self.paint.waiting(sign(note)), &text),
            Part::Changes(diff) => self.diff(diff),
            Part::State { status, reason } => self.state(status, reason),
            Part::TurnEnded { answer, error } => self.turn_ended(answer, error),
            Part::Prompt(_) | Part::Thought(_) => Vec::new(),
        }
    }

    /// Records a message that was already shown while it was written.
    pub fn message_was_shown(&mut self, message: &str) {
        message.clone_into(&mut self.last_message);
        self.above = BlockAbove::Other;
    }

    /// The lines before a text that is shown while it is written.
    pub fn before_message(&mut self) -> Vec<String> {
        self.gap(BlockAbove::Other)
    }

    /// The lines before a question. The call above stays the current block, because the question is about it.
    pub fn before_question(&mut self) -> Vec<String> {
        let above = std::mem::replace(&mut self.above, BlockAbove::Nothing);
        let is_first = above == BlockAbove::Nothing;
        self.above = if is_first { BlockAbove::Other } else { above };
        if is_first { Vec::new() } else { vec![String::new()] }
    }

    /// An empty line between blocks.
    fn gap(&mut self, next: BlockAbove) -> Vec<String> {
        let is_first = std::mem::replace(&mut self.above, next) == BlockAbove::Nothing;
        if is_first { Vec::new() } else { vec![String::new()] }
    }

    fn message(&mut self, message: &str) -> Vec<String> {
        message.clone_into(&mut self.last_message);
        let mut lines = self.gap(BlockAbove::Other);
        lines.extend(wrap(plain(message).trim_end(), self.width));
        lines
    }

    fn call_began(&mut self, call_id: &str, headline: String) -> Vec<String> {
        let mut lines = self.gap(BlockAbove::Call(call_id.to_owned()));
        lines.extend(self.headline_lines(&headline));
        self.calls.insert(call_id.to_owned(), headline);
        lines
    }

    fn headline_lines(&self, headline: &str) -> Vec<String> {
        let folded = fold(headline);
        let shown = folded.iter().enumerate().flat_map(|(index, part)| {
            let indent = if index == 0 { "" } else { "  " };
            let width = self.width.saturating_sub(indent.len());
            match part {
                Fold::Line(line) => wrap(line, width),
                Fold::Hidden(count) => vec![format!("… {}", counted(*count, "more line"))],
            }
            .into_iter()
            .map(move |line| format!("{indent}{line}"))
        });
        shown.map(|line| self.paint.strong(&line)).collect()
    }

    fn call_ended(&mut self, end: &CallEnd<'_>) -> Vec<String> {
        let headline = self.calls.remove(end.call_id);
        let mut lines = Vec::new();
        if self.above != BlockAbove::Call(end.call_id.to_owned()) {
            // Another block is in between, so the headline is repeated.
            lines = self.gap(BlockAbove::Other);
            let headline = headline.unwrap_or_else(|| end.name.to_owned());
            lines.push(self.paint.strong(&cut(&headline, self.width)));
        }
        self.above = BlockAbove::Other;
        lines.extend(self.output(end.output));
        let sign = if end.is_error { self.paint.bad("✗") } else { self.paint.good("✓") };
        lines.push(format!("  {sign} {}", self.paint.faint(&end.ending)).trim_end().to_owned());
        lines
    }

    fn output(&self, output: &str) -> Vec<String> {
        let output = plain(output);
        let width = self.width.saturating_sub(4);
        let line = |fold: &Fold<'_>| match fold {
            Fold::Line(line) => format!("  │ {}", cut_output(line, width)),
            Fold::Hidden(count) => format!("  │ … {} …", counted(*count, "more line")),
        };
        fold(&output).iter().map(|part| self.paint.faint(line(part).trim_end())).collect()
    }

    fn state(&mut self, status: Status, reason: Option<&str>) -> Vec<String> {
        match status {
            Status::Paused | Status::Lost | Status::Cancelled | Status::Failed | Status::Interrupting => {
                let text = reason.map_or_else(|| status.to_string(), |reason| format!("{status}: {reason}"));
                self.note(&self.paint.waiting("!"), &text)
            }
            _ => Vec::new(),
        }
    }

    fn turn_ended(&mut self, answer: Option<&str>, error: Option<&str>) -> Vec<String> {
        let unshown = answer.filter(|answer| !answer.is_empty() && *answer != self.last_message);
        let mut lines = unshown.map(|answer| self.message(answer)).unwrap_or_default();
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
        let mut lines = self.gap(BlockAbove::Other);
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
            let width = self.width.saturating_sub(counts.len() + fate.len() + 4);
            let path = cut(&plain(&file.path), width);
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

    /// A separate block that begins with a sign.
    fn note(&mut self, sign: &str, text: &str) -> Vec<String> {
        let mut lines = self.gap(BlockAbove::Other);
        lines.extend(self.with_sign(sign, text));
        lines
    }

    fn with_sign(&self, sign: &str, text: &str) -> Vec<String> {
        let mut lines = wrap(plain(text).trim_end(), self.width.saturating_sub(2)).into_iter();
        let first = format!("{sign} {}", lines.next().unwrap_or_default());
        std::iter::once(first).chain(lines.map(|line| format!("  {line}"))).collect()
    }
}

fn sign(note: Note) -> &'static str {
    match note {
        Note::Warning => "!",
        Note::Declined => "→",
        Note::TerminalInput => "$",
        Note::Steered => "+",
    }
}

/// Like [`cut`], but keeps the indent and the blanks between columns, because output is often a table.
fn cut_output(line: &str, width: usize) -> String {
    let line = line.replace('\t', "    ");
    if columns(&line) <= width {
        return line;
    }
    let indent: String = line.chars().take_while(|char| *char == ' ').take(width / 2).collect();
    format!("{indent}{}…", beginning(line.trim_start(), width.saturating_sub(indent.len() + 1)))
}

#[cfg(test)]
mod tests;
