//! What callers send to the daemon: the bodies and queries of its routes.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use codex_bridge_core::store::AUDIT_LINES;
use codex_bridge_core::token::{NewQuota, Role};
use codex_bridge_core::trust::Trust;
use codex_session::Decision;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::failure::Failure;
use crate::view::words;

/// The largest number that every reader of JSON can hold.
pub const SEQ_MAX: i64 = (1 << 53) - 1;

/// Who asks, which decides what may be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// A person at the command line: any directory of theirs.
    Cli,
    /// An agent or a script on this machine: the configured roots, by default the user's home and the directory that
    /// it runs in.
    #[default]
    Agent,
    /// Anyone with a token: the configured roots alone, and the directory must be named. Whoever comes so is this,
    /// whatever they say.
    Remote,
}

/// `POST /v1/tasks`. What is absent has the default; empty words count as absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// What to do.
    pub prompt: String,
    /// Who asks. What a caller with a token says here counts for nothing.
    #[serde(default)]
    pub door: Door,
    /// Where; the caller's own directory if absent.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// Where the caller runs.
    #[serde(default)]
    pub caller_cwd: Option<PathBuf>,
    /// `read-only` or `workspace-write`.
    #[serde(default)]
    pub sandbox: Option<String>,
    /// `untrusted` or `on-request`.
    #[serde(default)]
    pub approval_policy: Option<String>,
    /// The model.
    #[serde(default)]
    pub model: Option<String>,
    /// The reasoning effort.
    #[serde(default)]
    pub effort: Option<String>,
    /// A profile of the operator's configuration.
    #[serde(default)]
    pub profile: Option<String>,
    /// Instructions above the prompt, for all turns of the task. The operator's come first.
    #[serde(default)]
    pub developer_instructions: Option<String>,
    /// A home that the operator's configuration lists.
    #[serde(default)]
    pub codex_home: Option<PathBuf>,
    /// The caller's own name for this request: the same one gives the same task.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// Who wants to be told: targets in one text, or a list of them.
    #[serde(default, deserialize_with = "targets")]
    #[schemars(schema_with = "targets_schema")]
    pub notify_target: Option<String>,
    /// How much it may use.
    #[serde(default)]
    pub limits: Limits,
}

impl Start {
    /// Work with the defaults for everything else.
    pub fn new(door: Door, prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            door,
            cwd: None,
            caller_cwd: std::env::current_dir().ok(),
            sandbox: None,
            approval_policy: None,
            model: None,
            effort: None,
            profile: None,
            developer_instructions: None,
            codex_home: None,
            client_request_id: None,
            notify_target: None,
            limits: Limits::default(),
        }
    }
}

/// Targets in one text, or a list of them.
pub fn targets<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(input)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Array(all) => {
            let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            texts.map(|texts| Some(texts.join(" "))).ok_or_else(|| Error::custom(NO_TARGETS))
        }
        _ => Err(Error::custom(NO_TARGETS)),
    }
}

/// What is said of targets that are none.
const NO_TARGETS: &str = "notify_target is a text, or a list of texts";

fn targets_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "array", "null"], "items": { "type": "string" } })
}

/// How much a task may use before it is paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Turns in all.
    #[schemars(range(max = u32::MAX))]
    pub turns: Option<u32>,
    /// Seconds of work in all, not counting waits for people.
    #[schemars(range(max = SEQ_MAX))]
    pub work_s: Option<u64>,
    /// Tokens of the whole thread.
    #[schemars(range(max = SEQ_MAX))]
    pub tokens: Option<u64>,
}

/// `POST /v1/tasks/{id}/turns`, and an optional beginning for `POST /v1/tasks/{id}/fork`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    /// What to do next.
    pub prompt: String,
    /// The caller's own name for this request: the same one gives no second turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// `POST /v1/tasks/{id}/fork`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fork {
    /// What the branch does first; without it the branch waits for a `continue`.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The caller's own name for this request: of one task, the same one gives the same branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// `POST /v1/tasks/{id}/steer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Steer {
    /// What to add to the running turn.
    pub text: String,
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

/// Stands for the only open request of a task.
pub const ONLY_REQUEST: &str = "-";

/// `POST /v1/tasks/{id}/requests/{request}/decision`, where `-` stands for the only open request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Decide {
    /// `"accept"`, `"acceptForSession"`, `"acceptAlways"`, `"decline"`, `"cancel"`, `{"answers":{…}}`, `{"form":…}` or
    /// `{"grant":{"permissions":…,"scope":"turn"|"session"}}`.
    pub decision: Value,
    /// The `digest` of the request as it was shown to whoever decides. Callers with a token always send it; on the socket
    /// a no needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether whoever decides was shown the request with nothing hidden. Only the owner of the machine's account can say so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revealed: bool,
}

impl Decide {
    /// As it is sent.
    pub fn new(decision: &Decision, digest: Option<&str>, revealed: bool) -> Self {
        let decision = match decision {
            Decision::Accept => "accept".into(),
            Decision::AcceptForSession => "acceptForSession".into(),
            Decision::AcceptAlways => "acceptAlways".into(),
            Decision::Decline => "decline".into(),
            Decision::Cancel => "cancel".into(),
            other => serde_json::to_value(other).unwrap_or_default(),
        };
        Self { decision, digest: digest.map(str::to_owned), revealed }
    }

    /// What was decided. A word or a shape that is not known is refused.
    pub fn read(&self) -> Result<Decision, Failure> {
        if let Some(word) = self.decision.as_str() {
            return decision_word(word);
        }
        if let Some(answers) = self.decision.get("answers") {
            return Ok(Decision::Answers(answers_of(answers)?));
        }
        serde_json::from_value(self.decision.clone()).map_err(|error| {
            Failure::new("unknown_decision", format!("this is no decision: {error}")).hint(DECISIONS_HINT)
        })
    }
}

const DECISIONS_HINT: &str = "use accept, acceptForSession, decline or cancel, or give answers";

/// A decision of one word, as it is written in calls.
pub fn decision_word(word: &str) -> Result<Decision, Failure> {
    Ok(match word.trim() {
        "accept" => Decision::Accept,
        "acceptForSession" => Decision::AcceptForSession,
        "acceptAlways" => Decision::AcceptAlways,
        "decline" => Decision::Decline,
        "cancel" => Decision::Cancel,
        other => {
            let message = format!("unknown decision {other:?}");
            return Err(Failure::new("unknown_decision", message).hint(DECISIONS_HINT));
        }
    })
}

/// Answers by question id: `"x"`, `["x", "y"]` or `{"answers": ["x"]}` each.
pub fn answers_of(answers: &Value) -> Result<BTreeMap<String, Vec<String>>, Failure> {
    let wrong = || {
        Failure::new("bad_answers", "answers must be an object with one entry per question id")
            .hint("for example {\"q1\": {\"answers\": [\"yes\"]}}")
    };
    let by_question = answers.as_object().ok_or_else(wrong)?;
    let words = |value: &Value| -> Option<Vec<String>> {
        let list = value.get("answers").unwrap_or(value);
        match list {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(many) => many.iter().map(|it| it.as_str().map(str::to_owned)).collect(),
            _ => None,
        }
    };
    by_question.iter().map(|(id, value)| Ok((id.clone(), words(value).ok_or_else(wrong)?))).collect()
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
