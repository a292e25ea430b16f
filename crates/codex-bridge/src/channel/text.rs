//! The words of a notice, as plain text for platforms without formatting, or with their formatting ([`parts()`]).
//!
//! An answer is shown as it was written. Of what a person decides on, deceptive characters are taken out. Text of a model, a
//! repository or a person is data: what a platform would act on is made inert ([`Mentions`]). A plain text that is too long is
//! cut in the platform's own unit, with a note on how to read the rest.

mod mentions;
mod parts;
mod styled;

use codex_bridge_core::inbox;
use codex_bridge_core::outbox::notice::{
    Excerpt, FinishedTask, REMINDER, Reply, Suggestion, TEST, TEST_PROMPT,
};
use codex_bridge_core::outbox::{Asked, Content, Notice};
use codex_bridge_core::task::{ShownStatus, Status, TaskId};
use redact::plain::{plain, readable};

use crate::amount::{self, one_line};

pub use mentions::Mentions;
pub use parts::{Body, Limits, Part, ShownRequest, is_whole, parts, requests_shown_whole};
pub use styled::{Span, Style, Styled};

/// The longest message, in the unit that the platform counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Characters.
    Chars(usize),
    /// UTF-16 units, as Telegram counts.
    Utf16(usize),
    /// Bytes, as Feishu counts.
    Bytes(usize),
    /// Bytes after encoding as JSON, where quotes and line breaks take more than one.
    JsonBytes(usize),
    /// UTF-16 units of Markdown, where each mark is escaped.
    Markdown(usize),
}

impl Limit {
    fn max(self) -> usize {
        match self {
            Self::Chars(max)
            | Self::Utf16(max)
            | Self::Bytes(max)
            | Self::JsonBytes(max)
            | Self::Markdown(max) => max,
        }
    }

    fn reduced_by(self, less: usize) -> Self {
        match self {
            Self::Chars(max) => Self::Chars(max.saturating_sub(less)),
            Self::Utf16(max) => Self::Utf16(max.saturating_sub(less)),
            Self::Bytes(max) => Self::Bytes(max.saturating_sub(less)),
            Self::JsonBytes(max) => Self::JsonBytes(max.saturating_sub(less)),
            Self::Markdown(max) => Self::Markdown(max.saturating_sub(less)),
        }
    }

    fn char_length(self, char: char) -> usize {
        match self {
            Self::Chars(_) => 1,
            Self::Markdown(_) if "\\*_~`|[]<>#-+.:".contains(char) => 2,
            Self::Utf16(_) | Self::Markdown(_) => char.len_utf16(),
            Self::Bytes(_) => char.len_utf8(),
            Self::JsonBytes(_) => match char {
                '"' | '\\' | '\n' | '\t' | '\r' => 2,
                '\0'..' ' => 6,
                _ => char.len_utf8(),
            },
        }
    }

    fn length(self, text: &str) -> usize {
        text.chars().map(|char| self.char_length(char)).sum()
    }

    /// The longest beginning of `text` with a length of at most `max`.
    fn prefix(self, text: &str, max: usize) -> &str {
        let mut length = 0;
        let cut = text.char_indices().find(|(_, char)| {
            length += self.char_length(*char);
            length > max
        });
        cut.map_or(text, |(at, _)| &text[..at])
    }
}

/// The title of a notice, in one line.
pub fn title(notice: &Notice) -> String {
    match &notice.content {
        Content::Finished(finished) => match (finished.task.id.short(), finished.task.status) {
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

/// Where the reader of a request can decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DecisionPlace {
    /// At a shell, with the command line.
    Shell,
    /// In the chat itself, in words.
    Chat,
    /// In the chat itself, with buttons.
    Buttons,
}

/// The text of a notice for a chat in which requests can be decided, cut to the limit.
pub fn chat(notice: &Notice, may_be_duplicate: bool, limit: Limit, mentions: Mentions) -> String {
    if matches!(notice.content, Content::Finished(_)) {
        // The task belongs to another door than this chat.
        return text(notice, may_be_duplicate, limit, mentions);
    }
    let mut head = Vec::new();
    if may_be_duplicate {
        head.push(DUPLICATE);
    }
    if matches!(notice.content, Content::Asks(_)) {
        head.push("Codex asks:");
    }
    let parts =
        [head.join("\n"), body(notice, DecisionPlace::Chat), foot(notice, DecisionPlace::Chat).join("\n")];
    fit(parts, notice, limit, mentions)
}

/// The text with a note below it. Only the text is cut to the limit.
pub fn with_note(text: &str, note: &str, limit: Limit) -> String {
    let note = limit.prefix(note, limit.max());
    let room = limit.max().saturating_sub(limit.length(note) + 2);
    let text = limit.prefix(text, room).trim_end();
    if text.is_empty() { note.to_owned() } else { format!("{text}\n\n{note}") }
}

/// How much longer a text gets when a mention at its end is made inert.
const INERT_LENGTH: usize = 2;
/// The first line of a repeated delivery.
const DUPLICATE: &str = "(may be a duplicate: this may have been sent before)";

/// The text of a notice for readers who decide at a shell, cut to the limit.
pub fn text(notice: &Notice, may_be_duplicate: bool, limit: Limit, mentions: Mentions) -> String {
    let mut head = Vec::new();
    if may_be_duplicate {
        head.push(DUPLICATE.to_owned());
    }
    head.extend(heading(notice));
    let parts =
        [head.join("\n"), body(notice, DecisionPlace::Shell), foot(notice, DecisionPlace::Shell).join("\n")];
    fit(parts, notice, limit, mentions)
}

/// What a notice is about: its title, and what was asked. A reply needs neither, since its reader wrote the message.
fn heading(notice: &Notice) -> Vec<String> {
    let prompt = match &notice.content {
        Content::Finished(finished) => finished.prompt.as_str(),
        Content::Asks(asks) => asks.prompt.as_str(),
        Content::Test => TEST_PROMPT,
        Content::Reminder(_) | Content::Reply(_) => return Vec::new(),
    };
    let asked = Some(prompt).filter(|prompt| !prompt.is_empty());
    let asked = asked.map(|prompt| format!("Asked: {}", plain(&one_line(prompt))));
    std::iter::once(title(notice)).chain(asked).collect()
}

/// Joins head, body and foot, all of them inert. Only the body is cut to the limit.
fn fit(parts: [String; 3], notice: &Notice, limit: Limit, mentions: Mentions) -> String {
    let [head, body, foot] = parts.map(|part| mentions.made_inert(&part));
    let parts = |body: &str| {
        let parts = [&head, body, &foot].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join("\n\n")
    };
    let whole = parts(&body);
    if limit.length(&whole) <= limit.max() && !was_cut(notice) {
        return whole;
    }
    let note = cut_note(notice);
    let room = limit.max().saturating_sub(limit.length(&parts(&format!("\n{note}"))) + INERT_LENGTH);
    // A cut can make a mention of a longer word.
    let short = mentions.made_inert(limit.prefix(&body, room).trim_end());
    let short = format!("{short}\n{note}");
    limit.prefix(&parts(&short), limit.max()).to_owned()
}

/// How to read the rest of a notice that was cut.
fn cut_note(notice: &Notice) -> String {
    let verb = if matches!(notice.content, Content::Asks(_)) { "requests" } else { "show" };
    match notice.task() {
        Some(task) => format!("… (cut; `codex-bridge {verb} {}` shows all of it)", task.id.short()),
        None => "… (cut)".to_owned(),
    }
}

/// Whether the notice holds only a part of its text.
fn was_cut(notice: &Notice) -> bool {
    match &notice.content {
        Content::Finished(finished) => finished.answer.as_ref().is_some_and(|answer| answer.cut_chars > 0),
        Content::Reply(reply) => reply.text.cut_chars > 0,
        Content::Asks(_) | Content::Reminder(_) | Content::Test => false,
    }
}

fn body(notice: &Notice, place: DecisionPlace) -> String {
    let asked: Vec<String> = requests(notice).map(|(task, asked)| request_text(task, asked, place)).collect();
    let others = readable(&other_lines(notice).join("\n")).into_owned();
    let parts = [asked.join("\n\n"), others].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join("\n")
}

/// A request, without anything that could deceive who decides on it.
fn request_text(task: &TaskId, asked: &Asked, place: DecisionPlace) -> String {
    plain(&request(task, asked, place).join("\n")).into_owned()
}

/// The requests of a notice, with their task.
fn requests(notice: &Notice) -> impl Iterator<Item = (&TaskId, &Asked)> {
    let of_task = |task| notice.requests().iter().map(move |asked| (task, asked));
    notice.task().map(|task| &task.id).into_iter().flat_map(of_task)
}

/// The lines of a notice other than its requests.
fn other_lines(notice: &Notice) -> Vec<String> {
    match &notice.content {
        Content::Finished(finished) => finished_lines(finished, finished.answer.as_ref()),
        Content::Asks(_) => Vec::new(),
        Content::Reminder(_) => vec![REMINDER.to_owned()],
        Content::Reply(reply) => vec![answer(&reply.text.text)],
        Content::Test => vec![TEST.to_owned()],
    }
}

/// How a task ended, with this answer.
fn finished_lines(finished: &FinishedTask, answer_text: Option<&Excerpt>) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(finished.error.as_ref().map(|error| format!("Error: {}", error.message)));
    let is_repeated = finished.error.as_ref().map(|error| &error.message) == finished.reason.as_ref();
    lines.extend(finished.reason.as_ref().filter(|_| !is_repeated).map(|reason| format!("Why: {reason}")));
    match answer_text {
        Some(answer_text) => lines.push(answer(&answer_text.text)),
        None if finished.answer.is_none() && finished.task.status == Status::Completed => {
            lines.push("(there is no answer)".to_owned());
        }
        None => {}
    }
    lines
}

fn answer(text: &str) -> String {
    if plain(text).trim().is_empty() { "(the answer is empty)".to_owned() } else { text.trim().to_owned() }
}

fn request(task: &TaskId, asked: &Asked, place: DecisionPlace) -> Vec<String> {
    let ask = &asked.ask;
    let mut lines = vec![ask.title.clone()];
    for detail in &ask.details {
        lines.extend(labelled(detail.label.as_str(), &detail.text));
    }
    let shows_diffs = place != DecisionPlace::Shell && !asked.is_long;
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
    let has_buttons = place == DecisionPlace::Buttons && !inbox::answer::options(ask, 0).is_empty();
    // Of several questions with buttons the next one comes when the first is answered.
    for question in ask.questions.iter().take(if has_buttons { 1 } else { usize::MAX }) {
        lines.extend(labelled(&question.id, &question.text));
        // Buttons cut long labels, and show no explanation.
        lines.extend(question.options.iter().map(|option| format!("  - {}", option.label)));
    }
    lines.extend(how_to_answer(task, asked, place));
    if let Some(at) = asked.expires_at {
        lines.push(format!("Declined automatically at {}.", crate::amount::rfc3339(at)));
    }
    lines
}

fn how_to_answer(task: &TaskId, asked: &Asked, place: DecisionPlace) -> Option<String> {
    let (id, request) = (task.short(), asked.request_id.short());
    let takes_a_reply = || asked.ask.questions.len() == 1 && !asked.ask.asks_for_secret();
    Some(match (asked.is_question(), place) {
        (true, DecisionPlace::Buttons) if takes_a_reply() => {
            "Reply to this message to answer in your own words.".to_owned()
        }
        (true, DecisionPlace::Buttons) if !inbox::answer::options(&asked.ask, 0).is_empty() => return None,
        (true, DecisionPlace::Chat | DecisionPlace::Buttons) => {
            inbox::answer::how(task, &asked.request_id, &asked.ask)
        }
        // The buttons say it.
        (false, DecisionPlace::Buttons) => return None,
        (false, DecisionPlace::Chat) => format!("/approve {request}\n/deny {request}"),
        (true, DecisionPlace::Shell) => format!("Answer: codex-bridge answer {id} {request} KEY=ANSWER"),
        (false, DecisionPlace::Shell) => {
            format!(
                "Approve: codex-bridge approve {id} {request}\nDecline: codex-bridge decline {id} {request}"
            )
        }
    })
}

/// What was chosen last, and the next question of a request, in words for below the questions before it.
pub fn next_question(asked: &Asked, chosen: &[usize]) -> String {
    let questions = &asked.ask.questions;
    let last = chosen.len().saturating_sub(1);
    let label = chosen.last().and_then(|number| questions.get(last)?.options.get(*number));
    let answered =
        questions.get(last).zip(label).map(|(question, option)| format!("{}: {}", question.id, option.label));
    let mut lines: Vec<String> = answered.into_iter().collect();
    if let Some(next) = questions.get(chosen.len()) {
        lines.push(String::new());
        lines.extend(labelled(&next.id, &next.text));
        lines.extend(next.options.iter().map(|option| format!("  - {}", option.label)));
    }
    plain(&lines.join("\n")).into_owned()
}

fn labelled(label: &str, text: &str) -> Vec<String> {
    if !text.contains('\n') {
        return vec![format!("{label}: {text}")];
    }
    let indented = text.lines().map(|line| format!("  {line}"));
    std::iter::once(format!("{label}:")).chain(indented).collect()
}

/// The lines at the end of a notice, which are never cut.
fn foot(notice: &Notice, place: DecisionPlace) -> Vec<String> {
    match &notice.content {
        Content::Finished(finished) => facts(finished),
        // Another agent cannot give commands.
        Content::Reply(Reply { closing: Some(closing), .. }) => vec![closing.clone()],
        Content::Reply(_) if place == DecisionPlace::Buttons => Vec::new(),
        Content::Reply(reply) => {
            let line = |one: &Suggestion| format!("{}: {}", one.label, one.command);
            reply.suggestions.iter().map(line).collect()
        }
        Content::Asks(_) | Content::Reminder(_) | Content::Test => Vec::new(),
    }
}

/// The time and tokens of a turn, and the files that it changed.
fn facts(finished: &FinishedTask) -> Vec<String> {
    let mut facts = Vec::new();
    facts.extend(finished.work_ms.map(amount::duration));
    facts.extend(finished.tokens.map(|tokens| format!("{} tokens", amount::tokens(tokens))));
    let files = finished.files.len() + finished.more_files;
    let mut lines = Vec::new();
    if files > 0 {
        facts.push(format!("{} changed", amount::counted(files, "file")));
    }
    if !facts.is_empty() {
        lines.push(facts.join(" · "));
    }
    lines.extend(finished.files.iter().map(|file| format!("  {}", plain(&one_line(file)))));
    if finished.more_files > 0 {
        lines.push(format!("  and {} more", finished.more_files));
    }
    lines
}

#[cfg(test)]
mod tests;
