//! A task's log as people read it: what was said, what was run, what came of it.
//!
//! Gets events one by one, as they are stored, and gives lines. What it must remember between them is which call
//! began with which command, and what stands right above. Draws no status line and asks nothing.

use std::collections::HashMap;

use redact::plain::plain;
use serde_json::Value;

use super::amount::{counted, duration};
use super::diff::{self, Fate, FileSummary};
use super::fold::{Fold, fold};
use super::paint::Paint;
use super::width::{cut, one_line, wrap};
use crate::view::Event;

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
        let (kind, event) = (event.kind.as_str(), &Value::Object(event.body.clone()));
        match kind {
            "message" => self.message(text(event, "text")),
            "tool_started" => self.call_began(event),
            "tool_completed" => self.call_ended(event),
            "request" => {
                let mut lines = self.before_question();
                lines.extend(self.signed(&self.paint.waiting("?"), text(event, "title")));
                lines
            }
            "request_closed" => self.request_closed(event),
            "retrying" => {
                self.note(&self.paint.waiting("!"), &format!("trying again: {}", text(event, "message")))
            }
            "warning" | "notice" => self.note(&self.paint.waiting("!"), text(event, "message")),
            "request_decided" => policy_declined(event)
                .map(|said| self.note(&self.paint.waiting("→"), &said))
                .unwrap_or_default(),
            "terminal_input" => self.note(&self.paint.waiting("$"), &terminal_input(event)),
            "steered" => self.steered(event),
            "gap" => {
                let lost = format!("lines {} to {} are no longer kept", event["from"], event["to"]);
                self.note(&self.paint.waiting("!"), &lost)
            }
            "diff" => self.diff(text(event, "diff")),
            "state" => self.state(event),
            "turn_ended" => self.turn_ended(event),
            _ => Vec::new(),
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

    fn call_began(&mut self, event: &Value) -> Vec<String> {
        let call_id = text(event, "call_id");
        let announced = announcement(event);
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

    fn call_ended(&mut self, event: &Value) -> Vec<String> {
        let call_id = text(event, "call_id");
        let announced = self.calls.remove(call_id);
        let mut lines = Vec::new();
        if self.above != Above::Call(call_id.to_owned()) {
            // Something stands between: say again what this belongs to.
            lines = self.gap(Above::Other);
            let announced = announced.unwrap_or_else(|| text(event, "name").to_owned());
            lines.push(self.paint.strong(&cut(&announced, self.room)));
        }
        self.above = Above::Other;
        let (mark, output) = outcome(event);
        // A patch's result only repeats how it ended.
        if text(event, "name") != "apply_patch" {
            lines.extend(self.output(output));
        }
        lines.push(self.ending(event, mark));
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

    fn ending(&self, event: &Value, mark: Option<&str>) -> String {
        // A change takes no time of its own: what is counted is how long somebody thought about it.
        let is_change = text(event, "name") == "apply_patch";
        let took = event["duration_ms"].as_u64().filter(|_| !is_change).map(duration);
        let is_error = event["is_error"].as_bool().unwrap_or_default();
        let sign = if is_error { self.paint.bad("✗") } else { self.paint.good("✓") };
        let words: Vec<&str> = mark.into_iter().chain(took.as_deref()).collect();
        let words = if words.is_empty() && is_error { "failed".to_owned() } else { words.join(" · ") };
        format!("  {sign} {}", self.paint.faint(&words)).trim_end().to_owned()
    }

    fn request_closed(&self, event: &Value) -> Vec<String> {
        let by = match text(event, "decided_by") {
            "" => String::new(),
            by => format!(" by {by}"),
        };
        let said = match (text(event, "outcome"), text(event, "decision")) {
            ("orphaned", _) => "the question is gone: its turn or its host ended first".to_owned(),
            ("expired", _) => "nobody answered in time: declined".to_owned(),
            ("answered_elsewhere", _) => "answered elsewhere".to_owned(),
            (_, decision) => format!("{}{by}", decided(decision)),
        };
        self.signed(&self.paint.waiting("→"), &said)
    }

    fn steered(&mut self, event: &Value) -> Vec<String> {
        // An older log names it alone.
        if text(event, "text").is_empty() {
            return Vec::new();
        }
        self.note(&self.paint.waiting("+"), &steered(event))
    }

    fn state(&mut self, event: &Value) -> Vec<String> {
        let status = text(event, "status");
        let reason = text(event, "reason");
        match status {
            "paused" | "lost" | "cancelled" | "failed" | "interrupting" => {
                let said = if reason.is_empty() { status.to_owned() } else { format!("{status}: {reason}") };
                self.note(&self.paint.waiting("!"), &said)
            }
            _ => Vec::new(),
        }
    }

    fn turn_ended(&mut self, event: &Value) -> Vec<String> {
        let answer = text(event, "final_text");
        let mut lines = Vec::new();
        if !answer.is_empty() && answer != self.last_message {
            lines = self.message(answer);
        }
        let error = text(&event["error"], "message");
        if !error.is_empty() {
            lines.extend(self.note(&self.paint.bad("✗"), error));
        }
        lines
    }

    fn diff(&mut self, diff: &str) -> Vec<String> {
        let files = diff::summary(diff);
        if files.is_empty() {
            return Vec::new();
        }
        let mut lines = self.gap(Above::Other);
        lines.extend(self.files(&files));
        lines
    }

    fn files(&self, files: &[FileSummary]) -> Vec<String> {
        let mut lines = vec![self.paint.strong(&format!("{} changed", counted(files.len(), "file")))];
        for file in files.iter().take(MAX_FILES) {
            let counts = format!("+{} -{}", file.added, file.removed);
            let fate = match file.fate {
                Fate::Added => " (new)",
                Fate::Deleted => " (deleted)",
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

/// What was added to a turn, and by whom as far as that is known.
pub fn steered(event: &Value) -> String {
    let by = event["by"].as_str().map(|by| format!(" by {by}")).unwrap_or_default();
    format!("added{by}: {}", text(event, "text"))
}

/// What was typed into a running command, and into which as far as that is known.
pub fn terminal_input(event: &Value) -> String {
    let command = match text(event, "command") {
        "" => "a running command".to_owned(),
        command => format!("the running command {}", one_line(&bare_command(command))),
    };
    let cut = match event["text_cut_bytes"].as_u64() {
        None | Some(0) => String::new(),
        Some(bytes) => format!(" … ({bytes} more bytes)"),
    };
    format!("input to {command}: {}{cut}", text(event, "text").trim_end_matches('\n'))
}

/// What the operator's settings declined, and why; none for what they accepted, which shows in what was run.
pub fn policy_declined(event: &Value) -> Option<String> {
    let closing = &event["closing"];
    let (decision, reason) = (closing["decision"].as_str()?, closing["by"]["detail"].as_str()?);
    (decision == "decline").then(|| format!("declined without asking: {reason}"))
}

/// How a call is announced: a command as it would be typed, a change by its files, a tool by its arguments.
fn announcement(event: &Value) -> String {
    let args = &event["args"];
    let said = match (text(event, "name"), args["command"].as_str()) {
        ("exec_command", Some(command)) => format!("$ {}", bare_command(command)),
        ("apply_patch", _) => changes(args),
        (name, _) => format!("{name} {}", text(event, "preview")),
    };
    plain(said.trim_end()).into_owned()
}

fn changes(args: &Value) -> String {
    let changes = args["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let named =
        changes.iter().map(|change| format!("{} {}", text(change, "kind"), one_line(text(change, "path"))));
    let named: Vec<String> = named.collect();
    if named.is_empty() { "change files".to_owned() } else { named.join("\n") }
}

/// A command without the shell that Codex wraps around it: codex 0.166 reports `/bin/bash -c 'ls'` for `ls`, and `-lc` for
/// a login shell.
pub fn bare_command(command: &str) -> String {
    let inner = ["/bin/bash", "/usr/bin/bash", "bash", "/bin/sh", "/usr/bin/zsh", "/bin/zsh"]
        .into_iter()
        .filter_map(|shell| command.strip_prefix(shell))
        .find_map(|rest| rest.strip_prefix(" -c ").or_else(|| rest.strip_prefix(" -lc ")));
    let Some(inner) = inner else { return command.to_owned() };
    let unquoted = |quote: char| inner.strip_prefix(quote)?.strip_suffix(quote);
    match (unquoted('\''), unquoted('"')) {
        (Some(bare), _) if !bare.contains('\'') => bare.to_owned(),
        (_, Some(bare)) if !bare.contains(['"', '\\', '$', '`']) => bare.to_owned(),
        (None, None) if !inner.contains(char::is_whitespace) => inner.to_owned(),
        _ => command.to_owned(),
    }
}

/// How a call ended in a word, and what it wrote: codex-session marks what did not end well as `[exit 1]`.
fn outcome(event: &Value) -> (Option<&str>, &str) {
    let result = text(event, "result");
    if !event["is_error"].as_bool().unwrap_or_default() {
        return (None, result);
    }
    let marked = result.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    marked.map_or((None, result), |(mark, rest)| (Some(mark), rest.trim_start_matches('\n')))
}

/// A decision in the past tense.
pub fn decided(decision: &str) -> &str {
    match decision {
        "accept" => "accepted",
        "acceptForSession" => "accepted for this session",
        "acceptAlways" => "accepted for good",
        "grant" => "granted",
        "decline" => "declined",
        "cancel" => "declined, and the turn ended",
        "answers" | "form" | "" => "answered",
        other => other,
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

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests;
