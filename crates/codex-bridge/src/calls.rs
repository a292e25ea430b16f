//! The bodies and queries of the daemon's routes. The parameters of the verbs come from the desk.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use codex_bridge_core::store::AUDIT_LINES;
use codex_bridge_core::task::ShownStatus;
use codex_bridge_core::token::Role;
use codex_bridge_core::trust::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::{Code, Failure};
use crate::view::words;

pub use codex_bridge_core::desk::calls::*;

/// The response header with the CODEX_HOME of the daemon's tasks.
pub const HOME_HEADER: &str = "x-codex-home";
/// The request header with a role: the owner's program acts for a caller who has only this role.
pub const DELEGATE_HEADER: &str = "x-codex-bridge-lent";

/// The query string of the fields that are set.
pub fn query(fields: &impl Serialize) -> String {
    let fields = serde_json::to_value(fields).unwrap_or_default();
    let pairs = fields.as_object().into_iter().flatten().filter_map(|(name, value)| match value {
        Value::Null => None,
        Value::String(text) => Some(format!("{name}={}", percent_encoded(text))),
        other => Some(format!("{name}={other}")),
    });
    let pairs: Vec<String> = pairs.collect();
    if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
}

/// Encodes text for a query value or a path segment.
pub fn percent_encoded(text: &str) -> String {
    let is_unreserved = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let encode =
        |byte: u8| if is_unreserved(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(encode).collect()
}

/// The number of entries in a list without a `limit`, and the largest `limit`.
const LIST: (u32, u32) = (100, 1000);

/// Checks the `limit` of a list.
pub fn limit(asked: Option<i64>) -> Result<u32, Failure> {
    limit_of(asked, LIST.0, LIST.1)
}

/// As [`limit`], for a list with its own default and maximum.
pub fn limit_of(asked: Option<i64>, default: u32, max: u32) -> Result<u32, Failure> {
    let Some(limit) = asked else { return Ok(default) };
    u32::try_from(limit).ok().filter(|limit| (1..=max).contains(limit)).ok_or_else(|| {
        let message = format!("limit {limit} is out of range");
        Failure::new(Code::BadLimit, message).hint(format!("use 1 to {max}"))
    })
}

/// Checks the `timeout_s` of a wait. Without one, the wait is as long as it may be.
pub fn timeout(asked: Option<f64>, max: Duration) -> Result<Duration, Failure> {
    let Some(seconds) = asked else { return Ok(max) };
    Duration::try_from_secs_f64(seconds).ok().filter(|limit| *limit <= max).ok_or_else(|| {
        let message = format!("timeout_s {seconds} is out of range");
        Failure::new(Code::BadTimeout, message).hint(format!("use 0 to {} seconds", max.as_secs()))
    })
}

/// Reads the status of a filter. An empty one means every status.
pub fn status(word: Option<&str>) -> Result<Option<ShownStatus>, Failure> {
    let word = word.filter(|word| !word.is_empty());
    let status = word.map(str::parse).transpose();
    status.map_err(|message: String| Failure::new(Code::UnknownStatus, message))
}

/// `GET /v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// Only tasks with this status.
    #[schemars(schema_with = "crate::view::words::status")]
    pub status: Option<String>,
    /// Also tasks that ended more than a day ago.
    pub all: bool,
    /// Only tasks that work in this directory or below it.
    pub cwd: Option<PathBuf>,
    /// Only tasks with this text in their id, in the beginning of their first prompt or in their answer.
    pub q: Option<String>,
    /// The most tasks to list, 1 to 1000. Default 100.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000))]
    pub limit: Option<i64>,
    /// Only tasks created before this task, for the next page.
    pub before: Option<String>,
}

/// `POST /v1/tasks/{id}/interrupt`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interrupt {
    /// Interrupt only this turn; `wrong_state` if another turn has been requested since.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub turn: Option<u32>,
}

/// `GET /v1/tasks/{id}/wait`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Wait {
    /// The timeout. Without one, the call waits as long as it takes.
    #[schemars(range(min = 0, max = 31_536_000))]
    pub timeout_s: Option<f64>,
}

/// `GET /v1/tasks/{id}/events`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Events {
    /// Only events with a higher number.
    #[schemars(range(min = 0, max = SEQ_MAX))]
    pub after: i64,
    /// The most events to return.
    #[schemars(range(max = u32::MAX))]
    pub limit: Option<u32>,
    /// Follow the log until the task is finished. Server-sent events always follow it, and do not end then.
    pub follow: bool,
    /// Include text as it is written.
    pub live: bool,
    /// Include the events of `/v1/events` about all tasks, for a page that needs both. Only with server-sent events.
    pub news: bool,
}

/// `GET /v1/events`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct News {
    /// End the stream after this many events. Without a limit, the stream does not end.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub limit: Option<NonZeroU32>,
}

/// `POST /v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// The token's name.
    pub name: String,
    /// What its holder may do.
    #[schemars(schema_with = "crate::view::words::role")]
    pub role: Role,
    /// The most unfinished tasks that the token may have; 20 by default.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    pub max_open_tasks: Option<u32>,
    /// The most bytes of prompts and instructions in the token's stored tasks; 64 MiB by default.
    #[serde(default)]
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub max_bytes: Option<u64>,
}

/// `POST /v1/tokens/{name}/quota`. An absent limit stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// The most unfinished tasks that the token may have.
    #[schemars(range(max = 100_000))]
    pub max_open_tasks: Option<u32>,
    /// The most bytes of prompts and instructions in the token's stored tasks.
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub max_bytes: Option<u64>,
}

/// `GET /v1/deliveries`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Deliveries {
    /// Also deliveries that were delivered, or withdrawn because the request was answered first.
    pub all: bool,
    /// The most deliveries to list, 1 to 1000. Default 100.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000))]
    pub limit: Option<i64>,
    /// Only deliveries about this task.
    pub task_id: Option<String>,
}

/// `POST /v1/deliveries/test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestTarget {
    /// The target, such as `webhook:ci`.
    pub target: String,
}

/// `POST /v1/stop`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// Also end the hosts, with all running turns.
    #[serde(default)]
    pub hosts: bool,
}

/// `GET /v1/audit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Audit {
    /// Only lines about the task whose id begins so. The task may have been deleted.
    pub task: Option<String>,
    /// Only lines since this time, as RFC 3339.
    pub since: Option<String>,
    /// The most lines to return, the newest, 1 to 100000. Default 200.
    #[schemars(with = "Option<u32>", range(min = 1, max = AUDIT_LINES))]
    pub limit: Option<i64>,
}

/// `POST /v1/store/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    /// The absolute path of a new file.
    pub file: PathBuf,
}

/// `POST /v1/tool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// One call of the `codex_bridge` tool.
    pub call: Value,
    /// The caller's current directory.
    #[serde(default)]
    pub caller_cwd: Option<PathBuf>,
}

/// `POST /v1/channels/{name}/run` and `…/test`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunChannel {
    /// The channel. Ignored: the name in the path counts.
    pub name: String,
    /// The variables of the caller's environment that the platform needs.
    pub variables: BTreeMap<String, String>,
    /// The senders that may write, instead of the configured ones.
    pub allow: Vec<String>,
    /// The caller's current directory, which is the workspace if none is registered.
    pub cwd: Option<PathBuf>,
}

/// `POST /v1/channels/allow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AllowSender {
    /// The stranger's code.
    pub code: String,
    /// Whether the person may also decide what Codex asks.
    #[serde(default)]
    pub approver: bool,
}

/// `POST /v1/channels/{name}/disallow`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DisallowSender {
    /// The person's id on the platform.
    pub sender_id: String,
}

/// `GET /v1/trust/directory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustOf {
    /// The directory's absolute path.
    pub dir: PathBuf,
    /// Refuse the call if the directory cannot have this level.
    #[serde(default)]
    #[schemars(with = "Option<words::TrustWord>")]
    pub level: Option<Trust>,
}

/// `POST /v1/trust`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTrust {
    /// The directory's absolute path.
    pub dir: PathBuf,
    /// The trust level.
    #[schemars(schema_with = "words::trust")]
    pub level: Trust,
}

/// `POST /v1/trust/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveTrust {
    /// The directory's absolute path.
    pub dir: PathBuf,
}

/// `GET /v1/channels/{name}/log`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Lines {
    /// Skip this many lines.
    pub after: u64,
}

/// `GET /v1/inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Inbox {
    /// Also finished messages.
    pub all: bool,
    /// Only messages from this channel.
    pub channel: Option<String>,
    /// The most messages to list, the newest first, 1 to 1000. Default 100.
    #[schemars(with = "Option<u32>", range(min = 1, max = 1000))]
    pub limit: Option<i64>,
}
