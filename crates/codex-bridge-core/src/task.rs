//! A task: one Codex thread under supervision, as it is remembered.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use codex_session::{ApprovalMode, Escalations, Sandbox, TurnOutcome};
use codex_wire::thread::{TokenCount, TokenUsage};
use codex_wire::{Epoch, ThreadId, TurnId, text_id};
use serde::{Deserialize, Serialize};

use crate::place::Place;
use crate::trust::Trust;

/// With less time than this nothing is done: the limit counts as reached.
const LEAST_WORK_MS: u64 = 1_000;

/// Milliseconds since 1970, UTC.
pub type TimeMs = i64;

text_id!(
    /// Names a task: `codex-` and twelve hex digits.
    TaskId
);

/// A task as it is remembered. Texts are redacted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its name.
    pub id: TaskId,
    /// The caller's own name for the request that started it: the same one gives the same task.
    pub client_request_id: Option<String>,
    /// Where it stands.
    pub status: Status,
    /// Why it is paused, parked, lost or cancelled.
    pub reason: Option<String>,
    /// The beginning of its first prompt.
    pub prompt_summary: String,
    /// How Codex runs it.
    pub settings: Settings,
    /// What makes a paused task go on by itself, if anything does.
    pub parked: Option<Parked>,
    /// How much it may use.
    pub limits: Limits,
    /// What it has used.
    pub used: Used,
    /// Its thread, once there is one.
    pub thread_id: Option<ThreadId>,
    /// Its current or last turn.
    pub turn_id: Option<TurnId>,
    /// The start of the host that its thread was last open on.
    pub epoch: Option<Epoch>,
    /// The directory name of that host.
    pub host: Option<String>,
    /// The answer of its last turn.
    pub final_text: Option<String>,
    /// Why its last turn did not succeed.
    pub error: Option<TaskError>,
    /// Tokens of the whole thread, as last reported.
    pub usage: Option<Usage>,
    /// Who wants to be told.
    pub notify_target: Option<String>,
    /// Where people are asked what Codex asks: the target of the conversation that it works for, if anyone there may
    /// decide.
    #[serde(default)]
    pub asks_in: Option<String>,
    /// The token by which its last turn was handed over, if it was by one.
    #[serde(default)]
    pub token: Option<String>,
    /// How far the telling is.
    pub notification: Notification,
    /// When it was handed over.
    pub created_at: TimeMs,
    /// When anything last changed.
    pub updated_at: TimeMs,
    /// When its last turn ended, if it has.
    pub completed_at: Option<TimeMs>,
}

/// Where a task stands, as it is remembered. That it waits for people follows from its open requests: [`ShownStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It waits for its turn.
    Queued,
    /// Codex is being reached, the thread opened, the prompt sent.
    Starting,
    /// A turn runs.
    Working,
    /// A turn is being stopped.
    Interrupting,
    /// Its last turn completed.
    Completed,
    /// Its last turn failed.
    Failed,
    /// Its last turn was stopped by someone.
    Cancelled,
    /// Its host died under it.
    Lost,
    /// It may not go on before someone says so, or before a limit is renewed.
    Paused,
}

impl Status {
    /// All of them, in the order of a task's life.
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

    /// Whether nothing happens any more unless someone asks for it.
    pub fn is_at_rest(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled | Self::Lost | Self::Paused)
    }

    /// Whether a turn has been begun and not ended.
    pub fn is_running(self) -> bool {
        !self.is_at_rest() && self != Self::Queued
    }
}

/// The word for people.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShownStatus::Stored(*self).fmt(f)
    }
}

/// Where a task stands, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShownStatus {
    /// A turn waits for somebody's approval.
    WaitingForApproval,
    /// A turn waits for somebody's answer.
    WaitingForUserInput,
    /// As it is remembered.
    #[serde(untagged)]
    Stored(Status),
}

impl ShownStatus {
    /// All of them, in the order of a task's life.
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

    /// Whether nothing happens any more unless someone asks for it.
    pub fn is_at_rest(self) -> bool {
        matches!(self, Self::Stored(status) if status.is_at_rest())
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

/// Reads both the words for programs and those for people; blanks, `_` and `-` are the same.
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
    /// Where it works.
    pub cwd: PathBuf,
    /// What its commands may touch.
    pub sandbox: Sandbox,
    /// When it asks.
    pub approval_policy: ApprovalMode,
    /// The model, if not Codex's own choice.
    pub model: Option<String>,
    /// The reasoning effort, if not Codex's own choice.
    pub effort: Option<String>,
    /// The CODEX_HOME, if not the operator's default.
    pub codex_home: Option<PathBuf>,
    /// Instructions above the prompt.
    pub developer_instructions: Option<String>,
    /// Whether its commands reach the network. Only the operator's file can say so.
    #[serde(default)]
    pub network: bool,
    /// Directories beside `cwd` that its commands may write. Only the operator's file can name them.
    #[serde(default)]
    pub writable_roots: Vec<PathBuf>,
    /// How far `cwd` is trusted where the operator has not decided about it.
    #[serde(default)]
    pub trust: Trust,
    /// Which directory `cwd` led to when the task was handed over; none for tasks from before this was kept.
    #[serde(default)]
    pub place: Option<Place>,
    /// Why it may do less than was asked for.
    #[serde(default)]
    pub narrowed: Option<String>,
    /// How far `cwd` was trusted when the last turn began: that turn keeps it, through a restart too.
    #[serde(default)]
    pub trust_of_turn: Option<Trust>,
    /// What becomes of wishes to leave the sandbox. No caller can choose it.
    #[serde(default)]
    pub escalations: EscalationRule,
    /// Who asked for the last turn. The defaults for a person at the terminal do not hold for turns of others.
    #[serde(default)]
    pub turn_given_by: GiverKind,
}

/// Who hands over work.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GiverKind {
    /// The owner of the machine, or the program that the bridge is a part of.
    #[default]
    Owner,
    /// An agent, or somebody who is not on this machine.
    Other,
}

/// What becomes of a task's wishes to leave the sandbox, as far as the task decides that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct EscalationRule {
    /// What the profile says that the task was handed over with. It comes before what the operator's file says for all.
    pub of_profile: Option<Escalations>,
    /// What holds for whoever handed the task over, where the operator says nothing.
    pub of_origin: Escalations,
}

impl Default for EscalationRule {
    /// Also for tasks from before this was kept: who handed them over is not known, so nobody is asked.
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
            turn_given_by: GiverKind::default(),
        }
    }
}

impl Settings {
    /// Whether a caller asked for the same. Which directory the path leads to is found out later for some tasks, and how
    /// far it is trusted when a turn begins. What becomes of escalations is not asked for.
    pub(crate) fn asks_the_same(&self, other: &Self) -> bool {
        let (escalations, turn_given_by) = (EscalationRule::default(), GiverKind::default());
        let asked =
            |it: &Self| Self { place: None, trust_of_turn: None, escalations, turn_given_by, ..it.clone() };
        asked(self) == asked(other)
    }
}

/// What makes a paused task go on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "until")]
pub enum Parked {
    /// The account's limit is renewed at this time, or is worth a probe then.
    UsageLimit {
        /// When.
        resume_at: TimeMs,
        /// Whether the account told that time. If not, one task probes for all.
        is_known: bool,
    },
    /// The login changes: this is what it looked like when the turn that failed began.
    Login {
        /// A fingerprint of the login file.
        seen: String,
        /// Whether this task carries the one notice for all that wait for this login.
        #[serde(default)]
        carries_notice: bool,
    },
}

/// How much a task may use before it is paused. None is no limit.
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
    /// How often it was taken up again after its host died.
    pub host_losses: u32,
    /// How often in a row the account's limit stopped it.
    pub limit_hits: u32,
    /// How often in a row Codex withheld the network from it.
    pub withheld: u32,
    /// What does not count against its limits, because someone continued it beyond them.
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

/// Tokens of a thread, in our own names: written and read alike, whatever Codex calls them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of the last response of the model.
    pub last: Tokens,
    /// Of the whole thread.
    pub total: Tokens,
    /// What the model can take.
    pub context_window: Option<u64>,
}

/// One count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// All of them.
    pub total: u64,
    /// Read, cached ones included.
    pub input: u64,
    /// Read from the cache.
    pub cached_input: u64,
    /// Written.
    pub output: u64,
    /// Of those, reasoning.
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
    /// Whether its limit leaves it another turn.
    pub fn has_turn_left(&self) -> bool {
        let limit = self.limits.turns.map(|limit| limit.saturating_add(self.used.waived.turns));
        limit.is_none_or(|limit| self.used.turns < limit)
    }

    /// How long it may still work, if that is limited.
    pub fn work_left_ms(&self) -> Option<u64> {
        let limit = self.limits.work_ms?.saturating_add(self.used.waived.work_ms);
        Some(limit.saturating_sub(self.used.work_ms))
    }

    /// How many tokens its whole thread may use, if that is limited.
    pub fn token_limit(&self) -> Option<u64> {
        Some(self.limits.tokens?.saturating_add(self.used.waived.tokens))
    }

    /// Lets it go on beyond the limits that it has reached: one more turn, as long again, as many tokens again.
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
    /// In one word.
    pub kind: String,
    /// In a sentence.
    pub message: String,
}

/// How far the telling of a task's end is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Notification {
    /// `pending`, `sent`, `failed`, `no_target`, or empty while there is nothing to tell.
    pub status: String,
    /// When it was told.
    pub sent_at: Option<TimeMs>,
    /// Why it could not be told.
    pub error: Option<String>,
}

/// One prompt of a task, up to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnRecord {
    /// Whose.
    pub task_id: TaskId,
    /// Which, from 1.
    pub number: u32,
    /// Our own id of the prompt, which Codex shows again.
    pub client_id: String,
    /// The caller's own name for it.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// Of a turn from before names were kept: a keyed mark of the name.
    #[serde(default)]
    pub name_mark: Option<String>,
    /// A keyed mark of the prompt: whether another prompt is the same can be told when this one is long gone.
    #[serde(default)]
    pub prompt_mark: Option<String>,
    /// How the task stood when the turn was lined up; none for a first turn.
    #[serde(default)]
    pub before: Option<Before>,
    /// How far it is.
    pub progress: TurnProgress,
    /// The prompt as it must be sent, sealed; gone once Codex has it.
    pub sealed_prompt: Option<Vec<u8>>,
    /// The beginning of the prompt, redacted.
    pub prompt_summary: String,
    /// Codex's id of the turn, once known.
    pub turn_id: Option<TurnId>,
    /// How it ended; none while it has not, and for turns that were never sent.
    #[serde(default)]
    pub outcome: Option<TurnOutcome>,
    /// The answer.
    #[serde(default)]
    pub final_text: Option<String>,
    /// Why there is none.
    #[serde(default)]
    pub error: Option<TaskError>,
    /// When it was asked for.
    pub created_at: TimeMs,
    /// When it ended.
    pub ended_at: Option<TimeMs>,
}

/// How a task stood when another turn was lined up for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Its status.
    pub status: Status,
    /// Why it was paused, lost or cancelled.
    pub reason: Option<String>,
    /// Whether the bridge itself goes on with the turn before, and no caller asked for another one.
    pub resumes: bool,
}

/// How far a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnProgress {
    /// Not sent, for certain.
    Recorded,
    /// About to be sent, or sent: look before sending again.
    Sending,
    /// Codex has it.
    Accepted,
    /// Over.
    Ended,
}

#[cfg(test)]
mod tests;
