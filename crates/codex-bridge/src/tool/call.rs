//! One call of the tool: its parameters, as they are read and as its schema tells them.

use std::path::PathBuf;

use codex_bridge_core::desk::admission::non_empty;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::calls::targets;
use crate::failure::{Code, Failure};

/// The most entries that a list holds.
const MAX_LIMIT: i64 = 100;
/// As many as a list holds unless told otherwise.
const DEFAULT_LIMIT: usize = 10;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Hand a prompt to Codex as a new task.
    Start,
    /// Look at a task.
    Status,
    /// List tasks, the newest first.
    List,
    /// Tell of tasks that ended, each once.
    NotifyCompleted,
    /// Add to the running turn.
    Steer,
    /// Stop a task.
    Interrupt,
    /// The same as interrupt.
    Cancel,
    /// Answer a request of Codex's.
    Respond,
    /// Give a task that has ended another prompt.
    Continue,
    /// Wait until a task ends or needs an answer.
    Wait,
    /// Read a task's log after a number.
    Events,
    /// The answer of a task that has ended.
    Result,
    /// Branch a task that has ended.
    Fork,
}

const ACTIONS: &str = "use start, status, list, notify_completed, steer, interrupt, respond, continue, wait, events, \
    result or fork";

/// What commands may touch.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used: values are read by what admits a task")]
enum SandboxName {
    ReadOnly,
    WorkspaceWrite,
}

/// When Codex asks.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used: values are read by what admits a task")]
enum ApprovalPolicyName {
    Untrusted,
    OnRequest,
}

/// An answer of one word. What `acceptForSession` covers stands in the request, as its detail `Session`.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used: values are read where decisions are")]
enum DecisionName {
    Accept,
    AcceptForSession,
    Decline,
    Cancel,
}

/// One call of the `codex_bridge` tool. Absent, null and empty parameters have their defaults.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Call {
    /// What to do.
    pub action: Action,
    /// start, continue, fork: what Codex shall do.
    #[serde(default)]
    pub prompt: Option<String>,
    /// Which task, for everything but start, list and notify_completed; any unique beginning of its id will do.
    #[serde(default)]
    pub task_id: Option<String>,
    /// steer: what to add to the running turn. respond: another name for request_id.
    #[serde(default)]
    pub instruction: Option<String>,
    /// respond: which request, from pending_requests.
    #[serde(default)]
    pub request_id: Option<String>,
    /// respond: the digest of that request, from pending_requests. Needed for everything but a no.
    #[serde(default)]
    pub digest: Option<String>,
    /// respond: the answer to an approval. Default decline.
    #[serde(default)]
    #[schemars(with = "Option<DecisionName>")]
    pub decision: Option<String>,
    /// respond: answers to questions by question id, as in `{"q1": {"answers": ["value"]}}`.
    #[serde(default)]
    pub answers: Option<Map<String, Value>>,
    /// start: where Codex works. Default: where the caller runs.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// start: another model than Codex's own choice.
    #[serde(default)]
    pub model: Option<String>,
    /// start: the model's reasoning effort.
    #[serde(default)]
    pub effort: Option<String>,
    /// start: what commands may touch. Default read-only.
    #[serde(default)]
    #[schemars(with = "Option<SandboxName>")]
    pub sandbox: Option<String>,
    /// start: when Codex asks. Default untrusted.
    #[serde(default)]
    #[schemars(with = "Option<ApprovalPolicyName>")]
    pub approval_policy: Option<String>,
    /// start: a profile that the operator defined for agents.
    #[serde(default)]
    pub profile: Option<String>,
    /// start: another home of Codex's, if the operator lists it.
    #[serde(default)]
    pub codex_home: Option<PathBuf>,
    /// start: who is told when the task ends, such as "local".
    #[serde(default, deserialize_with = "targets")]
    pub notify_target: Option<String>,
    /// start: your own name for this request; the same one gives the same task.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// list, notify_completed, events: at most so many, 1 to 100. Default 10.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<i64>,
    /// notify_completed: show what would be told without telling it.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// wait: at most so many seconds, up to 50. Default 50.
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub timeout_s: Option<f64>,
    /// events: only those with a higher number. Default 0.
    #[serde(default)]
    pub after: Option<i64>,
}

impl Call {
    /// Reads a call. Actions are trimmed and their case does not matter.
    pub fn read(mut call: Value) -> Result<Self, Failure> {
        let Some(parameters) = call.as_object_mut() else {
            return Err(Failure::new(Code::BadCall, "a call is one JSON object")
                .hint("for example {\"action\": \"list\"}"));
        };
        let action =
            parameters.get("action").and_then(Value::as_str).unwrap_or_default().trim().to_lowercase();
        if serde_json::from_value::<Action>(action.as_str().into()).is_err() {
            return Err(Failure::new(Code::UnknownAction, format!("unknown action {action:?}")).hint(ACTIONS));
        }
        // Whatever its type, an empty text counts as absent, as the callers of earlier bridges expect.
        parameters.retain(|_, value| !value.as_str().is_some_and(|text| text.trim().is_empty()));
        parameters.insert("action".to_owned(), action.into());
        serde_json::from_value(call).map_err(|error| {
            Failure::new(Code::BadCall, error.to_string())
                .hint("`codex-bridge tool --schema` lists the parameters")
        })
    }

    /// The task that the call is about.
    pub fn task_id(&self) -> Result<&str, Failure> {
        self.needs("task_id", self.task_id.as_deref())
    }

    /// A parameter that this action cannot do without.
    pub fn needs<'a>(&self, name: &str, value: Option<&'a str>) -> Result<&'a str, Failure> {
        non_empty(value).ok_or_else(|| {
            let message = format!("{} needs {name}", self.action_name());
            Failure::new(Code::MissingParameter, message).hint(format!("add {name} to the call"))
        })
    }

    /// How many entries are wanted.
    pub fn limit(&self) -> Result<usize, Failure> {
        match self.limit {
            None => Ok(DEFAULT_LIMIT),
            Some(limit @ 1..=MAX_LIMIT) => usize::try_from(limit).map_err(Failure::internal),
            Some(limit) => {
                let message = format!("limit {limit} is out of range");
                Err(Failure::new(Code::BadLimit, message).hint("use 1 to 100"))
            }
        }
    }

    fn action_name(&self) -> &'static str {
        match self.action {
            Action::Start => "start",
            Action::Status => "status",
            Action::List => "list",
            Action::NotifyCompleted => "notify_completed",
            Action::Steer => "steer",
            Action::Interrupt | Action::Cancel => "interrupt",
            Action::Respond => "respond",
            Action::Continue => "continue",
            Action::Wait => "wait",
            Action::Events => "events",
            Action::Result => "result",
            Action::Fork => "fork",
        }
    }
}
