//! What callers are shown, as JSON: the shapes that scripts may rely on.
//!
//! Every type here is written by the daemon and read by the command line, so `--json` prints exactly what came. Times
//! are RFC 3339 in UTC with milliseconds. Fields are added, never renamed or taken away.

#![expect(clippy::struct_field_names, reason = "the names are a contract that was settled before the types")]

mod channel;
mod delivery;
mod request;
pub mod words;

use codex_bridge_core::TaskView;
use codex_bridge_core::bridge::{DecisionOutcome, DecisionReport};
use codex_bridge_core::task::{
    Limits, Notification as StoredNotification, Status, TaskError, TaskId, TimeMs, TurnProgress, TurnRecord,
    Used,
};
use codex_bridge_core::token::{self, Role};
use codex_bridge_core::{event, store, task};
use codex_session::{ApprovalMode, Sandbox, SteerOutcome};
use codex_wire::host::Host as RunningHost;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use channel::{Channel, ChannelLog, Knock, Message, Reached};
pub use delivery::{Delivery, Tried};
pub use request::{Detail, Request};

/// A task with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Task {
    /// Its name.
    pub task_id: String,
    /// Where it stands; waiting for people included.
    #[schemars(schema_with = "words::status")]
    pub status: Status,
    /// Why it is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The beginning of its first prompt, redacted.
    pub prompt_summary: String,
    /// Codex's thread, once there is one.
    pub thread_id: Option<String>,
    /// Codex's current or last turn.
    pub turn_id: Option<String>,
    /// Where it works.
    pub cwd: String,
    /// The model, if not Codex's own choice.
    pub model: Option<String>,
    /// The reasoning effort, if not Codex's own choice.
    pub effort: Option<String>,
    /// What its commands may touch.
    #[schemars(schema_with = "words::sandbox")]
    pub sandbox: Sandbox,
    /// When it asks.
    #[schemars(schema_with = "words::approval_policy")]
    pub approval_policy: ApprovalMode,
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

/// The same in short, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShortTask {
    /// Its name.
    pub task_id: String,
    /// Where it stands.
    #[schemars(schema_with = "words::status")]
    pub status: Status,
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
    pub status: Status,
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
        let diff = event.and_then(|event| event.body.get("diff")?.as_str().map(str::to_owned));
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
    /// Codex's name of it, once known.
    pub turn_id: Option<String>,
    /// When it was asked for.
    pub created_at: String,
    /// When it ended.
    pub ended_at: Option<String>,
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
    pub status: Status,
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

/// One line of a task's log, or a piece of text as it is written: that has no `seq` and no `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, without gaps; none for live text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What kind; `live` for live text, with `live` (`text`, `reasoning`, `output`) and `text` beside it. With `so_far` it
    /// is all that there is of a message, less `left_out_bytes` at its beginning; otherwise a piece.
    pub kind: String,
    /// The rest, by kind. See `docs/daemon.md`.
    #[serde(flatten)]
    pub body: Map<String, Value>,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// Whose request.
    pub task_id: String,
    /// Which.
    pub request_id: String,
    /// What was decided, by whoever was first.
    pub decision: Option<String>,
    /// `resolved`, `sent`, `already_resolved`, `expired` or `orphaned`.
    pub outcome: String,
    /// Who was first.
    pub decided_by: Option<String>,
    /// When.
    pub decided_at: Option<String>,
}

/// What came of a steer or an interrupt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Steer: `accepted`, `no_active_turn`, `wrong_turn`, `not_steerable` or `failed`. Interrupt: `interrupted`, or
    /// `ended_first` when the turn had ended by itself.
    pub outcome: String,
    /// More about a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The task as it stands now.
    pub task: Task,
}

/// A line of the audit log: who decided or commanded what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditLine {
    /// When.
    pub at: String,
    /// Who.
    pub by: String,
    /// What.
    pub action: String,
    /// On which task, which may be forgotten.
    pub task_id: Option<String>,
    /// More about it, redacted.
    pub detail: String,
}

/// A running host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// Its id.
    pub id: String,
    /// Codex's process.
    pub pid: u32,
    /// The keeper's process.
    pub keeper_pid: u32,
    /// Whether the keeper runs; Codex works on without.
    pub has_keeper: bool,
    /// Codex's version.
    pub codex_version: String,
    /// Codex's home.
    pub codex_home: String,
    /// Codex's resident memory.
    pub rss_bytes: Option<u64>,
    /// Since when it runs.
    pub started_at: String,
    /// Where everything about it is written.
    pub dir: String,
}

/// All is well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fine {
    /// Always true.
    pub ok: bool,
}

/// The daemon about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// Its version.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Where it keeps its state.
    pub state_dir: String,
    /// Its configuration file, whether there is one or not.
    pub config_file: String,
    /// The Codex that it starts.
    pub codex: String,
    /// Its version.
    pub codex_version: String,
    /// Codex's home; none leaves it to Codex (`~/.codex`).
    pub codex_home: Option<String>,
    /// Where it answers by TCP, if it does.
    #[serde(default)]
    pub http: Option<String>,
}

/// A token of a remote caller, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// Whose it is.
    pub name: String,
    /// What its holder may do.
    #[schemars(schema_with = "words::role")]
    pub role: Role,
    /// When it was made.
    pub created_at: String,
    /// When it was last used, to the minute.
    pub last_used_at: Option<String>,
    /// Since when it is worth nothing.
    pub revoked_at: Option<String>,
}

/// A token that was just made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreshToken {
    /// Whose it is.
    pub name: String,
    /// What its holder may do.
    #[schemars(schema_with = "words::role")]
    pub role: Role,
    /// The token itself. It is not shown again.
    pub token: String,
}

/// What a look for damage in the store found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreCheck {
    /// Whether it is sound.
    pub sound: bool,
    /// What is not.
    pub findings: Vec<String>,
}

/// What was forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// How many tasks.
    pub tasks: u64,
}

/// What came of a stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// The daemon's process, which ends now.
    pub pid: u32,
    /// Hosts that go on.
    pub hosts_left: usize,
    /// Hosts that were to be ended and could not be, with the reason.
    pub failed: Vec<String>,
}

/// A time as it is written everywhere.
pub fn time(ms: TimeMs) -> String {
    let moment = Timestamp::from_millisecond(ms).unwrap_or(Timestamp::UNIX_EPOCH);
    moment.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

impl From<TaskView> for Task {
    fn from(TaskView { task, open_requests }: TaskView) -> Self {
        Self {
            task_id: task.id.0,
            status: task.status,
            reason: task.reason,
            prompt_summary: task.prompt_summary,
            thread_id: task.thread_id.map(|id| id.0),
            turn_id: task.turn_id.map(|id| id.0),
            cwd: task.settings.cwd.to_string_lossy().into_owned(),
            model: task.settings.model,
            effort: task.settings.effort,
            sandbox: task.settings.sandbox,
            approval_policy: task.settings.approval_policy,
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
    fn from(TaskView { task, open_requests }: TaskView) -> Self {
        Self {
            kind: "task".to_owned(),
            task_id: task.id.0,
            status: task.status,
            open_requests: open_requests.len(),
            updated_at: time(task.updated_at),
        }
    }
}

impl From<TurnRecord> for Turn {
    fn from(turn: TurnRecord) -> Self {
        Self {
            number: turn.number,
            progress: turn.progress,
            prompt_summary: turn.prompt_summary,
            turn_id: turn.turn_id.map(|id| id.0),
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

impl From<event::Event> for Event {
    fn from(event: event::Event) -> Self {
        Self { seq: Some(event.seq), at: Some(time(event.at)), kind: event.kind, body: event.body }
    }
}

impl Event {
    /// A piece of text as it is written: `live` is `text`, `reasoning` or `output`.
    pub fn live(live: &str, text: String) -> Self {
        let body = Map::from_iter([("live".to_owned(), live.into()), ("text".to_owned(), text.into())]);
        Self { seq: None, at: None, kind: "live".to_owned(), body }
    }
}

impl From<store::AuditLine> for AuditLine {
    fn from(line: store::AuditLine) -> Self {
        Self {
            at: time(line.at),
            by: line.actor,
            action: line.action,
            task_id: line.task_id.map(|id| id.0),
            detail: line.detail,
        }
    }
}

impl From<DecisionReport> for Decided {
    fn from(report: DecisionReport) -> Self {
        Self {
            task_id: report.task_id.0,
            request_id: report.request_id,
            decision: report.decision,
            outcome: decision_outcome(report.outcome).to_owned(),
            decided_by: report.decided_by,
            decided_at: report.decided_at.map(time),
        }
    }
}

fn decision_outcome(outcome: DecisionOutcome) -> &'static str {
    match outcome {
        DecisionOutcome::Resolved => "resolved",
        DecisionOutcome::Sent => "sent",
        DecisionOutcome::AlreadyResolved => "already_resolved",
        DecisionOutcome::Expired => "expired",
        DecisionOutcome::Orphaned => "orphaned",
    }
}

/// What came of a steer, in one word, and more about a failure.
pub fn steer_outcome(outcome: SteerOutcome) -> (&'static str, Option<String>) {
    match outcome {
        SteerOutcome::Accepted => ("accepted", None),
        SteerOutcome::NoActiveTurn => ("no_active_turn", None),
        SteerOutcome::WrongTurn => ("wrong_turn", None),
        SteerOutcome::NotSteerable => ("not_steerable", None),
        SteerOutcome::Failed(message) => ("failed", Some(message)),
    }
}

/// What came of an interrupt, in one word.
pub fn interrupt_outcome(status: Status) -> &'static str {
    if status == Status::Cancelled { "interrupted" } else { "ended_first" }
}

impl From<token::Token> for Token {
    fn from(token: token::Token) -> Self {
        Self {
            name: token.name,
            role: token.role,
            created_at: time(token.created_at),
            last_used_at: token.last_used_at.map(time),
            revoked_at: token.revoked_at.map(time),
        }
    }
}

impl From<&RunningHost> for Host {
    fn from(host: &RunningHost) -> Self {
        let record = host.record();
        Self {
            id: record.id.clone(),
            pid: record.codex.pid,
            keeper_pid: record.keeper.pid,
            has_keeper: host.has_keeper(),
            codex_version: record.codex_version.clone(),
            codex_home: record.codex_home.to_string_lossy().into_owned(),
            rss_bytes: host.rss_bytes(),
            started_at: time(i64::try_from(record.started_at_ms).unwrap_or_default()),
            dir: host.dir().to_string_lossy().into_owned(),
        }
    }
}
