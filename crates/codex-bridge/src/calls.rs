//! What callers send to the daemon: the bodies and queries of its routes. The words of the verbs are the desk's own.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use codex_bridge_core::store::AUDIT_LINES;
use codex_bridge_core::token::{NewQuota, Role};
use codex_bridge_core::trust::Trust;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::view::words;

pub use codex_bridge_core::desk::calls::*;

/// The header in which the daemon says which CODEX_HOME its tasks use.
pub const HOME_HEADER: &str = "x-codex-home";
/// The header in which a program of the machine's owner says that it acts for somebody who has no more than this role.
pub const DELEGATE_HEADER: &str = "x-codex-bridge-lent";

/// The fields that are set, as a query.
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

/// Text as a value of a query, or as a segment of a path.
pub fn percent_encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    let one = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// `GET /v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct List {
    /// Only those in this state.
    #[schemars(schema_with = "crate::view::words::status")]
    pub status: Option<String>,
    /// Also those that ended more than a day ago.
    pub all: bool,
    /// Only those that work in this directory or below it.
    pub cwd: Option<PathBuf>,
    /// Only those with this text in their id, their first prompt's beginning or their answer.
    pub q: Option<String>,
    /// At most so many, 1 to 1000. Default 100.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Only those created before this task, for the next page.
    pub before: Option<String>,
}

/// `POST /v1/tasks/{id}/interrupt`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Interrupt {
    /// Only this turn: `wrong_state` if another one has been asked for since.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub turn: Option<u32>,
}

/// `GET /v1/tasks/{id}/wait`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Wait {
    /// At most so long; without it as long as it takes.
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
    /// At most so many.
    #[schemars(range(max = u32::MAX))]
    pub limit: Option<u32>,
    /// Go on until the task is at rest. Server-sent events always go on, and beyond that.
    pub follow: bool,
    /// With text as it is written.
    pub live: bool,
    /// With what `/v1/events` tells of all tasks, for a page that needs both: only as server-sent events.
    pub news: bool,
}

/// `GET /v1/events`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct News {
    /// The stream ends after so many; without it, it goes on.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub limit: Option<NonZeroU32>,
}

/// `POST /v1/tokens`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Whose it is.
    pub name: String,
    /// What its holder may do.
    #[schemars(schema_with = "crate::view::words::role")]
    pub role: Role,
    /// So many tasks of its own may be under way; 20 by default.
    #[serde(default)]
    #[schemars(range(max = 100_000))]
    pub max_open_tasks: Option<u32>,
    /// So many bytes of prompts and instructions it may have handed over to tasks that are still remembered; 64 MiB by
    /// default.
    #[serde(default)]
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub max_bytes: Option<u64>,
}

/// `POST /v1/tokens/{name}/quota`. What is absent stays as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Quota {
    /// So many tasks of its own may be under way.
    #[schemars(range(max = 100_000))]
    pub max_open_tasks: Option<u32>,
    /// So many bytes of prompts and instructions it may have handed over to tasks that are still remembered.
    #[schemars(range(max = 1_099_511_627_776_u64))]
    pub max_bytes: Option<u64>,
}

impl From<Quota> for NewQuota {
    fn from(quota: Quota) -> Self {
        Self { open_tasks: quota.max_open_tasks, bytes: quota.max_bytes }
    }
}

/// `GET /v1/deliveries`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Deliveries {
    /// Also what was delivered, or answered before it was told.
    pub all: bool,
    /// At most so many, 1 to 1000. Default 100.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
    /// Only those of this task.
    pub task_id: Option<String>,
}

/// `POST /v1/deliveries/test`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestTarget {
    /// Where to, such as `webhook:ci`.
    pub target: String,
}

/// `POST /v1/stop`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// End the hosts too, with everything that runs on them.
    #[serde(default)]
    pub hosts: bool,
}

/// `GET /v1/audit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Audit {
    /// Only on the task whose id begins so; it may be forgotten.
    pub task: Option<String>,
    /// Only from this time on, as RFC 3339.
    pub since: Option<String>,
    /// At most so many, the newest, 1 to 100000. Default 200.
    #[schemars(range(min = 1, max = AUDIT_LINES))]
    pub limit: Option<u32>,
}

/// `POST /v1/store/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    /// A new file, with its whole path.
    pub file: PathBuf,
}

/// `POST /v1/tool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tool {
    /// One call of the `codex_bridge` tool.
    pub call: Value,
    /// Where the caller runs.
    #[serde(default)]
    pub caller_cwd: Option<PathBuf>,
}

/// `POST /v1/channels/{name}/run` and `…/test`: what the caller brings along.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunChannel {
    /// The channel; the one in the path counts.
    pub name: String,
    /// Variables of the caller's environment that the platform reads.
    pub variables: BTreeMap<String, String>,
    /// Who may write, instead of those that are configured.
    pub allow: Vec<String>,
    /// Where the caller is: the workspace if none is registered.
    pub cwd: Option<PathBuf>,
}

impl RunChannel {
    /// One as it is configured.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }
}

/// `GET /v1/trust/directory`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrustOf {
    /// Which, as a whole path.
    pub dir: PathBuf,
    /// Only if it may have this level.
    #[serde(default)]
    #[schemars(with = "Option<words::TrustWord>")]
    pub level: Option<Trust>,
}

/// `POST /v1/trust`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetTrust {
    /// Which, as a whole path.
    pub dir: PathBuf,
    /// How far.
    #[schemars(schema_with = "words::trust")]
    pub level: Trust,
}

/// `POST /v1/trust/remove`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RemoveTrust {
    /// Which, as a whole path.
    pub dir: PathBuf,
}

/// `GET /v1/channels/{name}/log`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Lines {
    /// Only the lines after so many.
    pub after: u64,
}

/// `GET /v1/inbox`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Inbox {
    /// Also what is done with.
    pub all: bool,
    /// Only of this channel.
    pub channel: Option<String>,
    /// At most so many, the newest, 1 to 1000. Default 100.
    #[schemars(range(min = 1, max = 1000))]
    pub limit: Option<u32>,
}
