//! A notice as plain text: short, useful, and nothing in it that a chat would act on.
//!
//! Text that comes from a model, a repository or a person is data: mentions and directives in it are made harmless, and
//! a message that is too long is cut in the platform's own unit and says where the rest can be read.

mod parts;

use codex_bridge_core::inbox;
use codex_bridge_core::outbox::notice::{FinishedTask, REMINDER, TEST, TEST_PROMPT};
use codex_bridge_core::outbox::{Asked, Content, Notice};
use codex_bridge_core::task::{ShownStatus, Status, TaskId};
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
    match &notice.content {
        Content::Finished(rest) => match (rest.task.id.short(), rest.task.status) {
            (id, Status::Completed) => format!("Codex task {id} completed"),
            (id, Status::Paused) => format!("Codex task {id} is paused"),
            (id, status) => format!("Codex task {id}: {status}"),
        },
        Content::Asks(asks) if asks.is_question => {
            format!("Codex task {} {}", asks.task.id.short(), ShownStatus::WaitingForUserInput)
        }
        Content::Asks(asks) => {
            format!("Codex task {} {}", asks.task.id.short(), ShownStatus::WaitingForApproval)
        }
        Content::Reminder(_) | Content::Reply(_) => "A reply from Codex".to_owned(),
        Content::Test => "A test from codex-bridge".to_owned(),
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
    if matches!(notice.content, Content::Finished(_)) {
        // Of a task that is not this chat's own.
        return text(notice, may_be_duplicate, limit);
    }
    let mut head = Vec::new();
    if may_be_duplicate {
        head.push(DUPLICATE);
    }
    if matches!(notice.content, Content::Asks(_)) {
        head.push("Codex asks:");
    }
    let body = harmless(&body(notice, Decides::Here).join("\n"));
    joined(&head.join("\n"), &body, &foot(notice).join("\n"), notice, limit)
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
    let prompt = match &notice.content {
        Content::Finished(rest) => Some(rest.prompt.as_str()),
        Content::Asks(asks) => Some(asks.prompt.as_str()),
        Content::Test => Some(TEST_PROMPT),
        // Whoever wrote to us knows what about.
        Content::Reminder(_) | Content::Reply(_) => None,
    };
    head.extend(prompt.map(|_| title(notice)));
    head.extend(
        prompt.filter(|prompt| !prompt.is_empty()).map(|prompt| format!("Asked: {}", one_line(prompt))),
    );
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
    if limit.length(&whole) <= limit.most() && !was_cut(notice) {
        return whole;
    }
    let verb = if matches!(notice.content, Content::Asks(_)) { "requests" } else { "show" };
    let note = match notice.task() {
        Some(task) => format!("… (cut; `codex-bridge {verb} {}` shows all of it)", task.id.short()),
        None => "… (cut)".to_owned(),
    };
    let room = limit.most().saturating_sub(limit.length(&parts(&format!("\n{note}"))));
    let short = format!("{}\n{note}", limit.beginning(body, room).trim_end());
    limit.beginning(&parts(&short), limit.most()).to_owned()
}

/// Whether the text of a notice was cut before.
fn was_cut(notice: &Notice) -> bool {
    match &notice.content {
        Content::Finished(rest) => rest.answer.as_ref().is_some_and(|answer| answer.cut_chars > 0),
        Content::Reply(reply) => reply.text.cut_chars > 0,
        Content::Asks(_) | Content::Reminder(_) | Content::Test => false,
    }
}

fn body(notice: &Notice, decides: Decides) -> Vec<String> {
    let mut lines = Vec::new();
    for (task, asked) in requests(notice) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(request(task, asked, decides));
    }
    lines.extend(words(notice));
    lines
}

/// What a notice asks, with the task that asks.
fn requests(notice: &Notice) -> impl Iterator<Item = (&TaskId, &Asked)> {
    let of_task = |task| notice.requests().iter().map(move |asked| (task, asked));
    notice.task().map(|task| &task.id).into_iter().flat_map(of_task)
}

/// What a notice says beside what it asks.
fn words(notice: &Notice) -> Vec<String> {
    match &notice.content {
        Content::Finished(rest) => of_finished(rest),
        Content::Asks(_) => Vec::new(),
        Content::Reminder(_) => vec![REMINDER.to_owned()],
        Content::Reply(reply) => vec![answer(&reply.text.text)],
        Content::Test => vec![TEST.to_owned()],
    }
}

fn of_finished(rest: &FinishedTask) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(rest.error.as_ref().map(|error| format!("Error: {}", error.message)));
    let is_said = rest.error.as_ref().map(|error| &error.message) == rest.reason.as_ref();
    lines.extend(rest.reason.as_ref().filter(|_| !is_said).map(|reason| format!("Why: {reason}")));
    match &rest.answer {
        Some(said) => lines.push(answer(&said.text)),
        None if rest.task.status == Status::Completed => lines.push("(there is no answer)".to_owned()),
        None => {}
    }
    lines
}

fn answer(text: &str) -> String {
    if text.trim().is_empty() { "(the answer is empty)".to_owned() } else { text.trim().to_owned() }
}

fn request(task: &TaskId, asked: &Asked, decides: Decides) -> Vec<String> {
    let ask = &asked.ask;
    let mut lines = vec![ask.title.clone()];
    for detail in &ask.details {
        lines.extend(labelled(detail.label.as_str(), &detail.text));
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
        lines.push(format!("The changes themselves: codex-bridge requests {}", task.short()));
    }
    for question in &ask.questions {
        lines.extend(labelled(&question.id, &question.text));
        lines.extend(question.options.iter().map(|option| format!("  - {}", option.label)));
    }
    lines.push(how_to_answer(task, asked, decides));
    if let Some(at) = asked.expires_at {
        lines.push(format!("Declined by itself at {}.", crate::amount::rfc3339(at)));
    }
    lines
}

fn how_to_answer(task: &TaskId, asked: &Asked, decides: Decides) -> String {
    let (id, request) = (task.short(), asked.request_id.short());
    match (asked.is_question(), decides) {
        (true, Decides::Here) => inbox::answer::how(task, &asked.request_id, &asked.ask),
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

/// What stands below the words of a notice, and is never cut.
fn foot(notice: &Notice) -> Vec<String> {
    match &notice.content {
        Content::Finished(rest) => facts(rest),
        Content::Reply(reply) => reply.closing.as_deref().map(harmless).into_iter().collect(),
        Content::Asks(_) | Content::Reminder(_) | Content::Test => Vec::new(),
    }
}

/// What a turn took, and what it changed.
fn facts(rest: &FinishedTask) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(rest.work_ms.map(amount::duration));
    facts.extend(rest.tokens.map(|tokens| format!("{} tokens", amount::tokens(tokens))));
    let files = rest.files.len() + rest.more_files;
    let mut lines = Vec::new();
    if files > 0 {
        facts.push(format!("{} changed", amount::counted(files, "file")));
    }
    if !facts.is_empty() {
        lines.push(facts.join(" · "));
    }
    lines.extend(rest.files.iter().map(|file| harmless(&format!("  {}", one_line(file)))));
    if rest.more_files > 0 {
        lines.push(format!("  and {} more", rest.more_files));
    }
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
