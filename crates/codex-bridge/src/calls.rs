//! What callers send to the daemon: the bodies and queries of its routes.

use std::collections::BTreeMap;
use std::path::PathBuf;

use codex_session::Decision;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::failure::Failure;

/// Who asks, which decides what may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// A person at the command line: any directory of theirs.
    Cli,
    /// An agent by the tool: the configured roots, by default the user's home and the directory that it runs in.
    Agent,
}

/// `POST /v1/tasks`. What is absent has the default; empty words count as absent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    /// What to do.
    pub prompt: String,
    /// Who asks.
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
    /// A home that the operator's configuration lists.
    #[serde(default)]
    pub codex_home: Option<PathBuf>,
    /// The caller's own name for this request: the same one gives the same task.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// Who wants to be told.
    #[serde(default)]
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
            codex_home: None,
            client_request_id: None,
            notify_target: None,
            limits: Limits::default(),
        }
    }
}

/// How much a task may use before it is paused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Turns in all.
    pub turns: Option<u32>,
    /// Seconds of work in all, not counting waits for people.
    pub work_s: Option<u64>,
    /// Tokens of the whole thread.
    pub tokens: Option<u64>,
}

/// `POST /v1/tasks/{id}/turns`, and an optional beginning for `POST /v1/tasks/{id}/fork`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompt {
    /// What to do next.
    pub prompt: String,
}

/// `POST /v1/tasks/{id}/fork`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    /// What the branch does first; without it the branch waits for a `continue`.
    #[serde(default)]
    pub prompt: Option<String>,
}

/// `POST /v1/tasks/{id}/steer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steer {
    /// What to add to the running turn.
    pub text: String,
}

/// `GET /v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct List {
    /// Only those in this state.
    pub status: Option<String>,
    /// Also those that ended more than a day ago.
    pub all: bool,
    /// At most so many.
    pub limit: Option<u32>,
    /// Only those created before this task, for the next page.
    pub before: Option<String>,
}

/// `GET /v1/tasks/{id}/wait`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Wait {
    /// At most so long; without it as long as it takes.
    pub timeout_s: Option<f64>,
}

/// `GET /v1/tasks/{id}/events`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Events {
    /// Only events with a higher number.
    pub after: i64,
    /// At most so many.
    pub limit: Option<u32>,
    /// Go on until the task is at rest.
    pub follow: bool,
    /// With text as it is written.
    pub live: bool,
}

/// `POST /v1/tasks/{id}/requests/{request}/decision`, where `-` stands for the only open request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Decide {
    /// `"accept"`, `"acceptForSession"`, `"acceptAlways"`, `"decline"`, `"cancel"`, `{"answers":{…}}`, `{"form":…}` or
    /// `{"grant":{"permissions":…,"scope":"turn"|"session"}}`.
    pub decision: Value,
}

impl Decide {
    /// As it is sent.
    pub fn new(decision: &Decision) -> Self {
        let decision = match decision {
            Decision::Accept => "accept".into(),
            Decision::AcceptForSession => "acceptForSession".into(),
            Decision::AcceptAlways => "acceptAlways".into(),
            Decision::Decline => "decline".into(),
            Decision::Cancel => "cancel".into(),
            other => serde_json::to_value(other).unwrap_or_default(),
        };
        Self { decision }
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

/// `POST /v1/stop`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stop {
    /// End the hosts too, with everything that runs on them.
    #[serde(default)]
    pub hosts: bool,
}

/// `POST /v1/store/backup`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// A new file, with its whole path.
    pub file: PathBuf,
}

/// `POST /v1/tool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// One call of the `codex_bridge` tool.
    pub call: Value,
    /// Where the caller runs.
    #[serde(default)]
    pub caller_cwd: Option<PathBuf>,
}
