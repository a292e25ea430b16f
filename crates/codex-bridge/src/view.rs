//! What callers are shown, as JSON: the shapes that scripts may rely on.
//!
//! Every type here is written by the daemon and read by the command line, so `--json` prints exactly what came. Times
//! are RFC 3339 in UTC with milliseconds. Fields are added, never renamed or taken away.

#![expect(clippy::struct_field_names, reason = "the names are a contract that was settled before the types")]

mod channel;
mod delivery;
mod request;
mod task;
mod trust;
pub mod words;

use codex_bridge_core::bridge::{DecisionOutcome, DecisionReport, LiveKind};
use codex_bridge_core::event::{self, Line};
use codex_bridge_core::store;
use codex_bridge_core::task::Status;
use codex_bridge_core::token::{self, Role};
use codex_session::SteerOutcome;
use codex_wire::host::Host as RunningHost;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::amount::rfc3339 as time;
pub use channel::{Channel, ChannelLog, Knock, Message, Reached};
pub use delivery::{Delivery, Tried};
pub use request::{
    ChangeKind, Choice, Detail, Field, FieldKind, Question, QuestionOption, Request, Revealed, WholeChanges,
    diff_of,
};

pub use task::{AskedTurn, Diff, ShortTask, Task, TaskNews, TaskResult, Turn, Usage, no_result_yet};
pub use trust::{TrustChange, TrustEntry, TrustList, TrustOf};

/// One line of a task's log, or a piece of text as it is written: that has no `seq` and no `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, without gaps; none for live text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// When.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What it tells.
    #[serde(flatten)]
    #[schemars(with = "EventSchema")]
    pub told: Told,
}

/// The shape of what an event tells.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "it is there for its schema")]
struct EventSchema {
    /// What kind; `live` for live text, with `live` (`text`, `reasoning`, `output`) and `text` beside it, and the `call_id`
    /// of output. With `so_far` it is all that there is of a message or output, less `left_out_bytes` at its beginning; otherwise a piece.
    kind: String,
    /// The rest, by kind. See `docs/cli.md`.
    #[serde(flatten)]
    body: Map<String, Value>,
}

/// What an event tells.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Told {
    /// Something that is not in the log.
    Aside(Aside),
    /// A line of the log.
    Line(Line),
}

/// What is told and is not in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Aside {
    /// A text as it is written.
    Live(Live),
    /// These lines are no longer kept: a very long log loses its oldest ones.
    Gap {
        /// The first.
        from: i64,
        /// The last.
        to: i64,
    },
}

/// A piece of a text as it is written, or all that there is of the text so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// The text that it belongs to.
    pub live: LiveKind,
    /// The words.
    pub text: String,
    /// The call whose output it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Whether these are all words so far, and not a piece.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub so_far: bool,
    /// Bytes that are missing at its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_bytes: Option<usize>,
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
    /// Whether the keeper runs; a host without one is about to be ended.
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
    /// The PATH of the commands that Codex runs.
    #[serde(default)]
    pub path: String,
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
    /// Tasks that are under way by it.
    pub open_tasks: u64,
    /// So many of them there may be.
    pub max_open_tasks: u32,
    /// Bytes of prompts and instructions that it has handed over to tasks that are still remembered.
    pub bytes: u64,
    /// So many of them there may be.
    pub max_bytes: u64,
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

impl From<event::Event> for Event {
    fn from(event: event::Event) -> Self {
        Self { seq: Some(event.seq), at: Some(time(event.at)), told: Told::Line(event.line) }
    }
}

impl Event {
    /// Something that is not in the log.
    pub fn aside(aside: Aside) -> Self {
        Self { seq: None, at: None, told: Told::Aside(aside) }
    }

    /// The line of the log that it tells.
    pub fn line(&self) -> Option<&Line> {
        match &self.told {
            Told::Line(line) => Some(line),
            Told::Aside(_) => None,
        }
    }

    /// The piece of text that it tells.
    pub fn live(&self) -> Option<&Live> {
        match &self.told {
            Told::Aside(Aside::Live(live)) => Some(live),
            _ => None,
        }
    }

    /// The word that names what it tells.
    pub fn kind(&self) -> &str {
        match &self.told {
            Told::Line(line) => line.kind(),
            Told::Aside(Aside::Live(_)) => "live",
            Told::Aside(Aside::Gap { .. }) => "gap",
        }
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
            request_id: report.request_id.0,
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

impl Token {
    /// A token with what it has used of its quota.
    pub fn new(token: token::Token, used: token::Used) -> Self {
        Self {
            name: token.name,
            role: token.role,
            open_tasks: used.open_tasks,
            max_open_tasks: token.quota.open_tasks,
            bytes: used.bytes,
            max_bytes: token.quota.bytes,
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
