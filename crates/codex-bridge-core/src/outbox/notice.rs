//! What is told: a small structured message, from which every platform makes its own.
//!
//! All texts come redacted, as everything that is stored; what a platform cannot show is cut there, not here, except
//! for an answer that no platform would take.

mod record;

use codex_session::Ask;
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::diff;
use crate::request::{Button, RequestName, RequestRecord};
use crate::task::{Parked, Status, Task, TaskError, TaskId, TimeMs};

pub use record::NO_TASK;
use record::Record;

/// The longest answer that is kept for telling, in characters: a webhook's body should stay below 20 KB.
const ANSWER_CHARS: usize = 6_000;
/// The longest reply, in characters: beyond this nobody reads a chat.
const REPLY_CHARS: usize = 64_000;
/// The most files that are named.
const MOST_FILES: usize = 20;
/// The most requests that are told at once; more are told in several notices.
pub(crate) const MOST_REQUESTS: usize = 10;
/// What a reminder says below the requests that are still open.
pub const REMINDER: &str = "This still waits for a decision.";
/// What a test says.
pub const TEST: &str = "If you can read this, notices reach this target.";
/// What a test gives as its prompt.
pub const TEST_PROMPT: &str = "a test of this target";

/// Why somebody is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occasion {
    /// A task completed.
    Completed,
    /// A task failed, was cancelled, or lost its host.
    Failed,
    /// A task waits for an approval.
    Approval,
    /// A task wants to know something.
    Question,
    /// A task is paused.
    Paused,
    /// Somebody tries whether a target can be reached.
    Test,
    /// Somebody wrote to us, and this is what they get.
    Reply,
}

impl Occasion {
    /// Those that a target can ask for.
    pub const ALL: [Self; 5] = [Self::Completed, Self::Failed, Self::Approval, Self::Question, Self::Paused];

    /// As it is written everywhere.
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

    /// What a word of a filter stands for.
    pub(super) fn of_filter(word: &str) -> Option<Vec<Self>> {
        if word == "all" {
            return Some(Self::ALL.to_vec());
        }
        Self::ALL.into_iter().find(|occasion| occasion.as_str() == word).map(|one| vec![one])
    }

    /// What a request is.
    pub fn of_request(request: &RequestRecord) -> Self {
        if request.ask.is_question() { Self::Question } else { Self::Approval }
    }

    /// What it is that a task has come to rest so; none while it has not.
    pub fn of_rest(task: &Task) -> Option<Self> {
        // Of all that wait for one login, one carries the notice.
        let is_silent = matches!(task.parked, Some(Parked::Login { carries_notice: false, .. }));
        let is_told = task.status.is_at_rest() && !(is_silent && task.status == Status::Paused);
        is_told.then(|| Self::of_status(task.status))
    }

    /// What the status of a task at rest is.
    fn of_status(status: Status) -> Self {
        match status {
            Status::Completed => Self::Completed,
            Status::Paused => Self::Paused,
            _ => Self::Failed,
        }
    }
}

/// What somebody is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "Record", into = "Record")]
pub struct Notice {
    /// When it happened.
    pub at: TimeMs,
    /// What happened.
    pub content: Content,
}

/// What a notice tells.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// A task has come to rest.
    Rest(Rest),
    /// A task waits for people.
    Asks(Asks),
    /// What a task asked is still open.
    Reminder(Reminder),
    /// The answer to somebody who wrote to us.
    Reply(Reply),
    /// Somebody tries whether a target can be reached.
    Test,
}

/// The task that a notice is about.
#[derive(Debug, Clone, PartialEq)]
pub struct AboutTask {
    /// The name of the task.
    pub id: TaskId,
    /// Where the task stood then.
    pub status: Status,
    /// Where the task works.
    pub cwd: String,
}

/// A task has come to rest: its status says how.
#[derive(Debug, Clone, PartialEq)]
pub struct Rest {
    /// The task.
    pub task: AboutTask,
    /// What was asked in the last turn, shortened.
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
    /// Files that the last turn changed, the first few.
    pub files: Vec<String>,
    /// How many more files changed.
    pub more_files: usize,
}

/// A task waits for people.
#[derive(Debug, Clone, PartialEq)]
pub struct Asks {
    /// The task.
    pub task: AboutTask,
    /// What the task was asked to do, shortened.
    pub prompt: String,
    /// Tokens of the whole thread.
    pub tokens: Option<u64>,
    /// Whether all requests ask for words; if not, all of them ask for a yes.
    pub is_question: bool,
    /// What waits for an answer, the oldest first.
    pub requests: Vec<Asked>,
    /// Whether the target is the conversation that the task works for.
    pub in_conversation: bool,
}

/// What a task asked is still open. In JSON a reminder is a reply that asks.
#[derive(Debug, Clone, PartialEq)]
pub struct Reminder {
    /// The task.
    pub task: AboutTask,
    /// What waits for an answer, the oldest first.
    pub requests: Vec<Asked>,
}

/// The answer to somebody who wrote to us.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The task that answered, if one did.
    pub task: Option<AboutTask>,
    /// The answer.
    pub text: Excerpt,
    /// What stands at the very end, however much of the answer is cut.
    pub closing: Option<String>,
    /// The platform's own name of the message that is answered.
    pub in_reply_to: Option<String>,
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

/// A request, as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its name.
    pub request_id: RequestName,
    /// Names what is asked: a decision counts for nothing else. Empty in what was told before there were digests.
    #[serde(default)]
    pub digest: String,
    /// What is shown to whoever decides.
    pub ask: Ask,
    /// Whether it says more than people are shown in a chat, where nobody can agree to it then. Its diffs are left out.
    #[serde(default)]
    pub is_long: bool,
    /// Delivered: whether all of it can be read where it was told.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_shown: bool,
    /// When it is declined by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<TimeMs>,
}

impl Asked {
    /// Whether a person is asked for words rather than for a yes.
    pub fn is_question(&self) -> bool {
        self.ask.is_question()
    }

    /// Its name with the beginning of its digest, as buttons carry it: [`Button::named`] reads it.
    pub fn name(&self) -> String {
        let digest = self.digest.get(..Button::DIGEST_CHARS).unwrap_or(&self.digest);
        format!("{}.{digest}", self.request_id)
    }
}

/// What is known of a turn when it ends, beyond the task itself.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnFacts<'a> {
    /// What was asked in it.
    pub(crate) prompt: Option<&'a str>,
    /// How long it worked.
    pub(crate) work_ms: Option<u64>,
    /// What it changed, as a unified diff.
    pub(crate) diff: Option<&'a str>,
}

impl AboutTask {
    fn of(task: &Task) -> Self {
        let cwd = task.settings.cwd.to_string_lossy().into_owned();
        Self { id: task.id.clone(), status: task.status, cwd }
    }
}

impl Reply {
    /// This text, and nothing else.
    pub(crate) fn new(task: Option<&Task>, text: &str) -> Self {
        let text = Excerpt::of(text, REPLY_CHARS);
        Self { task: task.map(AboutTask::of), text, closing: None, in_reply_to: None }
    }
}

impl Reminder {
    /// Of these requests of a task.
    pub(crate) fn new(task: &Task, requests: &[RequestRecord]) -> Self {
        Self { task: AboutTask::of(task), requests: asked(requests) }
    }
}

impl Notice {
    /// That a task has come to rest; none if nobody needs to know.
    pub(crate) fn of_rest(task: &Task, turn: TurnFacts<'_>, at: TimeMs) -> Option<Self> {
        Occasion::of_rest(task)?;
        let about = AboutTask::of(task);
        let mut files = turn.diff.map(|diff| changed_files(diff, &about.cwd)).unwrap_or_default();
        let more_files = files.len().saturating_sub(MOST_FILES);
        files.truncate(MOST_FILES);
        let rest = Rest {
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
        Some(Self { at, content: Content::Rest(rest) })
    }

    /// That a task waits for an answer.
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

    /// Why somebody is told.
    pub fn occasion(&self) -> Occasion {
        match &self.content {
            Content::Rest(rest) => Occasion::of_status(rest.task.status),
            Content::Asks(asks) if asks.is_question => Occasion::Question,
            Content::Asks(_) => Occasion::Approval,
            Content::Reminder(_) | Content::Reply(_) => Occasion::Reply,
            Content::Test => Occasion::Test,
        }
    }

    /// The task that it is about, if it is about one.
    pub fn task(&self) -> Option<&AboutTask> {
        match &self.content {
            Content::Rest(rest) => Some(&rest.task),
            Content::Asks(asks) => Some(&asks.task),
            Content::Reminder(reminder) => Some(&reminder.task),
            Content::Reply(reply) => reply.task.as_ref(),
            Content::Test => None,
        }
    }

    /// What waits for an answer, the oldest first.
    pub fn requests(&self) -> &[Asked] {
        match &self.content {
            Content::Asks(asks) => &asks.requests,
            Content::Reminder(reminder) => &reminder.requests,
            Content::Rest(_) | Content::Reply(_) | Content::Test => &[],
        }
    }

    pub(crate) fn requests_mut(&mut self) -> Option<&mut Vec<Asked>> {
        match &mut self.content {
            Content::Asks(asks) => Some(&mut asks.requests),
            Content::Reminder(reminder) => Some(&mut reminder.requests),
            Content::Rest(_) | Content::Reply(_) | Content::Test => None,
        }
    }

    /// The platform's own name of the message that it answers, if it answers one.
    pub fn in_reply_to(&self) -> Option<&str> {
        if let Content::Reply(reply) = &self.content { reply.in_reply_to.as_deref() } else { None }
    }

    /// The same notice, which asks for these and nothing else. One that asks for nothing stays as it is.
    #[must_use]
    pub fn asking(&self, requests: Vec<Asked>) -> Self {
        let mut notice = self.clone();
        if let Some(asked) = notice.requests_mut() {
            *asked = requests;
        }
        notice
    }

    /// The same for requests that are open.
    pub(crate) fn asking_for(&self, open: &[RequestRecord]) -> Self {
        self.asking(asked(open))
    }

    /// Whether it tells of this request.
    pub(crate) fn tells_of(&self, request_id: &RequestName) -> bool {
        self.requests().iter().any(|asked| asked.request_id == *request_id)
    }

    /// Notes which of its requests people can read whole. The secrets that it had to show them are hidden from now on.
    pub(crate) fn note_shown(&mut self, shown: &[RequestName], redactor: &Redactor) {
        for asked in self.requests_mut().into_iter().flatten() {
            asked.was_shown = shown.contains(&asked.request_id);
            asked.ask.redact(redactor);
        }
    }

    /// The words that it has beside what it asks, and what stands at its end: two notices with the same ones may be taken
    /// for each other.
    pub(crate) fn words(&self) -> (Option<&str>, Option<&str>) {
        match &self.content {
            Content::Rest(rest) => (rest.answer.as_ref().map(|answer| answer.text.as_str()), None),
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

/// Requests as they are told, as many as one notice holds.
fn asked<'a>(requests: impl IntoIterator<Item = &'a RequestRecord>) -> Vec<Asked> {
    let asked = |request: &RequestRecord| Asked {
        request_id: request.request_id.clone(),
        digest: request.digest.clone(),
        is_long: !request.fits_a_chat(),
        was_shown: false,
        ask: if request.fits_a_chat() { request.ask.ask.clone() } else { without_diffs(&request.ask) },
        expires_at: request.expires_at,
    };
    requests.into_iter().take(MOST_REQUESTS).map(asked).collect()
}

/// What is asked, with the names of the files that would change alone.
fn without_diffs(ask: &Ask) -> Ask {
    let mut ask = ask.clone();
    for change in &mut ask.changes {
        change.diff.clear();
    }
    ask
}

/// The files of a unified diff, by their new names, or the old one of a file that is gone.
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

/// A file's name as seen from the directory that the task works in. codex 0.166: in a diff it begins at the root of the
/// repository, or, where there is none, somewhere above the directory.
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
