//! The parameters of the verbs, as read from JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use codex_session::Decision;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::bridge::Error;
use crate::request::DecisionWord;

/// The largest number that every reader of JSON can hold.
pub const SEQ_MAX: i64 = (1 << 53) - 1;

/// The kind of caller, which determines what may be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// A person at the command line: any directory.
    Cli,
    /// An agent or a script on this machine: the configured roots; by default the user's home and its own directory.
    #[default]
    Agent,
    /// A caller with a token: only the configured roots, and `cwd` is required. A request with a token is always
    /// `remote`; the `door` field in its body is ignored.
    Remote,
}

/// `POST /v1/tasks`. An absent or empty field has its default.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// What to do.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub prompt: String,
    /// The kind of caller. Ignored in calls with a token.
    #[serde(default)]
    pub door: Door,
    /// The directory to work in; the caller's own if absent.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// The caller's own directory.
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
    /// Instructions that Codex reads before the prompt, for all turns of the task. The operator's come first.
    #[serde(default)]
    pub developer_instructions: Option<String>,
    /// A CODEX_HOME that the operator's configuration lists.
    #[serde(default)]
    pub codex_home: Option<PathBuf>,
    /// The caller's name for this request. The same name gives the same task.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// The targets to notify: one text, or a list of texts.
    #[serde(default, deserialize_with = "targets")]
    #[cfg_attr(feature = "schema", schemars(schema_with = "targets_schema"))]
    pub notify_target: Option<String>,
    /// How much the task may use.
    #[serde(default)]
    pub limits: Limits,
}

/// Reads targets from one text or a list of texts.
pub fn targets<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(input)? {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text)),
        Value::Array(all) => {
            let texts: Option<Vec<&str>> = all.iter().map(Value::as_str).collect();
            texts.map(|texts| Some(texts.join(" "))).ok_or_else(|| D::Error::custom(NO_TARGETS))
        }
        _ => Err(D::Error::custom(NO_TARGETS)),
    }
}

/// The error for any other value.
const NO_TARGETS: &str = "notify_target is a text, or a list of texts";

#[cfg(feature = "schema")]
fn targets_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": ["string", "array", "null"], "items": { "type": "string" } })
}

/// How much a task may use before it is paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Turns in all.
    #[cfg_attr(feature = "schema", schemars(range(max = u32::MAX)))]
    pub turns: Option<u32>,
    /// Seconds of work in all, not counting waits for people.
    #[cfg_attr(feature = "schema", schemars(range(max = SEQ_MAX)))]
    pub work_s: Option<u64>,
    /// Tokens of the whole thread.
    #[cfg_attr(feature = "schema", schemars(range(max = SEQ_MAX)))]
    pub tokens: Option<u64>,
}

/// `POST /v1/tasks/{id}/turns`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Prompt {
    /// What to do next.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub prompt: String,
    /// The caller's name for this request. Repeating a name does not start another turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// `POST /v1/tasks/{id}/fork`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Fork {
    /// The first prompt of the branch. Without one, the branch waits for a `continue`.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The caller's name for this request. The same name on the same task gives the same branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// `POST /v1/tasks/{id}/steer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Steer {
    /// The text to add to the running turn.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(!default))]
    pub text: String,
}

/// Selects the only open request of a task.
pub const ONLY_REQUEST: &str = "-";

/// `POST /v1/tasks/{id}/requests/{request}/decision`, where `-` stands for the only open request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(JsonSchema))]
pub struct Decide {
    /// `"accept"`, `"acceptForSession"`, `"acceptAlways"`, `"decline"`, `"cancel"`, `{"answers":{…}}`, `{"form":…}` or
    /// `{"grant":{"permissions":…,"scope":"turn"|"session"}}`.
    pub decision: Value,
    /// The `digest` of the request as it was shown to the person who decides. Required with a token. On the socket, a
    /// decline needs none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Whether the person who decides was shown the request without redaction. Only the owner of the machine's account
    /// may set it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub revealed: bool,
}

impl Decide {
    /// The decision as it is sent.
    pub fn new(decision: &Decision, digest: Option<&str>, revealed: bool) -> Self {
        let word = DecisionWord::from(decision);
        let decision = match word.decision() {
            Some(_) => word.as_str().into(),
            None => serde_json::to_value(decision).unwrap_or_default(),
        };
        Self { decision, digest: digest.map(str::to_owned), revealed }
    }

    /// Reads the decision. An unknown word or shape is refused.
    pub fn read(&self) -> Result<Decision, Error> {
        if let Some(word) = self.decision.as_str() {
            return decision_word(word);
        }
        if let Some(answers) = self.decision.get("answers") {
            return Ok(Decision::Answers(answers_of(answers)?));
        }
        let unknown = |_| {
            let message = "unknown decision: use a word such as \"accept\" or \"decline\", or an object with `answers`, `form` or `grant`";
            Error::UnknownDecision(message.to_owned())
        };
        serde_json::from_value(self.decision.clone()).map_err(unknown)
    }
}

/// A decision in one word, as calls write it.
pub fn decision_word(word: &str) -> Result<Decision, Error> {
    let word = word.trim();
    let unknown = || Error::UnknownDecision(format!("unknown decision {word:?}"));
    DecisionWord::from(word).decision().ok_or_else(unknown)
}

/// Reads answers by the key of the question or field, each as `"x"`, `["x", "y"]` or `{"answers": ["x"]}`. A number, or
/// true or false, is read as its text.
pub fn answers_of(answers: &Value) -> Result<BTreeMap<String, Vec<String>>, Error> {
    let wrong = || {
        let message = "answers must be an object with one entry per question id, \
            for example {\"q1\": {\"answers\": [\"yes\"]}}";
        Error::BadAnswers(message.to_owned())
    };
    let by_question = answers.as_object().ok_or_else(wrong)?;
    let word = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let words = |value: &Value| match value.get("answers").unwrap_or(value) {
        Value::Array(many) => many.iter().map(word).collect(),
        one => word(one).map(|one| vec![one]),
    };
    by_question.iter().map(|(id, value)| Ok((id.clone(), words(value).ok_or_else(wrong)?))).collect()
}
