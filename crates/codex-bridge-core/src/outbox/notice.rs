//! What is told: a small structured message, from which every platform makes its own.
//!
//! All texts come redacted, as everything that is stored; what a platform cannot show is cut there, not here, except
//! for an answer that no platform would take.

use codex_session::Ask;
use redact::Redactor;
use serde::{Deserialize, Serialize};

use crate::bridge::Button;
use crate::diff;
use crate::request::RequestRecord;
use crate::task::{Parked, Status, Task, TaskError, TaskId, TimeMs};

/// The longest answer that is kept for telling, in characters: a webhook's body should stay below 20 KB.
const ANSWER_CHARS: usize = 6_000;
/// The longest reply, in characters: beyond this nobody reads a chat.
const REPLY_CHARS: usize = 64_000;
/// The most files that are named.
const MOST_FILES: usize = 20;
/// The most requests that are told at once; more are told in several notices.
pub(crate) const MOST_REQUESTS: usize = 10;

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

    /// Whether somebody is asked for something, which may be answered before they are told.
    pub fn asks(self) -> bool {
        matches!(self, Self::Approval | Self::Question)
    }

    /// Whether it tells that a task has come to rest.
    pub fn is_of_rest(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Paused)
    }

    /// What a request is.
    pub fn of_request(request: &RequestRecord) -> Self {
        if request.ask.is_question() { Self::Question } else { Self::Approval }
    }

    /// What it is that a task has come to rest so; none while it has not.
    pub fn of_rest(task: &Task) -> Option<Self> {
        match (task.status, &task.parked) {
            (Status::Completed, _) => Some(Self::Completed),
            (Status::Failed | Status::Cancelled | Status::Lost, _) => Some(Self::Failed),
            // Of all that wait for one login, one carries the notice.
            (Status::Paused, Some(Parked::Login { carries_notice: false, .. })) => None,
            (Status::Paused, _) => Some(Self::Paused),
            _ => None,
        }
    }
}

/// What is told about a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// Why.
    #[serde(rename = "event")]
    pub occasion: Occasion,
    /// Of which task.
    pub task_id: TaskId,
    /// How it stands.
    pub status: Status,
    /// What was asked, shortened.
    pub prompt: String,
    /// Where it works.
    pub cwd: String,
    /// The final answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// How many characters of the answer are missing.
    #[serde(default)]
    pub answer_cut_chars: usize,
    /// Why it did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<TaskError>,
    /// Why it is paused, lost or cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How long the last turn worked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work_ms: Option<u64>,
    /// Tokens of the whole thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Files that the last turn changed, the first few.
    #[serde(default)]
    pub files: Vec<String>,
    /// How many more there are.
    #[serde(default)]
    pub more_files: usize,
    /// What waits for an answer, the oldest first.
    #[serde(default)]
    pub requests: Vec<Asked>,
    /// How many more there are.
    #[serde(default)]
    pub more_requests: usize,
    /// Whether it asks in the conversation that the task is of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_of_conversation: bool,
    /// What stands at the very end, however much of the answer is cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closing: Option<String>,
    /// A reply: the platform's own name of the message that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_reply_to: Option<String>,
    /// When it happened.
    pub at: TimeMs,
}

/// A request, as it is told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its name.
    pub request_id: String,
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

impl Notice {
    fn new(occasion: Occasion, task_id: TaskId, status: Status, at: TimeMs) -> Self {
        Self {
            occasion,
            task_id,
            status,
            prompt: String::new(),
            cwd: String::new(),
            answer: None,
            answer_cut_chars: 0,
            error: None,
            reason: None,
            work_ms: None,
            tokens: None,
            files: Vec::new(),
            more_files: 0,
            requests: Vec::new(),
            more_requests: 0,
            is_of_conversation: false,
            closing: None,
            in_reply_to: None,
            at,
        }
    }

    fn of(occasion: Occasion, task: &Task, at: TimeMs) -> Self {
        Self {
            prompt: task.prompt_summary.clone(),
            cwd: task.settings.cwd.to_string_lossy().into_owned(),
            tokens: task.usage.map(|usage| usage.total.total),
            ..Self::new(occasion, task.id.clone(), task.status, at)
        }
    }

    /// That a task has come to rest; none if nobody needs to know.
    pub(crate) fn of_rest(task: &Task, turn: TurnFacts<'_>, at: TimeMs) -> Option<Self> {
        let occasion = Occasion::of_rest(task)?;
        let mut notice = Self::of(occasion, task, at);
        if let Some(prompt) = turn.prompt {
            prompt.clone_into(&mut notice.prompt);
        }
        let answer = task.final_text.as_deref();
        notice.answer_cut_chars = answer.map_or(0, |text| text.chars().count().saturating_sub(ANSWER_CHARS));
        notice.answer = answer.map(|text| text.chars().take(ANSWER_CHARS).collect());
        notice.error.clone_from(&task.error);
        notice.reason.clone_from(&task.reason);
        notice.work_ms = turn.work_ms;
        let mut files = turn.diff.map(|diff| changed_files(diff, &notice.cwd)).unwrap_or_default();
        notice.more_files = files.len().saturating_sub(MOST_FILES);
        files.truncate(MOST_FILES);
        notice.files = files;
        Some(notice)
    }

    /// That a task waits for an answer.
    pub(crate) fn of_request(task: &Task, request: &RequestRecord) -> Self {
        let mut notice = Self::of(Occasion::of_request(request), task, request.created_at);
        notice.ask([request]);
        notice
    }

    /// Asks for these, and nothing else.
    pub(crate) fn ask<'a>(&mut self, requests: impl IntoIterator<Item = &'a RequestRecord>) {
        self.requests = requests
            .into_iter()
            .map(|request| Asked {
                request_id: request.request_id.clone(),
                digest: request.digest.clone(),
                is_long: !request.fits_a_chat(),
                was_shown: false,
                ask: if request.fits_a_chat() {
                    request.ask.ask.clone()
                } else {
                    without_diffs(&request.ask)
                },
                expires_at: request.expires_at,
            })
            .collect();
        self.more_requests = self.requests.len().saturating_sub(MOST_REQUESTS);
        self.requests.truncate(MOST_REQUESTS);
    }

    /// Whether it tells of this request.
    pub(crate) fn tells_of(&self, request_id: &str) -> bool {
        self.requests.iter().any(|asked| asked.request_id == request_id)
    }

    /// Notes which of its requests people can read whole. The secrets that it had to show them are hidden from now on.
    pub(crate) fn note_shown(&mut self, shown: &[String], redactor: &Redactor) {
        for asked in &mut self.requests {
            asked.was_shown = shown.contains(&asked.request_id);
            asked.ask.redact(redactor);
        }
    }

    /// What somebody gets who wrote to us: this text and nothing else.
    pub(crate) fn reply(task: Option<&Task>, text: &str, in_reply_to: Option<&str>, at: TimeMs) -> Self {
        let mut notice = match task {
            Some(task) => Self::of(Occasion::Reply, task, at),
            None => Self::new(Occasion::Reply, nobodys_task(), Status::Completed, at),
        };
        (notice.prompt, notice.tokens) = (String::new(), None);
        notice.answer_cut_chars = text.chars().count().saturating_sub(REPLY_CHARS);
        notice.answer = Some(text.chars().take(REPLY_CHARS).collect());
        notice.in_reply_to = in_reply_to.map(str::to_owned);
        notice
    }

    /// A notice for whoever tries a target.
    pub(crate) fn test(at: TimeMs) -> Self {
        Self {
            prompt: "a test of this target".to_owned(),
            cwd: "/".to_owned(),
            answer: Some("If you can read this, notices reach this target.".to_owned()),
            ..Self::new(Occasion::Test, nobodys_task(), Status::Completed, at)
        }
    }
}

/// Stands where a notice is of no task.
fn nobodys_task() -> TaskId {
    TaskId("codex-000000000000".to_owned())
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
