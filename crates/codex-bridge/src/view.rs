//! The JSON that callers are shown. Scripts may rely on it: fields are added, never renamed or removed.
//!
//! The daemon writes these types and the command line reads them, so `--json` prints what the daemon sent. Times are
//! RFC 3339 in UTC with milliseconds.

#![expect(clippy::struct_field_names, reason = "the names of the JSON fields must not change")]

mod channel;
mod delivery;
mod request;
mod task;
mod trust;
pub mod words;

use codex_bridge_core::bridge::{DecisionOutcome, DecisionReport, LiveKind};
use codex_bridge_core::event::{self, Line};
use codex_bridge_core::request::DecisionWord;
use codex_bridge_core::store;
use codex_bridge_core::task::Status;
use codex_bridge_core::token::{self, Role};
use codex_wire::host::Host as RunningHost;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::amount::rfc3339 as time;
pub use channel::{Allowed, Channel, ChannelLog, Knock, Message, Reached};
pub use delivery::{Delivery, Tried};
pub use request::{
    ChangeKind, Choice, Detail, Field, FieldKind, Question, QuestionOption, Request, RequestKind, Revealed,
    WholeChanges, diff_of,
};

pub use task::{AskedTurn, Diff, ShortTask, Task, TaskNews, TaskResult, Turn, Usage, no_result_yet};
pub use trust::{TrustChange, TrustEntry, TrustList, TrustOf};

/// One line of a task's log, or a piece of live text, which has no `seq` and no `at`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// The number of the line, without gaps; none for live text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<i64>,
    /// The time of the line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The content.
    #[serde(flatten)]
    #[schemars(with = "EventSchema")]
    pub content: EventContent,
}

/// The schema of an event's content.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct EventSchema {
    /// The kind. Live text has the kind `live`, with `live` (`text`, `reasoning`, `output`), `text`, and the `call_id` of
    /// output. With `so_far`, `text` is the whole message or output so far, less `left_out_bytes` at its beginning;
    /// otherwise `text` is a piece to append.
    kind: String,
    /// The other fields, which depend on the kind. See `docs/cli.md`.
    #[serde(flatten)]
    body: Map<String, Value>,
}

/// The content of an event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventContent {
    /// Content that is not in the log.
    Unlogged(Unlogged),
    /// A line of the log.
    Line(Line),
}

/// Content that is not in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Unlogged {
    /// Text as it is written.
    Live(Live),
    /// Lines that are no longer stored: a very long log loses its oldest lines.
    Gap {
        /// The first missing line.
        from: i64,
        /// The last missing line.
        to: i64,
    },
}

/// A piece of a text as it is written, or the whole text so far.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Live {
    /// The kind of text.
    pub live: LiveKind,
    /// The piece, or the text so far.
    pub text: String,
    /// The call that writes the output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Whether `text` is the whole text so far, not a piece.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub so_far: bool,
    /// The bytes that are left out at the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out_bytes: Option<usize>,
}

/// The outcome of a decision that counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decided {
    /// The task.
    pub task_id: String,
    /// The request.
    pub request_id: String,
    /// The decision.
    #[schemars(with = "Option<String>")]
    pub decision: Option<DecisionWord>,
    /// `resolved` (Codex took it) or `sent` (Codex has not confirmed it yet).
    #[schemars(with = "String")]
    pub outcome: DecisionOutcome,
    /// Who decided.
    pub decided_by: Option<String>,
    /// The time of the decision.
    pub decided_at: Option<String>,
}

/// The outcome of a steer or an interrupt that was carried out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Steer: `accepted`. Interrupt: `interrupted`, or `ended_first` if the turn had ended before.
    #[schemars(with = "String")]
    pub outcome: OutcomeWord,
    /// The task afterwards.
    pub task: Task,
}

/// The outcome of a steer or an interrupt in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeWord {
    /// The text was added.
    Accepted,
    /// The turn was interrupted.
    Interrupted,
    /// The turn had ended before.
    EndedFirst,
}

/// A line of the audit log: who decided or commanded what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AuditLine {
    /// The time.
    pub at: String,
    /// Who.
    pub by: String,
    /// What, such as `start` or `decide accept`.
    pub action: String,
    /// The task, which may have been deleted.
    pub task_id: Option<String>,
    /// More details, redacted.
    pub detail: String,
}

/// A running host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Host {
    /// The host's id.
    pub id: String,
    /// The process id of Codex.
    pub pid: u32,
    /// The process id of the keeper.
    pub keeper_pid: u32,
    /// Whether the keeper runs. A host without a keeper is about to be ended.
    pub has_keeper: bool,
    /// Codex's version.
    pub codex_version: String,
    /// Codex's home.
    pub codex_home: String,
    /// Codex's resident memory.
    pub rss_bytes: Option<u64>,
    /// When the host was started.
    pub started_at: String,
    /// The host's directory.
    pub dir: String,
}

/// The daemon is healthy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fine {
    /// Always true.
    pub ok: bool,
}

/// The daemon's description of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct About {
    /// The version of codex-bridge.
    pub version: String,
    /// The daemon's process id.
    pub pid: u32,
    /// The state directory.
    pub state_dir: String,
    /// The path of the configuration file, which may not exist.
    pub config_file: String,
    /// The path of Codex's executable.
    pub codex: String,
    /// Codex's version.
    pub codex_version: String,
    /// The configured CODEX_HOME; none means Codex's default (`~/.codex`).
    pub codex_home: Option<String>,
    /// The PATH of the commands that Codex runs.
    #[serde(default)]
    pub path: String,
    /// The TCP address that the daemon listens on, if any.
    #[serde(default)]
    pub http: Option<String>,
}

/// A token of a remote caller, without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    /// The token's name.
    pub name: String,
    /// What its holder may do.
    #[schemars(schema_with = "words::role")]
    pub role: Role,
    /// The token's unfinished tasks.
    pub open_tasks: u64,
    /// The most unfinished tasks that the token may have.
    pub max_open_tasks: u32,
    /// The bytes of prompts and instructions in the token's stored tasks.
    pub bytes: u64,
    /// The most bytes that the token may have.
    pub max_bytes: u64,
    /// When the token was created.
    pub created_at: String,
    /// When the token was last used, to the minute.
    pub last_used_at: Option<String>,
    /// When the token was revoked.
    pub revoked_at: Option<String>,
}

/// A new token with its secret.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FreshToken {
    /// The token's name.
    pub name: String,
    /// What its holder may do.
    #[schemars(schema_with = "words::role")]
    pub role: Role,
    /// The token itself, which is not shown again.
    pub token: String,
}

/// The result of a check of the store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoreCheck {
    /// Whether the store has no damage.
    pub sound: bool,
    /// The damage, one sentence each.
    pub findings: Vec<String>,
}

/// What was deleted because of its age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Forgotten {
    /// The number of tasks.
    pub tasks: u64,
}

/// The outcome of a stop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// The process id of the daemon, which exits now.
    pub pid: u32,
    /// The number of hosts that continue to run.
    pub hosts_left: usize,
    /// The hosts that could not be ended, each with the reason.
    pub failed: Vec<String>,
}

impl From<event::Event> for Event {
    fn from(event: event::Event) -> Self {
        Self { seq: Some(event.seq), at: Some(time(event.at)), content: EventContent::Line(event.line) }
    }
}

impl Event {
    /// An event that is not in the log.
    pub fn unlogged(content: Unlogged) -> Self {
        Self { seq: None, at: None, content: EventContent::Unlogged(content) }
    }

    /// The log line, if the event is one.
    pub fn line(&self) -> Option<&Line> {
        match &self.content {
            EventContent::Line(line) => Some(line),
            EventContent::Unlogged(_) => None,
        }
    }

    /// The live text, if the event has some.
    pub fn live(&self) -> Option<&Live> {
        match &self.content {
            EventContent::Unlogged(Unlogged::Live(live)) => Some(live),
            _ => None,
        }
    }

    /// The kind, as in JSON.
    pub fn kind(&self) -> &str {
        match &self.content {
            EventContent::Line(line) => line.kind(),
            EventContent::Unlogged(Unlogged::Live(_)) => "live",
            EventContent::Unlogged(Unlogged::Gap { .. }) => "gap",
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
            outcome: report.outcome,
            decided_by: report.decided_by,
            decided_at: report.decided_at.map(time),
        }
    }
}

/// The outcome of an interrupt in one word.
pub fn interrupt_outcome(status: Status) -> OutcomeWord {
    if status == Status::Cancelled { OutcomeWord::Interrupted } else { OutcomeWord::EndedFirst }
}

impl Token {
    /// A token with the used part of its quota.
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
