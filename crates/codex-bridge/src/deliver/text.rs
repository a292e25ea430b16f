//! A notice as plain text: short, useful, and nothing in it that a chat would act on.
//!
//! Text that comes from a model, a repository or a person is data: mentions and directives in it are made harmless, and
//! a message that is too long is cut in the platform's own unit and says where the rest can be read.

mod parts;

use codex_bridge_core::inbox::answer;
use codex_bridge_core::outbox::{Asked, Notice, Occasion};
use redact::plain::plain;

use crate::amount::{self, one_line};

pub use parts::{Part, Shown, is_whole, parts, shown_whole};

/// How long a message may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So many characters.
    Chars(usize),
    /// So many UTF-16 units, as Telegram counts.
    Utf16(usize),
    /// So many bytes, as Feishu counts.
    Bytes(usize),
    /// So many bytes once it stands in JSON, where quotes and line breaks take more than one.
    JsonBytes(usize),
}

impl Limit {
    fn most(self) -> usize {
        match self {
            Self::Chars(most) | Self::Utf16(most) | Self::Bytes(most) | Self::JsonBytes(most) => most,
        }
    }

    /// The same with so much less.
    fn less(self, less: usize) -> Self {
        match self {
            Self::Chars(most) => Self::Chars(most.saturating_sub(less)),
            Self::Utf16(most) => Self::Utf16(most.saturating_sub(less)),
            Self::Bytes(most) => Self::Bytes(most.saturating_sub(less)),
            Self::JsonBytes(most) => Self::JsonBytes(most.saturating_sub(less)),
        }
    }

    fn of_char(self, char: char) -> usize {
        match self {
            Self::Chars(_) => 1,
            Self::Utf16(_) => char.len_utf16(),
            Self::Bytes(_) => char.len_utf8(),
            Self::JsonBytes(_) => match char {
                '"' | '\\' | '\n' | '\t' | '\r' => 2,
                '\0'..' ' => 6,
                _ => char.len_utf8(),
            },
        }
    }

    fn length(self, text: &str) -> usize {
        text.chars().map(|char| self.of_char(char)).sum()
    }

    /// The longest beginning that fits.
    fn beginning(self, text: &str, most: usize) -> &str {
        let mut length = 0;
        let cut = text.char_indices().find(|(_, char)| {
            length += self.of_char(*char);
            length > most
        });
        cut.map_or(text, |(at, _)| &text[..at])
    }
}

/// What it is about, in one line.
pub fn title(notice: &Notice) -> String {
    let id = &notice.task_id;
    match notice.occasion {
        Occasion::Completed => format!("Codex task {id} completed"),
        Occasion::Failed => format!("Codex task {id}: {}", notice.status),
        Occasion::Approval => format!("Codex task {id} waits for an approval"),
        Occasion::Question => format!("Codex task {id} has a question"),
        Occasion::Paused => format!("Codex task {id} is paused"),
        Occasion::Test => "A test from codex-bridge".to_owned(),
        Occasion::Reply => "A reply from Codex".to_owned(),
    }
}

/// Where whoever reads it can decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Decides {
    /// At a shell.
    AtAShell,
    /// Right where they read it.
    Here,
}

/// What is said in a chat in which decisions can be made, cut to the limit.
pub fn chat(notice: &Notice, may_be_duplicate: bool, limit: Limit) -> String {
    if notice.occasion.is_of_rest() {
        // Of a task that is not this chat's own.
        return text(notice, may_be_duplicate, limit);
    }
    let mut head = Vec::new();
    if may_be_duplicate {
        head.push(DUPLICATE);
    }
    if notice.occasion.asks() {
        head.push("Codex asks:");
    }
    let body = harmless(&body(notice, Decides::Here).join("\n"));
    let closing = notice.closing.as_deref().map(harmless).unwrap_or_default();
    joined(&head.join("\n"), &body, &closing, notice, limit)
}

/// A text with a note below it, which stays whole: what does not fit of the text is cut.
pub fn appended(text: &str, note: &str, limit: Limit) -> String {
    let note = limit.beginning(note, limit.most());
    let room = limit.most().saturating_sub(limit.length(note) + 2);
    let text = limit.beginning(text, room).trim_end();
    if text.is_empty() { note.to_owned() } else { format!("{text}\n\n{note}") }
}

/// What is said before something that may have been said before.
const DUPLICATE: &str = "(may be a duplicate: this may have been sent before)";

/// All of it, cut to the limit.
pub fn text(notice: &Notice, may_be_duplicate: bool, limit: Limit) -> String {
    let mut head = Vec::new();
    if may_be_duplicate {
        head.push(DUPLICATE.to_owned());
    }
    // Whoever wrote to us knows what about.
    if notice.occasion != Occasion::Reply {
        head.push(title(notice));
    }
    if !notice.prompt.is_empty() {
        head.push(format!("Asked: {}", one_line(&notice.prompt)));
    }
    let body = harmless(&body(notice, Decides::AtAShell).join("\n"));
    let foot = foot(notice).join("\n");
    joined(&harmless(&head.join("\n")), &body, &foot, notice, limit)
}

/// The beginning and the end stay whole; what is between is cut.
fn joined(head: &str, body: &str, foot: &str, notice: &Notice, limit: Limit) -> String {
    let parts = |body: &str| {
        let parts = [head, body, foot].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n\n")
    };
    let whole = parts(body);
    if limit.length(&whole) <= limit.most() && notice.answer_cut_chars == 0 {
        return whole;
    }
    let verb = if notice.occasion.asks() { "requests" } else { "show" };
    let note = format!("… (cut; `codex-bridge {verb} {}` shows all of it)", notice.task_id);
    let room = limit.most().saturating_sub(limit.length(&parts(&format!("\n{note}"))));
    let short = format!("{}\n{note}", limit.beginning(body, room).trim_end());
    limit.beginning(&parts(&short), limit.most()).to_owned()
}

fn body(notice: &Notice, decides: Decides) -> Vec<String> {
    let mut lines = Vec::new();
    for asked in &notice.requests {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(request(notice, asked, decides));
    }
    if notice.more_requests > 0 {
        lines.push(format!("And {} more.", notice.more_requests));
    }
    if notice.occasion.asks() {
        return lines;
    }
    lines.extend(notice.error.as_ref().map(|error| format!("Error: {}", error.message)));
    let is_said = notice.error.as_ref().map(|error| &error.message) == notice.reason.as_ref();
    lines.extend(notice.reason.as_ref().filter(|_| !is_said).map(|reason| format!("Why: {reason}")));
    match notice.answer.as_deref().map(str::trim) {
        Some("") => lines.push("(the answer is empty)".to_owned()),
        Some(answer) => lines.push(answer.to_owned()),
        None if notice.occasion == Occasion::Completed => lines.push("(there is no answer)".to_owned()),
        None => {}
    }
    lines
}

fn request(notice: &Notice, asked: &Asked, decides: Decides) -> Vec<String> {
    let ask = &asked.ask;
    let mut lines = vec![ask.title.clone()];
    for detail in &ask.details {
        lines.extend(labelled(&detail.label, &detail.text));
    }
    let shows_diffs = decides == Decides::Here && !asked.is_long;
    for change in &ask.changes {
        lines.push(if shows_diffs {
            change.diff.trim_end().to_owned()
        } else {
            format!("  {}: {}", change.kind.as_str(), change.path)
        });
    }
    if !ask.changes.is_empty() && !shows_diffs {
        lines.push(format!("The changes themselves: codex-bridge requests {}", notice.task_id));
    }
    for question in &ask.questions {
        lines.extend(labelled(&question.id, &question.text));
        lines.extend(question.options.iter().map(|option| format!("  - {}", option.label)));
    }
    lines.push(how_to_answer(notice, asked, decides));
    if let Some(at) = asked.expires_at {
        lines.push(format!("Declined by itself at {}.", crate::amount::rfc3339(at)));
    }
    lines
}

fn how_to_answer(notice: &Notice, asked: &Asked, decides: Decides) -> String {
    let (id, request) = (&notice.task_id, &asked.request_id);
    match (asked.is_question(), decides) {
        (true, Decides::Here) => answer::how(id.as_str(), request, &asked.ask),
        (false, Decides::Here) => format!("/approve {request}\n/deny {request}"),
        (true, Decides::AtAShell) => format!("Answer: codex-bridge answer {id} {request} KEY=ANSWER"),
        (false, Decides::AtAShell) => {
            format!("Yes: codex-bridge approve {id} {request}\nNo: codex-bridge decline {id} {request}")
        }
    }
}

fn labelled(label: &str, text: &str) -> Vec<String> {
    if !text.contains('\n') {
        return vec![format!("{label}: {text}")];
    }
    let indented = text.lines().map(|line| format!("  {line}"));
    std::iter::once(format!("{label}:")).chain(indented).collect()
}

fn foot(notice: &Notice) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(notice.work_ms.map(amount::duration));
    facts.extend(notice.tokens.map(|tokens| format!("{} tokens", amount::tokens(tokens))));
    let files = notice.files.len() + notice.more_files;
    let mut lines = Vec::new();
    if files > 0 {
        facts.push(format!("{} changed", amount::counted(files, "file")));
    }
    if !facts.is_empty() && !notice.occasion.asks() {
        lines.push(facts.join(" · "));
    }
    lines.extend(notice.files.iter().map(|file| harmless(&format!("  {}", one_line(file)))));
    if notice.more_files > 0 {
        lines.push(format!("  and {} more", notice.more_files));
    }
    lines.extend(notice.closing.as_deref().map(harmless));
    lines
}

/// Text in which a chat sees no mention, and a program that passes it on no directive.
///
/// Changed visibly, never by characters that cannot be seen: `@all` becomes `＠all`, `<at` becomes `＜at`, `MEDIA:` gets
/// a space. An `@` within a word, as in an address, is no mention.
pub fn harmless(text: &str) -> String {
    let text = plain(text);
    let mut out = String::with_capacity(text.len());
    let mut before = ' ';
    for (at, char) in text.char_indices() {
        let rest = &text[at..];
        match char {
            '@' if !before.is_alphanumeric() => out.push('＠'),
            '<' if is_mention(rest) => out.push('＜'),
            // A shell's own brackets have a space after them.
            '[' if before == '[' && rest[1..].starts_with(char::is_alphabetic) => out.push_str(" ["),
            ':' if ends_with_directive(&out) => out.push_str(" :"),
            other => out.push(other),
        }
        before = char;
    }
    out
}

/// `<at user_id=…>`, `<@U1>`, `<!channel>`, `<#C1>`.
fn is_mention(rest: &str) -> bool {
    let rest = &rest[1..];
    rest.starts_with(['@', '!', '#']) || rest.get(..2).is_some_and(|word| word.eq_ignore_ascii_case("at"))
}

fn ends_with_directive(out: &str) -> bool {
    let word = out.len().checked_sub("MEDIA".len()).and_then(|at| out.get(at..));
    word.is_some_and(|word| word.eq_ignore_ascii_case("media"))
}

#[cfg(test)]
mod tests;
