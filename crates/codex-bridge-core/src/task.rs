//! A task: one supervised Codex thread, as stored.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use codex_session::{ApprovalMode, Escalations, Sandbox, TurnOutcome};
use codex_wire::thread::{TokenCount, TokenUsage};
use codex_wire::{Epoch, ThreadId, TurnId, text_id};
use serde::{Deserialize, Serialize};

use crate::id;
use crate::place::Place;
use crate::trust::Trust;

/// A task with less work time left than this has reached its limit: no turn could do anything useful.
const LEAST_WORK_MS: u64 = 1_000;

/// Milliseconds since 1970, UTC.
pub type TimeMs = i64;

text_id!(
    /// Names a task: `codex-` and hex digits.
    TaskId
);

impl TaskId {
    /// The short form, for people.
    pub fn short(&self) -> &str {
        id::short(&self.0)
    }
}

/// A stored task. All texts are redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// The task's name.
    pub id: TaskId,
    /// The caller's name for the request that started the task. The same name gives the same task.
    pub client_request_id: Option<String>,
    /// The stored status.
    pub status: Status,
    /// Why the task is paused, parked, lost or cancelled.
    pub reason: Option<String>,
    /// The beginning of the first prompt.
    pub prompt_summary: String,
    /// The settings that Codex runs the task with.
    pub settings: Settings,
    /// What makes a paused task continue by itself; `None` if it waits for a person.
    pub parked: Option<Parked>,
    /// How much the task may use.
    pub limits: Limits,
    /// What the task has used.
    pub used: Used,
    /// The Codex thread, once it is open.
    pub thread_id: Option<ThreadId>,
    /// The current or last turn.
    pub turn_id: Option<TurnId>,
    /// The epoch of the host on which the thread was last open.
    pub epoch: Option<Epoch>,
    /// The directory name of that host.
    pub host: Option<String>,
    /// The answer of the last turn.
    pub final_text: Option<String>,
    /// Why the last turn did not succeed.
    pub error: Option<TaskError>,
    /// Tokens of the whole thread, as last reported.
    pub usage: Option<Usage>,
    /// The target that is notified.
    pub notify_target: Option<String>,
    /// The target where people are asked what Codex requests: the task's conversation, if someone there may decide.
    #[serde(default)]
    pub asks_in: Option<String>,
    /// The token that handed over the last turn; `None` if it came without one.
    #[serde(default)]
    pub token: Option<String>,
    /// The notification of the task's end.
    pub notification: Notification,
    /// When the task was handed over.
    pub created_at: TimeMs,
    /// When anything last changed.
    pub updated_at: TimeMs,
    /// When the last turn ended; `None` while it runs.
    pub completed_at: Option<TimeMs>,
}

/// The stored status of a task. A task that waits for people has open requests; [`ShownStatus`] says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// The next turn waits in the queue.
    Queued,
    /// The bridge connects to Codex, opens the thread and sends the prompt.
    Starting,
    /// A turn runs.
    Working,
    /// A turn is being stopped.
    Interrupting,
    /// The last turn completed.
    Completed,
    /// The last turn failed.
    Failed,
    /// Someone stopped the last turn.
    Cancelled,
    /// The host died during the turn.
    Lost,
    /// The task waits until someone continues it or a limit is renewed.
    Paused,
}

impl Status {
    /// All statuses, in the order of a task's life.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::Starting,
        Self::Working,
        Self::Interrupting,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Lost,
        Self::Paused,
    ];

    /// The word for programs: in JSON and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Starting => "starting",
            Self::Working => "working",
            Self::Interrupting => "interrupting",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
            Self::Lost => "lost",
            Self::Paused => "paused",
        }
    }

    /// Whether no turn is queued or runs. A parked task counts as finished, although it continues by itself later.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Lost | Self::Paused)
    }

    /// Whether a turn has begun and has not ended.
    pub fn is_running(self) -> bool {
        !self.is_finished() && self != Self::Queued
    }
}

/// The word for people.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShownStatus::Stored(*self).fmt(f)
    }
}

/// The status of a task as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownStatus {
    /// A turn waits for somebody's approval.
    WaitingForApproval,
    /// A turn waits for somebody's answer.
    WaitingForUserInput,
    /// The stored status.
    #[serde(untagged)]
    Stored(Status),
}

impl ShownStatus {
    /// All statuses, in the order of a task's life.
    pub const ALL: [Self; 11] = [
        Self::Stored(Status::Queued),
        Self::Stored(Status::Starting),
        Self::Stored(Status::Working),
        Self::WaitingForApproval,
        Self::WaitingForUserInput,
        Self::Stored(Status::Interrupting),
        Self::Stored(Status::Completed),
        Self::Stored(Status::Failed),
        Self::Stored(Status::Cancelled),
        Self::Stored(Status::Lost),
        Self::Stored(Status::Paused),
    ];

    /// The word for programs: in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::WaitingForApproval => "waiting_for_approval",
            Self::WaitingForUserInput => "waiting_for_user_input",
            Self::Stored(status) => status.as_str(),
        }
    }

    /// The word for people: the same in the terminal, on the page, in chats and in notices.
    pub fn word(self) -> &'static str {
        match self {
            Self::WaitingForApproval => "needs approval",
            Self::WaitingForUserInput => "needs answer",
            Self::Stored(Status::Interrupting) => "stopping",
            Self::Stored(status) => status.as_str(),
        }
    }

    /// The stored statuses that may be shown as this one.
    pub(crate) fn stored(self) -> Vec<Status> {
        match self {
            Self::WaitingForApproval | Self::WaitingForUserInput => vec![Status::Starting, Status::Working],
            Self::Stored(status) => vec![status],
        }
    }

    /// Whether no turn is queued or runs.
    pub fn is_finished(self) -> bool {
        matches!(self, Self::Stored(status) if status.is_finished())
    }
}

impl PartialEq<Status> for ShownStatus {
    fn eq(&self, status: &Status) -> bool {
        *self == Self::Stored(*status)
    }
}

/// The word for people.
impl fmt::Display for ShownStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Reads the words for programs and the words for people. Spaces, `_` and `-` are interchangeable.
impl FromStr for ShownStatus {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let plain = |word: &str| word.trim().to_lowercase().replace(['_', '-'], " ");
        let wanted = plain(text);
        let is_it = |status: &Self| plain(status.as_str()) == wanted || status.word() == wanted;
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let known: Vec<&str> = Self::ALL.into_iter().map(Self::word).collect();
            format!("unknown status {text:?}: use {}", known.join(", "))
        })
    }
}

/// How Codex runs a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The directory in which the task works.
    pub cwd: PathBuf,
    /// What the task's commands may touch.
    pub sandbox: Sandbox,
    /// When Codex asks for an approval.
    pub approval_policy: ApprovalMode,
    /// The model, if not Codex's own choice.
    pub model: Option<String>,
    /// The reasoning effort, if not Codex's own choice.
    pub effort: Option<String>,
    /// The CODEX_HOME, if not the operator's default.
    pub codex_home: Option<PathBuf>,
    /// Instructions that Codex reads before the prompt.
    pub developer_instructions: Option<String>,
    /// Whether commands may use the network. Only the operator's file can allow it.
    #[serde(default)]
    pub network: bool,
    /// Directories beside `cwd` in which commands may write. Only the operator's file can name them.
    #[serde(default)]
    pub writable_roots: Vec<PathBuf>,
    /// The trust level of `cwd` where the operator has not set one.
    #[serde(default)]
    pub trust: Trust,
    /// The directory to which `cwd` led when the task was handed over; `None` in tasks of older versions.
    #[serde(default)]
    pub place: Option<Place>,
    /// Why the task may do less than was asked for.
    #[serde(default)]
    pub narrowed: Option<String>,
    /// The trust level when the last turn began. The turn keeps it, also across a restart.
    #[serde(default)]
    pub trust_of_turn: Option<Trust>,
    /// What happens to requests to leave the sandbox. No caller can choose it.
    #[serde(default)]
    pub escalations: EscalationRule,
    /// The author of the last turn. The defaults for a person at the terminal apply only to that person's turns.
    #[serde(default)]
    pub turn_given_by: AuthorKind,
}

/// Who hands over work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthorKind {
    /// The owner of the machine, or the program that embeds the bridge.
    #[default]
    Owner,
    /// An agent, or a person who is not at this machine.
    Other,
}

/// What happens to a task's requests to leave the sandbox, as far as the task itself determines that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationRule {
    /// The rule of the task's profile. It overrides the operator's rule for all tasks.
    pub of_profile: Option<Escalations>,
    /// The rule for the author of the task, where neither profile nor operator has one.
    pub of_origin: Escalations,
}

impl Default for EscalationRule {
    /// Also the rule for tasks of older versions: their author is unknown, so nobody is asked.
    fn default() -> Self {
        Self { of_profile: None, of_origin: Escalations::Decline }
    }
}

impl Settings {
    /// The safe defaults: read-only, every command asks, nothing is taken from the directory.
    pub fn new(cwd: impl Into<PathBuf>) -> Self {
        Self {
            cwd: cwd.into(),
            sandbox: Sandbox::ReadOnly,
            approval_policy: ApprovalMode::Untrusted,
            model: None,
            effort: None,
            codex_home: None,
            developer_instructions: None,
            network: false,
            writable_roots: Vec::new(),
            trust: Trust::Hostile,
            place: None,
            narrowed: None,
            trust_of_turn: None,
            escalations: EscalationRule::default(),
            turn_given_by: AuthorKind::default(),
        }
    }
}

impl Settings {
    /// Whether a caller asked for the same settings. Left out is what the bridge fills in itself: `place` and
    /// `trust_of_turn` when a turn begins, `escalations` and `turn_given_by` from the author.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        let (escalations, turn_given_by) = (EscalationRule::default(), AuthorKind::default());
        let asked =
            |it: &Self| Self { place: None, trust_of_turn: None, escalations, turn_given_by, ..it.clone() };
        asked(self) == asked(other)
    }
}

/// What makes a paused task continue by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "until")]
pub enum Parked {
    /// Waits until the account's limit is renewed.
    UsageLimit {
        /// When the limit is renewed or, if unknown, when to probe.
        resume_at: TimeMs,
        /// Whether the account reported that time. If not, one task probes for all.
        is_known: bool,
    },
    /// Waits until somebody logs in.
    Login {
        /// The fingerprint of the login file when the failed turn began.
        seen: String,
        /// Whether this task carries the one notice for all tasks that wait for this login.
        #[serde(default)]
        carries_notice: bool,
    },
}

/// How much a task may use before it is paused. `None` means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Turns in all.
    pub turns: Option<u32>,
    /// Milliseconds of work in all, not counting waits for people.
    pub work_ms: Option<u64>,
    /// Tokens of the whole thread.
    pub tokens: Option<u64>,
}

/// What a task has used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Turns begun.
    pub turns: u32,
    /// Milliseconds of work.
    pub work_ms: u64,
    /// How often the task was resumed after its host died.
    pub host_losses: u32,
    /// How often in a row the account's limit stopped the task.
    pub limit_hits: u32,
    /// How often in a row Codex withheld the network from the task.
    pub withheld: u32,
    /// The usage that does not count, because someone continued the task beyond its limits.
    pub waived: Waived,
}

/// What was used before someone continued a task beyond its limits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Waived {
    /// Turns.
    pub turns: u32,
    /// Milliseconds of work.
    pub work_ms: u64,
    /// Tokens.
    pub tokens: u64,
}

/// Tokens of a thread. The stored names are the bridge's own, so a rename in Codex changes no stored data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the model's last response.
    pub last: Tokens,
    /// Tokens of the whole thread.
    pub total: Tokens,
    /// How many tokens the model can take.
    pub context_window: Option<u64>,
}

/// One count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// All tokens.
    pub total: u64,
    /// Input, including cached input.
    pub input: u64,
    /// Input from the cache.
    pub cached_input: u64,
    /// Output, including reasoning.
    pub output: u64,
    /// Output that was reasoning.
    pub reasoning_output: u64,
}

impl From<&TokenUsage> for Usage {
    fn from(usage: &TokenUsage) -> Self {
        let TokenUsage { last, total, model_context_window } = usage;
        Self { last: last.into(), total: total.into(), context_window: *model_context_window }
    }
}

impl From<&TokenCount> for Tokens {
    fn from(count: &TokenCount) -> Self {
        let TokenCount {
            total_tokens: total,
            input_tokens: input,
            cached_input_tokens: cached_input,
            output_tokens: output,
            reasoning_output_tokens: reasoning_output,
        } = *count;
        Self { total, input, cached_input, output, reasoning_output }
    }
}

impl Task {
    /// Whether the limit allows another turn.
    pub fn has_turn_left(&self) -> bool {
        let limit = self.limits.turns.map(|limit| limit.saturating_add(self.used.waived.turns));
        limit.is_none_or(|limit| self.used.turns < limit)
    }

    /// How long the task may still work; `None` without a limit.
    pub fn work_left_ms(&self) -> Option<u64> {
        let limit = self.limits.work_ms?.saturating_add(self.used.waived.work_ms);
        Some(limit.saturating_sub(self.used.work_ms))
    }

    /// How many tokens the whole thread may use; `None` without a limit.
    pub fn token_limit(&self) -> Option<u64> {
        Some(self.limits.tokens?.saturating_add(self.used.waived.tokens))
    }

    /// Waives each limit that is reached: one more turn, the same work time again, the same tokens again.
    pub fn waive_reached_limits(&mut self) {
        if let Some(limit) = self.limits.turns.filter(|_| !self.has_turn_left()) {
            self.used.waived.turns = (self.used.turns + 1).saturating_sub(limit);
        }
        if self.work_left_ms().is_some_and(|left| left < LEAST_WORK_MS) {
            self.used.waived.work_ms = self.used.work_ms;
        }
        let tokens = self.usage.map_or(0, |usage| usage.total.total);
        if self.token_limit().is_some_and(|limit| tokens > limit) {
            self.used.waived.tokens = tokens;
        }
    }
}

/// Why a task's last turn did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskError {
    /// A word for programs.
    pub kind: String,
    /// A sentence for people.
    pub message: String,
}

/// The state of the notification that a task has ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notification {
    /// How far it has come.
    pub status: NotificationStatus,
    /// When the notification was sent.
    pub sent_at: Option<TimeMs>,
    /// Why the notification could not be sent.
    pub error: Option<String>,
}

/// How far the notification that a task has ended has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NotificationStatus {
    /// There is nothing to notify of yet.
    #[default]
    #[serde(rename = "")]
    None,
    /// It is to be sent.
    Pending,
    /// It is sent.
    Sent,
    /// It could not be sent.
    Failed,
    /// The task has no target.
    NoTarget,
}

/// One prompt of a task and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// The task.
    pub task_id: TaskId,
    /// The number of the turn, from 1.
    pub number: u32,
    /// The bridge's id of the prompt. Codex reports it back with the prompt.
    pub client_id: String,
    /// The caller's name for the turn.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// A keyed hash of the caller's name, in turns of versions that did not store the name.
    #[serde(default)]
    pub name_mark: Option<String>,
    /// A keyed hash of the prompt. It tells whether a repeated prompt is the same after the prompt itself is erased.
    #[serde(default)]
    pub prompt_mark: Option<String>,
    /// The task's status when the turn was queued; `None` for the first turn.
    #[serde(default)]
    pub before: Option<Before>,
    /// How far the turn has come.
    pub progress: TurnProgress,
    /// The sealed prompt. It is erased once Codex has the prompt.
    pub sealed_prompt: Option<Vec<u8>>,
    /// The beginning of the prompt, redacted.
    pub prompt_summary: String,
    /// The id of the message whose images are given to Codex with the prompt.
    #[serde(default)]
    pub images_of: Option<String>,
    /// Codex's id of the turn, once known.
    pub turn_id: Option<TurnId>,
    /// How the turn ended; `None` for a turn that has not ended or was never sent.
    #[serde(default)]
    pub outcome: Option<TurnOutcome>,
    /// The answer.
    #[serde(default)]
    pub final_text: Option<String>,
    /// Why there is no answer.
    #[serde(default)]
    pub error: Option<TaskError>,
    /// When the turn was handed over.
    pub created_at: TimeMs,
    /// When the turn ended.
    pub ended_at: Option<TimeMs>,
}

/// The task's status when another turn was queued.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// The status.
    pub status: Status,
    /// Why the task was paused, lost or cancelled.
    pub reason: Option<String>,
    /// Whether the bridge itself resumes the turn before, and no caller asked for another one.
    pub resumes: bool,
}

/// How far a turn has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnProgress {
    /// The prompt is stored and certainly not sent.
    Recorded,
    /// The prompt may have been sent: look for it before sending it again.
    Sending,
    /// Codex has the prompt.
    Accepted,
    /// The turn has ended.
    Ended,
}

#[cfg(test)]
mod tests;
