//! Notices: small structured messages, from which every platform makes its own text.
//!
//! All texts are redacted, like everything that is stored. Each platform cuts what it cannot show. Only an answer that
//! is too long for any platform is cut here.

mod record;

use codex_session::Ask;
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::diff;
use crate::request::{Button, RequestName, RequestRecord};
use crate::task::{Parked, Status, Task, TaskError, TaskId, TimeMs};

pub use record::NO_TASK;
use record::Record;

/// How many characters of an answer a notice has: a webhook's body should stay below 20 KB.
const ANSWER_CHARS: usize = 6_000;
/// How many characters a reply has: nobody reads more in a chat.
const REPLY_CHARS: usize = 64_000;
/// How many files a notice names.
const MOST_FILES: usize = 20;
/// How many requests one notice has. Further ones go into another notice.
pub(crate) const MOST_REQUESTS: usize = 10;
/// The text of a reminder, below its open requests.
pub const REMINDER: &str = "This still waits for a decision.";
/// The text of a test.
pub const TEST: &str = "If you can read this, notices reach this target.";
/// The prompt in a test.
pub const TEST_PROMPT: &str = "a test of this target";

/// The reason for a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A task completed.
    Completed,
    /// A task failed, was cancelled, or lost its host.
    Failed,
    /// A task needs an approval.
    Approval,
    /// A task asks a question.
    Question,
    /// A task is paused.
    Paused,
    /// Somebody tests a target.
    Test,
    /// A reply to a message.
    Reply,
}

impl Occasion {
    /// The occasions to which a target can subscribe.
    pub const ALL: [Self; 5] = [Self::Completed, Self::Failed, Self::Approval, Self::Question, Self::Paused];

    /// The word in JSON and in filters.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Approval => "approval",
            Self::Question => "question",
            Self::Paused => "paused",
            Self::Test => "test",
            Self::Reply => "reply",
        }
    }

    /// The occasions that a word of a filter means.
    pub(super) fn of_filter(word: &str) -> Option<Vec<Self>> {
        if word == "all" {
            return Some(Self::ALL.to_vec());
        }
        Self::ALL.into_iter().find(|occasion| occasion.as_str() == word).map(|one| vec![one])
    }

    /// The occasion of a request.
    pub fn of_request(request: &RequestRecord) -> Self {
        if request.ask.is_question() { Self::Question } else { Self::Approval }
    }

    /// The occasion of a finished task; `None` if nobody is notified.
    pub fn of_finished(task: &Task) -> Option<Self> {
        // Of all tasks that wait for one login, only one carries the notice.
        let is_silent = matches!(task.parked, Some(Parked::Login { carries_notice: false, .. }));
        let is_told = task.status.is_finished() && !(is_silent && task.status == Status::Paused);
        is_told.then(|| Self::of_status(task.status))
    }

    /// The occasion of a finished task's status.
    fn of_status(status: Status) -> Self {
        match status {
            Status::Completed => Self::Completed,
            Status::Paused => Self::Paused,
            _ => Self::Failed,
        }
    }
}

/// A notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct Notice {
    /// When it happened.
    pub at: TimeMs,
    /// What happened.
    pub content: Content,
}

/// What a notice reports.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A task has finished.
    Finished(FinishedTask),
    /// A task waits for people.
    Asks(Asks),
    /// Requests of a task are still open.
    Reminder(Reminder),
    /// A reply to a message.
    Reply(Reply),
    /// A test of a target.
    Test,
}

/// The task that a notice is about.
#[derive(Debug, Clone, PartialEq)]
pub struct AboutTask {
    /// The task's name.
    pub id: TaskId,
    /// The task's status at that time.
    pub status: Status,
    /// The task's directory.
    pub cwd: String,
}

/// A task has finished, with this status.
#[derive(Debug, Clone, PartialEq)]
pub struct FinishedTask {
    /// The task.
    pub task: AboutTask,
    /// The prompt of the last turn, shortened.
    pub prompt: String,
    /// Tokens of the whole thread.
    pub tokens: Option<u64>,
    /// The final answer.
    pub answer: Option<Excerpt>,
    /// Why the task did not succeed.
    pub error: Option<TaskError>,
    /// Why the task is paused, lost or cancelled.
    pub reason: Option<String>,
    /// How long the last turn worked.
    pub work_ms: Option<u64>,
    /// The first few files that the last turn changed.
    pub files: Vec<String>,
    /// How many further files changed.
    pub more_files: usize,
}

/// A task waits for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Asks {
    /// The task.
    pub task: AboutTask,
    /// The prompt of the task, shortened.
    pub prompt: String,
    /// Tokens of the whole thread.
    pub tokens: Option<u64>,
    /// Whether the requests are questions. If not, all of them are approvals.
    pub is_question: bool,
    /// The open requests, the oldest first.
    pub requests: Vec<Asked>,
    /// Whether the target is the task's own conversation.
    pub in_conversation: bool,
}

/// Requests of a task are still open. In JSON a reminder is a reply with requests.
#[derive(Debug, Clone, PartialEq)]
pub struct Reminder {
    /// The task.
    pub task: AboutTask,
    /// The open requests, the oldest first.
    pub requests: Vec<Asked>,
}

/// A reply to a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The task that the reply is about, if any.
    pub task: Option<AboutTask>,
    /// The answer.
    pub text: Excerpt,
    /// What the text is written in.
    pub format: TextFormat,
    /// The end of the text. It is kept even if the text before it is cut.
    pub closing: Option<String>,
    /// The platform's id of the message that this answers.
    pub in_reply_to: Option<String>,
    /// Commands that may help now, as buttons show them.
    pub suggestions: Vec<Suggestion>,
}

/// A command of a chat that may help, as a button shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suggestion {
    /// The word on the button.
    pub label: String,
    /// The command.
    pub command: String,
}

impl Suggestion {
    /// A command with a word for it.
    pub(crate) fn new(label: &str, command: &str) -> Self {
        Self { label: label.to_owned(), command: command.to_owned() }
    }
}

/// What a text is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TextFormat {
    /// Plain words.
    #[default]
    Plain,
    /// Markdown, as a model writes it.
    Markdown,
    /// A unified diff.
    Diff,
}

/// A text that may have been cut.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Excerpt {
    /// The beginning of the text.
    pub text: String,
    /// How many characters are missing.
    pub cut_chars: usize,
}

impl Excerpt {
    fn of(text: &str, most_chars: usize) -> Self {
        let cut_chars = text.chars().count().saturating_sub(most_chars);
        Self { text: text.chars().take(most_chars).collect(), cut_chars }
    }
}

/// A request in a notice.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// The request's name.
    pub request_id: RequestName,
    /// The digest of the request; decisions need it. Empty in notices of older versions.
    #[serde(default)]
    pub digest: String,
    /// What people are shown.
    pub ask: Ask,
    /// Whether the request is too long for a chat, so that it cannot be approved there. Its diffs are left out.
    #[serde(default)]
    pub is_long: bool,
    /// Once delivered: whether people can read the whole request there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_shown: bool,
    /// When the request expires and is declined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<TimeMs>,
}

impl Asked {
    /// Whether the request is a question and not an approval.
    pub fn is_question(&self) -> bool {
        self.ask.is_question()
    }

    /// The name with the beginning of the digest, as buttons carry it. [`Button::named`] reads it.
    pub fn name(&self) -> String {
        let digest = self.digest.get(..Button::DIGEST_CHARS).unwrap_or(&self.digest);
        format!("{}.{digest}", self.request_id)
    }
}

/// What is known about a turn that has ended, beyond its task.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnFacts<'a> {
    pub(crate) prompt: Option<&'a str>,
    pub(crate) work_ms: Option<u64>,
    /// The changes, as a unified diff.
    pub(crate) diff: Option<&'a str>,
}

impl AboutTask {
    fn of(task: &Task) -> Self {
        let cwd = task.settings.cwd.to_string_lossy().into_owned();
        Self { id: task.id.clone(), status: task.status, cwd }
    }
}

impl Reply {
    /// A reply with only a text.
    pub(crate) fn new(task: Option<&Task>, text: &str) -> Self {
        let text = Excerpt::of(text, REPLY_CHARS);
        Self {
            task: task.map(AboutTask::of),
            text,
            format: TextFormat::Plain,
            closing: None,
            in_reply_to: None,
            suggestions: Vec::new(),
        }
    }
}

impl Asked {
    /// A request for a notice.
    pub(crate) fn of(request: &RequestRecord) -> Self {
        let is_long = !request.fits_a_chat();
        Self {
            request_id: request.request_id.clone(),
            digest: request.digest.clone(),
            is_long,
            was_shown: false,
            ask: if is_long { without_diffs(&request.ask) } else { request.ask.ask.clone() },
            expires_at: request.expires_at,
        }
    }
}

impl Reminder {
    /// A reminder of these requests.
    pub(crate) fn new(task: &Task, requests: &[RequestRecord]) -> Self {
        Self { task: AboutTask::of(task), requests: asked(requests) }
    }
}

impl Notice {
    /// The notice that a task has finished; `None` if nobody is notified.
    pub(crate) fn of_finished(task: &Task, turn: TurnFacts<'_>, at: TimeMs) -> Option<Self> {
        Occasion::of_finished(task)?;
        let about = AboutTask::of(task);
        let mut files = turn.diff.map(|diff| changed_files(diff, &about.cwd)).unwrap_or_default();
        let more_files = files.len().saturating_sub(MOST_FILES);
        files.truncate(MOST_FILES);
        let finished = FinishedTask {
            task: about,
            prompt: turn.prompt.unwrap_or(&task.prompt_summary).to_owned(),
            tokens: tokens(task),
            answer: task.final_text.as_deref().map(|text| Excerpt::of(text, ANSWER_CHARS)),
            error: task.error.clone(),
            reason: task.reason.clone(),
            work_ms: turn.work_ms,
            files,
            more_files,
        };
        Some(Self { at, content: Content::Finished(finished) })
    }

    /// The notice that a task has an open request.
    pub(crate) fn of_request(task: &Task, request: &RequestRecord) -> Self {
        let asks = Asks {
            task: AboutTask::of(task),
            prompt: task.prompt_summary.clone(),
            tokens: tokens(task),
            is_question: request.ask.is_question(),
            requests: asked([request]),
            in_conversation: false,
        };
        Self { at: request.created_at, content: Content::Asks(asks) }
    }

    /// The reason for the notice.
    pub fn occasion(&self) -> Occasion {
        match &self.content {
            Content::Finished(finished) => Occasion::of_status(finished.task.status),
            Content::Asks(asks) if asks.is_question => Occasion::Question,
            Content::Asks(_) => Occasion::Approval,
            Content::Reminder(_) | Content::Reply(_) => Occasion::Reply,
            Content::Test => Occasion::Test,
        }
    }

    /// The task that the notice is about, if any.
    pub fn task(&self) -> Option<&AboutTask> {
        match &self.content {
            Content::Finished(finished) => Some(&finished.task),
            Content::Asks(asks) => Some(&asks.task),
            Content::Reminder(reminder) => Some(&reminder.task),
            Content::Reply(reply) => reply.task.as_ref(),
            Content::Test => None,
        }
    }

    /// The open requests, the oldest first.
    pub fn requests(&self) -> &[Asked] {
        match &self.content {
            Content::Asks(asks) => &asks.requests,
            Content::Reminder(reminder) => &reminder.requests,
            Content::Finished(_) | Content::Reply(_) | Content::Test => &[],
        }
    }

    pub(crate) fn requests_mut(&mut self) -> Option<&mut Vec<Asked>> {
        match &mut self.content {
            Content::Asks(asks) => Some(&mut asks.requests),
            Content::Reminder(reminder) => Some(&mut reminder.requests),
            Content::Finished(_) | Content::Reply(_) | Content::Test => None,
        }
    }

    /// The platform's id of the message that this answers, if it is a reply.
    pub fn in_reply_to(&self) -> Option<&str> {
        if let Content::Reply(reply) = &self.content { reply.in_reply_to.as_deref() } else { None }
    }

    /// The same notice with these requests. A notice without requests stays as it is.
    #[must_use]
    pub fn asking(&self, requests: Vec<Asked>) -> Self {
        let mut notice = self.clone();
        if let Some(asked) = notice.requests_mut() {
            *asked = requests;
        }
        notice
    }

    /// As [`Self::asking`], for stored requests.
    pub(crate) fn asking_for(&self, open: &[RequestRecord]) -> Self {
        self.asking(asked(open))
    }

    /// Whether the notice contains this request.
    pub fn tells_of(&self, request_id: &RequestName) -> bool {
        self.requests().iter().any(|asked| asked.request_id == *request_id)
    }

    /// Records which requests people can read in full, and redacts the secrets that were shown for the decision.
    pub(crate) fn note_shown(&mut self, shown: &[RequestName], redactor: &Redactor) {
        for asked in self.requests_mut().into_iter().flatten() {
            asked.was_shown = shown.contains(&asked.request_id);
            asked.ask.redact(redactor);
        }
    }

    /// The text and the closing of a notice. Two notices with the same ones may be mistaken for each other.
    pub(crate) fn words(&self) -> (Option<&str>, Option<&str>) {
        match &self.content {
            Content::Finished(finished) => {
                (finished.answer.as_ref().map(|answer| answer.text.as_str()), None)
            }
            Content::Asks(_) => (None, None),
            Content::Reminder(_) => (Some(REMINDER), None),
            Content::Reply(reply) => (Some(&reply.text.text), reply.closing.as_deref()),
            Content::Test => (Some(TEST), None),
        }
    }
}

fn tokens(task: &Task) -> Option<u64> {
    task.usage.map(|usage| usage.total.total)
}

/// Requests for a notice, as many as fit in one.
fn asked<'a>(requests: impl IntoIterator<Item = &'a RequestRecord>) -> Vec<Asked> {
    requests.into_iter().take(MOST_REQUESTS).map(Asked::of).collect()
}

/// The request with only the names of the files that would change.
fn without_diffs(ask: &Ask) -> Ask {
    let mut ask = ask.clone();
    for change in &mut ask.changes {
        change.diff.clear();
    }
    ask
}

/// The files of a unified diff, by their new names; a deleted file by its old one.
fn changed_files(diff: &str, cwd: &str) -> Vec<String> {
    let mut files: Vec<String> = Vec::new();
    for file in diff::files(diff).iter().filter(|file| file.is_named()) {
        let name = below(&file.path, cwd);
        if files.iter().all(|known| known != name) {
            files.push(name.to_owned());
        }
    }
    files
}

/// A file's path relative to the task's directory. In a diff of codex 0.166 the path begins at the root of the
/// repository or, without a repository, somewhere above the directory.
fn below<'a>(file: &'a str, cwd: &str) -> &'a str {
    let slashes = file.rmatch_indices('/').map(|(at, _)| at);
    let is_tail = |at: &usize| cwd.strip_suffix(&file[..*at]).is_some_and(|rest| rest.ends_with('/'));
    slashes.into_iter().find(is_tail).map_or(file, |at| &file[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_as_seen_from_where_the_task_works() {
        let diff = "diff --git a/tmp/ws/new.txt b/tmp/ws/new.txt\nnew file mode 100644\n+diff --git a/x b/x\n\
            diff --git a/tmp/ws/src/a b.rs b/tmp/ws/src/a b.rs\ndiff --git a/tmp/ws/new.txt b/tmp/ws/new.txt\n";
        assert_eq!(changed_files(diff, "/var/tmp/ws"), ["new.txt", "src/a b.rs"]);
        assert_eq!(changed_files(diff, "/tmp/ws"), ["new.txt", "src/a b.rs"]);
        assert_eq!(changed_files(diff, "/elsewhere"), ["tmp/ws/new.txt", "tmp/ws/src/a b.rs"]);
        assert_eq!(changed_files(diff, "/not-tmp/ws"), ["tmp/ws/new.txt", "tmp/ws/src/a b.rs"]);
    }
}
