//! A task as callers are shown it: in full, in short form, its result and its turns.

use codex_bridge_core::bridge::Continued;
use codex_bridge_core::bridge::without_caller;
use codex_bridge_core::event::Line;
use codex_bridge_core::task::{
    self, Before, Limits, Notification as StoredNotification, NotificationStatus, ShownStatus, TaskError,
    TaskId, TurnProgress, TurnRecord, Used,
};
use codex_bridge_core::trust::Trust;
use codex_bridge_core::{TaskView, event};
use codex_session::TurnOutcome;
use codex_session::{ApprovalMode, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, time, words};
use crate::failure::{Code, Failure};

/// A task in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// The task's id.
    pub task_id: String,
    /// The status.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// Why the task is paused, lost or cancelled.
    pub reason: Option<String>,
    /// What the task waits for before it resumes by itself; null if it does not.
    pub parked: Option<Parked>,
    /// The beginning of the first prompt, redacted.
    pub prompt_summary: String,
    /// Codex's id for the thread, once there is one.
    pub thread_id: Option<String>,
    /// Codex's id for the current or last turn.
    pub turn_id: Option<String>,
    /// The requested turn; only in the reply to a call that continues the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<AskedTurn>,
    /// The directory that the task works in.
    pub cwd: String,
    /// The model; null for Codex's default.
    pub model: Option<String>,
    /// The reasoning effort; null for Codex's default.
    pub effort: Option<String>,
    /// The sandbox of the task's commands.
    #[schemars(schema_with = "words::sandbox")]
    pub sandbox: Sandbox,
    /// Why the task may do less than was requested.
    #[serde(default)]
    pub narrowed: Option<String>,
    /// When Codex asks for approval.
    #[schemars(schema_with = "words::approval_policy")]
    pub approval_policy: ApprovalMode,
    /// The present trust level of the directory.
    #[serde(default)]
    #[schemars(schema_with = "words::trust")]
    pub trust: Trust,
    /// The answer of the last turn.
    pub final_text: Option<String>,
    /// Why the last turn did not succeed.
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// The tokens of the whole thread.
    pub usage: Option<Usage>,
    /// The pending requests, the oldest first.
    pub pending_requests: Vec<Request>,
    /// How much the task may use.
    #[schemars(with = "words::TaskLimits")]
    pub limits: Limits,
    /// How much the task has used.
    #[schemars(with = "words::TaskUsed")]
    pub used: Used,
    /// The targets to notify.
    pub notify_target: Option<String>,
    /// The status of the notification about the end of the task.
    pub notification: Notification,
    /// When the task was created.
    pub created_at: String,
    /// When the task last changed.
    pub updated_at: String,
    /// When the last turn ended.
    pub completed_at: Option<String>,
    /// The host that last had the thread open.
    pub host: Option<String>,
}

/// What a task waits for before it resumes by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parked {
    /// `usage_limit` (of the account) or `login`.
    #[schemars(with = "String")]
    pub waits_for: WaitsFor,
    /// When the limit ends, or when the next attempt is made.
    pub resume_at: Option<String>,
}

/// What ends the pause of a parked task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// The account's limit is renewed.
    UsageLimit,
    /// Somebody logs in.
    Login,
}

/// A task in short form, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShortTask {
    /// The task's id.
    pub task_id: String,
    /// The status.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// Why the task is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The beginning of the first prompt, redacted.
    pub prompt_summary: String,
    /// The directory that the task works in.
    pub cwd: String,
    /// The sandbox of the task's commands.
    #[schemars(schema_with = "words::sandbox")]
    pub sandbox: Sandbox,
    /// Why the last turn did not succeed.
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// The pending requests, the oldest first.
    pub pending_requests: Vec<Request>,
    /// When the task was created.
    pub created_at: String,
    /// When the task last changed.
    pub updated_at: String,
    /// When the last turn ended.
    pub completed_at: Option<String>,
}

/// The result of a finished task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// The task's id.
    pub task_id: String,
    /// The status.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// Why the task is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The answer of the last turn.
    pub final_text: Option<String>,
    /// Why the last turn did not succeed.
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// The tokens of the whole thread.
    pub usage: Option<Usage>,
    /// When the last turn ended.
    pub completed_at: Option<String>,
}

/// The changes of the last turn that changed files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// The task's id.
    pub task_id: String,
    /// The unified diff, redacted; null if Codex reported no change.
    pub diff: Option<String>,
    /// The number of the event with the diff.
    pub seq: Option<i64>,
    /// The time of that event.
    pub at: Option<String>,
}

impl Diff {
    /// The diff of an event, if there is one.
    pub fn new(task_id: TaskId, event: Option<event::Event>) -> Self {
        let (seq, at) = (event.as_ref().map(|event| event.seq), event.as_ref().map(|event| time(event.at)));
        let diff = event.and_then(|event| match event.line {
            Line::Diff(line) => Some(line.diff),
            _ => None,
        });
        Self { task_id: task_id.0, diff, seq, at }
    }
}

/// One turn of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// The number of the turn, from 1.
    pub number: u32,
    /// `recorded` (not sent yet), `sending`, `accepted` (by Codex) or `ended`.
    #[schemars(schema_with = "words::turn_progress")]
    pub progress: TurnProgress,
    /// The beginning of the prompt, redacted.
    pub prompt_summary: String,
    /// The caller's name for the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
    /// The state of the task before this turn was queued; none for the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Before>")]
    pub before: Option<Before>,
    /// Codex's id for the turn, once known.
    pub turn_id: Option<String>,
    /// `completed`, `interrupted`, `failed` or `lost`; none if the turn has not ended, or was never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "words::turn_outcome")]
    pub outcome: Option<TurnOutcome>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_text: Option<String>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// When the turn was requested.
    pub created_at: String,
    /// When the turn ended.
    pub ended_at: Option<String>,
}

/// A turn that a call requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskedTurn {
    /// The number of the turn, from 1.
    pub number: u32,
    /// The last log line before the turn. If the turn had been requested before, the last line of the log.
    pub after: i64,
}

/// A change of a task, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskNews {
    /// Always `task`.
    pub kind: String,
    /// The task's id.
    pub task_id: String,
    /// The status.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// The number of pending requests.
    pub open_requests: usize,
    /// When the task changed.
    pub updated_at: String,
}

/// The status of the notification about the end of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notification {
    /// `pending`, `sent`, `failed` or `no_target`; null before the end of the task.
    #[schemars(with = "Option<String>")]
    pub status: Option<NotificationStatus>,
    /// When the notification was sent.
    pub sent_at: Option<String>,
    /// Why the notification could not be sent.
    pub error: Option<String>,
}

/// The tokens of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// The tokens of the whole thread.
    pub total: Tokens,
    /// The tokens of the last model response.
    pub last: Tokens,
    /// The size of the model's context window.
    pub model_context_window: Option<u64>,
}

/// A count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// All tokens.
    pub total_tokens: u64,
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Cached input tokens.
    pub cached_input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// Reasoning tokens.
    pub reasoning_output_tokens: u64,
}

impl From<TaskView> for Task {
    fn from(view: TaskView) -> Self {
        let status = view.status();
        let TaskView { task, open_requests, trust } = view;
        Self {
            task_id: task.id.0,
            status,
            reason: task.reason,
            parked: task.parked.map(Parked::from),
            prompt_summary: task.prompt_summary,
            thread_id: task.thread_id.map(|id| id.0),
            turn_id: task.turn_id.map(|id| id.0),
            turn: None,
            cwd: task.settings.cwd.to_string_lossy().into_owned(),
            model: task.settings.model,
            effort: task.settings.effort,
            sandbox: task.settings.sandbox,
            narrowed: task.settings.narrowed,
            approval_policy: task.settings.approval_policy,
            trust,
            final_text: task.final_text,
            error: task.error,
            usage: task.usage.as_ref().map(Usage::from),
            pending_requests: open_requests.into_iter().map(Request::from).collect(),
            limits: task.limits,
            used: task.used,
            notify_target: task.notify_target,
            notification: task.notification.into(),
            created_at: time(task.created_at),
            updated_at: time(task.updated_at),
            completed_at: task.completed_at.map(time),
            host: task.host,
        }
    }
}

impl From<Continued> for Task {
    fn from(Continued { view, turn, after }: Continued) -> Self {
        Self { turn: Some(AskedTurn { number: turn, after }), ..Self::from(view) }
    }
}

impl From<task::Parked> for Parked {
    fn from(parked: task::Parked) -> Self {
        let (waits_for, resume_at) = match parked {
            task::Parked::UsageLimit { resume_at, .. } => (WaitsFor::UsageLimit, Some(time(resume_at))),
            task::Parked::Login { .. } => (WaitsFor::Login, None),
        };
        Self { waits_for, resume_at }
    }
}

impl From<TaskView> for ShortTask {
    fn from(view: TaskView) -> Self {
        let task = Task::from(view);
        Self {
            task_id: task.task_id,
            status: task.status,
            reason: task.reason,
            prompt_summary: task.prompt_summary,
            cwd: task.cwd,
            sandbox: task.sandbox,
            error: task.error,
            pending_requests: task.pending_requests,
            created_at: task.created_at,
            updated_at: task.updated_at,
            completed_at: task.completed_at,
        }
    }
}

impl From<TaskView> for TaskResult {
    fn from(view: TaskView) -> Self {
        let task = Task::from(view);
        Self {
            task_id: task.task_id,
            status: task.status,
            reason: task.reason,
            final_text: task.final_text,
            error: task.error,
            usage: task.usage,
            completed_at: task.completed_at,
        }
    }
}

impl From<TaskView> for TaskNews {
    fn from(view: TaskView) -> Self {
        Self {
            kind: "task".to_owned(),
            status: view.status(),
            task_id: view.task.id.0,
            open_requests: view.open_requests.len(),
            updated_at: time(view.task.updated_at),
        }
    }
}

impl From<TurnRecord> for Turn {
    fn from(turn: TurnRecord) -> Self {
        Self {
            number: turn.number,
            progress: turn.progress,
            prompt_summary: turn.prompt_summary,
            client_request_id: turn.client_request_id.map(|name| without_caller(&name).to_owned()),
            before: turn.before,
            turn_id: turn.turn_id.map(|id| id.0),
            outcome: turn.outcome,
            final_text: turn.final_text,
            error: turn.error,
            created_at: time(turn.created_at),
            ended_at: turn.ended_at.map(time),
        }
    }
}

impl From<StoredNotification> for Notification {
    fn from(stored: StoredNotification) -> Self {
        let status = Some(stored.status).filter(|status| *status != NotificationStatus::None);
        Self { status, sent_at: stored.sent_at.map(time), error: stored.error }
    }
}

impl From<&task::Usage> for Usage {
    fn from(usage: &task::Usage) -> Self {
        let tokens = |count: &task::Tokens| Tokens {
            total_tokens: count.total,
            input_tokens: count.input,
            cached_input_tokens: count.cached_input,
            output_tokens: count.output,
            reasoning_output_tokens: count.reasoning_output,
        };
        Self {
            total: tokens(&usage.total),
            last: tokens(&usage.last),
            model_context_window: usage.context_window,
        }
    }
}

/// The refusal to give the result of an unfinished task.
pub fn no_result_yet(view: &TaskView) -> Failure {
    let message = format!("task {} is {}: it has no result yet", view.task.id.short(), view.status());
    Failure::new(Code::WrongState, message).hint("wait until the task is finished")
}
