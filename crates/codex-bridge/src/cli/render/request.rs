//! What a person is asked, with everything that the decision covers. Nothing is cut: what is not shown cannot be
//! agreed to. Only a long diff is folded, and says where all of it can be read.

mod changes;

use redact::plain::plain;

use self::changes::Diffs;
use super::paint::Paint;
use super::width::{columns, pad, wrap};
use crate::amount::counted;
use crate::view::{Question, Request};

/// Labels are padded to the longest, up to this; in a narrow window the text goes below its label.
const WIDEST_LABEL: usize = 12;
/// Below this many columns for the text, it goes below its label.
const NARROW: usize = 30;
/// Before the rest of a line that was broken.
const CONTINUED: &str = "  ";

/// The question as a block of lines, a long diff folded.
pub fn request(request: &Request, paint: Paint, room: usize) -> Vec<String> {
    block(request, Diffs::Folded, paint, room)
}

/// The question as a block of lines, with all that there is of its diffs.
pub fn whole_request(request: &Request, paint: Paint, room: usize) -> Vec<String> {
    block(request, Diffs::Whole, paint, room)
}

fn block(request: &Request, diffs: Diffs, paint: Paint, room: usize) -> Vec<String> {
    let mut lines = titled(&plain(&request.title), paint, room);
    let widest = request
        .details
        .iter()
        .map(|detail| columns(detail.label.as_str()))
        .max()
        .unwrap_or(0)
        .min(WIDEST_LABEL);
    for detail in &request.details {
        lines.extend(labelled(&plain(detail.label.as_str()), &plain(&detail.text), widest, paint, room));
    }
    lines.extend(changes::changes(request, diffs, paint, room));
    for (index, question) in request.questions.iter().enumerate() {
        lines.extend(self::question(index + 1, question, paint, room));
    }
    if request.hidden_secrets > 0 {
        let verb = if request.hidden_secrets == 1 { "is" } else { "are" };
        let count = request.hidden_secrets;
        let said = format!("{} {verb} hidden in this.", counted(count, "secret"));
        lines.push(format!("  {}", paint.waiting(&said)));
    }
    lines
}

fn titled(title: &str, paint: Paint, room: usize) -> Vec<String> {
    let mut lines = wrap(title, room.saturating_sub(2)).into_iter();
    let first = format!("{} {}", paint.waiting("?"), paint.strong(&lines.next().unwrap_or_default()));
    std::iter::once(first).chain(lines.map(|line| format!("  {}", paint.strong(&line)))).collect()
}

fn labelled(label: &str, text: &str, widest: usize, paint: Paint, room: usize) -> Vec<String> {
    let beside = room.saturating_sub(widest + 4);
    if beside < NARROW {
        let below = continued(text, room.saturating_sub(4)).into_iter().map(|line| format!("    {line}"));
        return std::iter::once(format!("  {}", paint.faint(label))).chain(below).collect();
    }
    let indent = " ".repeat(widest + 4);
    let mut lines = continued(text, beside).into_iter();
    let first = format!("  {}  {}", paint.faint(&pad(label, widest)), lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("{indent}{line}").trim_end().to_owned())).collect()
}

/// The lines of a text; where a line is broken for want of room, the rest is set off from what is a line of its own.
fn continued(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut parts = wrap(line, room.saturating_sub(CONTINUED.len())).into_iter();
        lines.extend(parts.next());
        lines.extend(parts.map(|part| format!("{CONTINUED}{part}")));
    }
    lines
}

/// One question of the model, numbered.
pub fn question(number: usize, question: &Question, paint: Paint, room: usize) -> Vec<String> {
    let indented = |text: &str, indent: usize| -> Vec<String> {
        let lines = wrap(&plain(text), room.saturating_sub(indent));
        lines.into_iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect()
    };
    let mut lines = indented(&question.text, 5);
    if let Some(first) = lines.first_mut() {
        *first = format!("  {number}. {}", first.trim_start());
    }
    for (index, choice) in question.options.iter().enumerate() {
        let letter = letter(index);
        let meaning =
            if choice.description.is_empty() { String::new() } else { format!(": {}", choice.description) };
        let mut choice = indented(&format!("{}{meaning}", choice.label), 9);
        if let Some(first) = choice.first_mut() {
            *first = format!("     {} {}", paint.busy(&format!("{letter})")), first.trim_start());
        }
        lines.extend(choice);
    }
    if question.is_free && !question.options.is_empty() {
        lines.push("     or an answer of your own".to_owned());
    }
    if question.is_secret {
        lines.push("     the answer is a secret: neither stored nor shown".to_owned());
    }
    lines
}

/// The letter of a choice: a, b, c …
pub fn letter(index: usize) -> char {
    char::from(b'a' + u8::try_from(index % 26).unwrap_or(0))
}

#[cfg(test)]
mod tests;
