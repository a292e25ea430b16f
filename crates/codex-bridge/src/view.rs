//! What callers are shown, as JSON: the shapes that scripts may rely on.
//!
//! Every type here is written by the daemon and read by the command line, so `--json` prints exactly what came. Times
//! are RFC 3339 in UTC with milliseconds. Fields are added, never renamed or taken away.

#![expect(clippy::struct_field_names, reason = "the names are a contract that was settled before the types")]

mod request;

use codex_bridge_core::TaskView;
use codex_bridge_core::bridge::{DecisionOutcome, DecisionReport};
use codex_bridge_core::event;
use codex_bridge_core::task::{Limits, Notification as StoredNotification, Status, TaskError, TimeMs, Used};
use codex_session::{ApprovalMode, Sandbox, SteerOutcome};
use codex_wire::host::Host as RunningHost;
use codex_wire::thread::{TokenCount, TokenUsage};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use request::Request;

/// A task with all that is known of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its name.
    pub task_id: String,
    /// Where it stands; waiting for people included.
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
    pub sandbox: Sandbox,
    /// When it asks.
    pub approval_policy: ApprovalMode,
    /// The answer of its last turn.
    pub final_text: Option<String>,
    /// Why its last turn did not succeed.
    pub error: Option<TaskError>,
    /// Tokens of the whole thread.
    pub usage: Option<Usage>,
    /// What it waits for, the oldest first.
    pub pending_requests: Vec<Request>,
    /// How much it may use.
    pub limits: Limits,
    /// What it has used.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShortTask {
    /// Its name.
    pub task_id: String,
    /// Where it stands.
    pub status: Status,
    /// Why it is paused, lost or cancelled.
    pub reason: Option<String>,
    /// The beginning of its first prompt, redacted.
    pub prompt_summary: String,
    /// Where it works.
    pub cwd: String,
    /// What its commands may touch.
    pub sandbox: Sandbox,
    /// Why its last turn did not succeed.
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

/// How far the telling of a task's end is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notification {
    /// `pending`, `sent`, `failed`, `no_target`; none while there is nothing to tell.
    pub status: Option<String>,
    /// When it was told.
    pub sent_at: Option<String>,
    /// Why it could not be told.
    pub error: Option<String>,
}

/// Tokens of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Of the whole thread.
    pub total: Tokens,
    /// Of the last model response.
    pub last: Tokens,
    /// What the model can take.
    pub model_context_window: Option<u64>,
}

/// One count of tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Its number, without gaps; none for live text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What kind; `live` for live text, with `live` (`text`, `reasoning`, `output`) and `text` beside it.
    pub kind: String,
    /// The rest, by kind. See `docs/daemon.md`.
    #[serde(flatten)]
    pub body: Map<String, Value>,
}

/// What came of a decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// A running host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

/// The daemon about itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

/// What a look for damage in the store found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StoreCheck {
    /// Whether it is sound.
    pub sound: bool,
    /// What is not.
    pub findings: Vec<String>,
}

/// What was forgotten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forgotten {
    /// How many tasks.
    pub tasks: u64,
}

/// What came of a stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

impl From<StoredNotification> for Notification {
    fn from(stored: StoredNotification) -> Self {
        let status = Some(stored.status).filter(|status| !status.is_empty());
        Self { status, sent_at: stored.sent_at.map(time), error: stored.error }
    }
}

impl From<&TokenUsage> for Usage {
    fn from(usage: &TokenUsage) -> Self {
        let tokens = |count: &TokenCount| Tokens {
            total_tokens: count.total_tokens,
            input_tokens: count.input_tokens,
            cached_input_tokens: count.cached_input_tokens,
            output_tokens: count.output_tokens,
            reasoning_output_tokens: count.reasoning_output_tokens,
        };
        Self {
            total: tokens(&usage.total),
            last: tokens(&usage.last),
            model_context_window: usage.model_context_window,
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
