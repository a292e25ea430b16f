//! Renders a request with everything that the decision covers. Nothing is cut, because only what is shown can be approved.
//! Only a long diff is folded, with a note where to read all of it.

mod changes;

use redact::plain::plain;

use self::changes::Diffs;
use super::paint::Paint;
use super::width::{columns, pad, wrap};
use crate::amount::counted;
use crate::view::{Field, Question, Request};

/// Labels are padded to the longest label, up to this width.
const WIDEST_LABEL: usize = 12;
/// With fewer columns beside the label, the text goes below it.
const NARROW: usize = 30;
/// The indent of the rest of a wrapped line.
const CONTINUED: &str = "  ";

/// The lines of a request, with long diffs folded.
pub fn request(request: &Request, paint: Paint, width: usize) -> Vec<String> {
    block(request, Diffs::Folded, paint, width)
}

/// The lines of a request, with whole diffs.
pub fn whole_request(request: &Request, paint: Paint, width: usize) -> Vec<String> {
    block(request, Diffs::Whole, paint, width)
}

fn block(request: &Request, diffs: Diffs, paint: Paint, width: usize) -> Vec<String> {
    let mut lines = titled(&plain(&request.title), paint, width);
    let widest = request
        .details
        .iter()
        .map(|detail| columns(detail.label.as_str()))
        .max()
        .unwrap_or(0)
        .min(WIDEST_LABEL);
    for detail in &request.details {
        lines.extend(labelled(&plain(detail.label.as_str()), &plain(&detail.text), widest, paint, width));
    }
    lines.extend(changes::changes(request, diffs, paint, width));
    for (index, question) in request.questions.iter().enumerate() {
        lines.extend(self::question(index + 1, question, paint, width));
    }
    if request.hidden_secrets > 0 {
        let verb = if request.hidden_secrets == 1 { "is" } else { "are" };
        let count = request.hidden_secrets;
        let note = format!("{} {verb} hidden.", counted(count, "secret"));
        lines.push(format!("  {}", paint.waiting(&note)));
    }
    lines
}

fn titled(title: &str, paint: Paint, width: usize) -> Vec<String> {
    let mut lines = wrap(title, width.saturating_sub(2)).into_iter();
    let first = format!("{} {}", paint.waiting("?"), paint.strong(&lines.next().unwrap_or_default()));
    std::iter::once(first).chain(lines.map(|line| format!("  {}", paint.strong(&line)))).collect()
}

fn labelled(label: &str, text: &str, widest: usize, paint: Paint, width: usize) -> Vec<String> {
    let beside = width.saturating_sub(widest + 4);
    if beside < NARROW {
        let below = continued(text, width.saturating_sub(4)).into_iter().map(|line| format!("    {line}"));
        return std::iter::once(format!("  {}", paint.faint(label))).chain(below).collect();
    }
    let indent = " ".repeat(widest + 4);
    let mut lines = continued(text, beside).into_iter();
    let first = format!("  {}  {}", paint.faint(&pad(label, widest)), lines.next().unwrap_or_default());
    std::iter::once(first).chain(lines.map(|line| format!("{indent}{line}").trim_end().to_owned())).collect()
}

/// The lines of a text. The rest of a wrapped line is indented, so that it cannot be taken for a line of its own.
fn continued(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut parts = wrap(line, width.saturating_sub(CONTINUED.len())).into_iter();
        lines.extend(parts.next());
        lines.extend(parts.map(|part| format!("{CONTINUED}{part}")));
    }
    lines
}

/// One question, with its number.
pub fn question(number: usize, question: &Question, paint: Paint, width: usize) -> Vec<String> {
    let mut lines = numbered(number, &question.text, width);
    for (index, choice) in question.options.iter().enumerate() {
        let meaning =
            if choice.description.is_empty() { String::new() } else { format!(": {}", choice.description) };
        lines.extend(option(index, &format!("{}{meaning}", choice.label), paint, width));
    }
    if question.is_free && !question.options.is_empty() {
        lines.push("     or your own answer".to_owned());
    }
    if question.is_secret {
        lines.push("     the answer is secret: it is neither stored nor shown".to_owned());
    }
    lines
}

/// One field of a form, with its number.
pub fn field(number: usize, field: &Field, paint: Paint, width: usize) -> Vec<String> {
    let mut lines = numbered(number, &field.line(), width);
    for (index, choice) in field.choices.iter().enumerate() {
        lines.extend(option(index, &choice.words(), paint, width));
    }
    lines
}

fn numbered(number: usize, text: &str, width: usize) -> Vec<String> {
    hanging(&format!("  {number}. "), 5, text, width)
}

fn option(index: usize, text: &str, paint: Paint, width: usize) -> Vec<String> {
    let letter = paint.busy(&format!("{})", letter(index)));
    hanging(&format!("     {letter} "), 9, text, width)
}

/// The lines of a text behind a mark. They are indented by so many columns.
fn hanging(mark: &str, indent: usize, text: &str, width: usize) -> Vec<String> {
    let lines = wrap(&plain(text), width.saturating_sub(indent));
    let mut lines: Vec<String> = lines.iter().map(|line| format!("{}{line}", " ".repeat(indent))).collect();
    if let Some(first) = lines.first_mut() {
        *first = format!("{mark}{}", first.trim_start());
    }
    lines
}

/// The letter of an option: a, b, c …
pub fn letter(index: usize) -> char {
    char::from(b'a' + u8::try_from(index % 26).unwrap_or(0))
}

#[cfg(test)]
mod tests;
