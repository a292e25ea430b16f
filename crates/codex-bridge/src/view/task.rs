//! A task as callers see it: whole, in short, its result, its turns and what it has used.

use codex_bridge_core::bridge::Continued;
use codex_bridge_core::bridge::without_caller;
use codex_bridge_core::event::Line;
use codex_bridge_core::task::{
    self, Before, Limits, Notification as StoredNotification, ShownStatus, TaskError, TaskId, TurnProgress,
    TurnRecord, Used,
};
use codex_bridge_core::trust::Trust;
use codex_bridge_core::{TaskView, event};
use codex_session::TurnOutcome;
use codex_session::{ApprovalMode, Sandbox};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Request, time, words};
use crate::failure::{Code, Failure};

/// A task with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its name.
    pub task_id: String,
    /// Where it stands; waiting for people included.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// Why it is paused, lost or cancelled.
    pub reason: Option<String>,
    /// What it waits for before it goes on by itself, if it does.
    pub parked: Option<Parked>,
    /// The beginning of its first prompt, redacted.
    pub prompt_summary: String,
    /// Codex's thread, once there is one.
    pub thread_id: Option<String>,
    /// Codex's current or last turn.
    pub turn_id: Option<String>,
    /// In the reply to a call that continues the task: the turn that it asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<AskedTurn>,
    /// Where it works.
    pub cwd: String,
    /// The model, if not Codex's own choice.
    pub model: Option<String>,
    /// The reasoning effort, if not Codex's own choice.
    pub effort: Option<String>,
    /// What its commands may touch.
    #[schemars(schema_with = "words::sandbox")]
    pub sandbox: Sandbox,
    /// Why it may do less than was asked for.
    #[serde(default)]
    pub narrowed: Option<String>,
    /// When it asks.
    #[schemars(schema_with = "words::approval_policy")]
    pub approval_policy: ApprovalMode,
    /// How far its directory is trusted now.
    #[serde(default)]
    #[schemars(schema_with = "words::trust")]
    pub trust: Trust,
    /// The answer of its last turn.
    pub final_text: Option<String>,
    /// Why its last turn did not succeed.
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// Tokens of the whole thread.
    pub usage: Option<Usage>,
    /// What it waits for, the oldest first.
    pub pending_requests: Vec<Request>,
    /// How much it may use.
    #[schemars(with = "words::TaskLimits")]
    pub limits: Limits,
    /// What it has used.
    #[schemars(with = "words::TaskUsed")]
    pub used: Used,
    /// Who wants to be told.
    pub notify_target: Option<String>,
    /// How far the telling is.
    pub notification: Notification,
    /// When it was handed over.
    pub created_at: String,
    /// When anything last changed.
    pub updated_at: String,
    /// When its last turn ended.
    pub completed_at: Option<String>,
    /// The host that its thread was last open on.
    pub host: Option<String>,
}

/// What a task waits for before it goes on by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parked {
    /// `usage_limit` (the account's) or `login`.
    pub waits_for: String,
    /// When the limit ends, or whether it has is tried.
    pub resume_at: Option<String>,
}

/// The same in short, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShortTask {
    /// Its name.
    pub task_id: String,
    /// Where it stands.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// Why it is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The beginning of its first prompt, redacted.
    pub prompt_summary: String,
    /// Where it works.
    pub cwd: String,
    /// What its commands may touch.
    #[schemars(schema_with = "words::sandbox")]
    pub sandbox: Sandbox,
    /// Why its last turn did not succeed.
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// What it waits for, the oldest first.
    pub pending_requests: Vec<Request>,
    /// When it was handed over.
    pub created_at: String,
    /// When anything last changed.
    pub updated_at: String,
    /// When its last turn ended.
    pub completed_at: Option<String>,
}

/// The answer of a task at rest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskResult {
    /// Whose.
    pub task_id: String,
    /// How it ended.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// Why it is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The answer of its last turn.
    pub final_text: Option<String>,
    /// Why its last turn did not succeed.
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// Tokens of the whole thread.
    pub usage: Option<Usage>,
    /// When its last turn ended.
    pub completed_at: Option<String>,
}

/// What a task's last turn that changed files did to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Diff {
    /// Whose.
    pub task_id: String,
    /// The unified diff, redacted; none if Codex told of no change.
    pub diff: Option<String>,
    /// The event that told it.
    pub seq: Option<i64>,
    /// When.
    pub at: Option<String>,
}

impl Diff {
    /// From the event that tells it, if there is one.
    pub fn new(task_id: TaskId, event: Option<event::Event>) -> Self {
        let (seq, at) = (event.as_ref().map(|event| event.seq), event.as_ref().map(|event| time(event.at)));
        let diff = event.and_then(|event| match event.line {
            Line::Diff(line) => Some(line.diff),
            _ => None,
        });
        Self { task_id: task_id.0, diff, seq, at }
    }
}

/// One prompt of a task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Turn {
    /// Which, from 1.
    pub number: u32,
    /// `recorded` (not sent), `sending`, `accepted` (Codex has it) or `ended`.
    #[schemars(schema_with = "words::turn_progress")]
    pub progress: TurnProgress,
    /// The beginning of its prompt, redacted.
    pub prompt_summary: String,
    /// The caller's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
    /// How the task stood when this turn was lined up; none for a first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::Before>")]
    pub before: Option<Before>,
    /// Codex's name of it, once known.
    pub turn_id: Option<String>,
    /// How it ended: `completed`, `interrupted`, `failed` or `lost`; none while it has not, and if it was never sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "words::turn_outcome")]
    pub outcome: Option<TurnOutcome>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub final_text: Option<String>,
    /// Why there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<words::TaskError>")]
    pub error: Option<TaskError>,
    /// When it was asked for.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
}

/// A turn that a call asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AskedTurn {
    /// Which, from 1.
    pub number: u32,
    /// The log after this line is that of the turn, or, if it had been asked for before, what is new in it.
    pub after: i64,
}

/// That a task has changed, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TaskNews {
    /// Always `task`.
    pub kind: String,
    /// Which.
    pub task_id: String,
    /// Where it stands.
    #[schemars(schema_with = "words::status")]
    pub status: ShownStatus,
    /// How many requests it waits for.
    pub open_requests: usize,
    /// When it changed.
    pub updated_at: String,
}

/// How far the telling of a task's end is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Notification {
    /// `pending`, `sent`, `failed`, `no_target`; none while there is nothing to tell.
    pub status: Option<String>,
    /// When it was told.
    pub sent_at: Option<String>,
    /// Why it could not be told.
    pub error: Option<String>,
}

/// Tokens of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Of the whole thread.
    pub total: Tokens,
    /// Of the last model response.
    pub last: Tokens,
    /// What the model can take.
    pub model_context_window: Option<u64>,
}

/// One count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// All of them.
    pub total_tokens: u64,
    /// Read, cached ones included.
    pub input_tokens: u64,
    /// Read from the cache.
    pub cached_input_tokens: u64,
    /// Written.
    pub output_tokens: u64,
    /// Of those, reasoning.
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
            task::Parked::UsageLimit { resume_at, .. } => ("usage_limit", Some(time(resume_at))),
            task::Parked::Login { .. } => ("login", None),
        };
        Self { waits_for: waits_for.to_owned(), resume_at }
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
        let status = Some(stored.status).filter(|status| !status.is_empty());
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

/// For callers who want the result of a task that has not finished.
pub fn no_result_yet(view: &TaskView) -> Failure {
    let message = format!("task {} is {}: it has no result yet", view.task.id.short(), view.status());
    Failure::new(Code::WrongState, message).hint("wait for its end")
}
