//! The parameters of a call, and their schema.

use std::path::PathBuf;

use codex_bridge_core::desk::admission::non_empty;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::calls::{Door, Start, limit_of, targets};
use crate::failure::{Code, Failure, parser_message};

/// The longest list.
const MAX_LIMIT: u32 = 100;
/// The length of a list without a `limit`.
const DEFAULT_LIMIT: u32 = 10;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Start a task.
    Start,
    /// Show a task.
    Status,
    /// List tasks, the newest first.
    List,
    /// Report tasks that ended, each once.
    NotifyCompleted,
    /// Add text to the running turn.
    Steer,
    /// Stop a task.
    Interrupt,
    /// The same as interrupt.
    Cancel,
    /// Answer a request of Codex.
    Respond,
    /// Start another turn of a finished task.
    Continue,
    /// Wait until a task is finished or needs an answer.
    Wait,
    /// Read a task's log.
    Events,
    /// Get the answer of a finished task.
    Result,
    /// Make a new task from a finished one, with the whole conversation so far.
    Fork,
}

const ACTIONS: &str = "use start, status, list, notify_completed, steer, interrupt, respond, continue, wait, events, \
    result or fork";

/// What commands may write.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used: the desk reads the values")]
enum SandboxName {
    ReadOnly,
    WorkspaceWrite,
}

/// When Codex asks for approval.
#[derive(JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used: the desk reads the values")]
enum ApprovalPolicyName {
    Untrusted,
    OnRequest,
}

/// A decision. The request's detail `Session` says what `acceptForSession` covers.
#[derive(JsonSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "only its schema is used: `decision_word` reads the values")]
enum DecisionName {
    Accept,
    AcceptForSession,
    Decline,
    Cancel,
}

/// One call of the `codex_bridge` tool. A parameter that is absent, null or empty has its default.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Call {
    /// What to do.
    pub action: Action,
    /// start, continue, fork: what Codex should do.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The task's id, or a unique beginning of it; for every action but start, list and notify_completed.
    #[serde(default)]
    pub task_id: Option<String>,
    /// steer: the text to add to the running turn. respond: another name for request_id.
    #[serde(default)]
    pub instruction: Option<String>,
    /// respond: the request's id, from pending_requests.
    #[serde(default)]
    pub request_id: Option<String>,
    /// respond: the request's digest, from pending_requests. Needed unless the decision is decline or cancel.
    #[serde(default)]
    pub digest: Option<String>,
    /// respond: the decision. Default decline.
    #[serde(default)]
    #[schemars(with = "Option<DecisionName>")]
    pub decision: Option<String>,
    /// respond: answers by question id, as in `{"q1": {"answers": ["value"]}}`, or by the names of a form's fields.
    #[serde(default)]
    pub answers: Option<Map<String, Value>>,
    /// start: the directory to work in. Default: the caller's current directory.
    #[serde(default)]
    pub cwd: Option<PathBuf>,
    /// start: the model. Default: Codex's default.
    #[serde(default)]
    pub model: Option<String>,
    /// start: the model's reasoning effort.
    #[serde(default)]
    pub effort: Option<String>,
    /// start: what commands may write. Default read-only.
    #[serde(default)]
    #[schemars(with = "Option<SandboxName>")]
    pub sandbox: Option<String>,
    /// start: when Codex asks for approval. Default untrusted.
    #[serde(default)]
    #[schemars(with = "Option<ApprovalPolicyName>")]
    pub approval_policy: Option<String>,
    /// start: a profile that the operator defined for agents.
    #[serde(default)]
    pub profile: Option<String>,
    /// start: another CODEX_HOME; the operator's configuration must list it.
    #[serde(default)]
    pub codex_home: Option<PathBuf>,
    /// start: the target to notify when the task ends, such as "local".
    #[serde(default, deserialize_with = "targets")]
    pub notify_target: Option<String>,
    /// start: your own name for this request. The same name gives the same task.
    #[serde(default)]
    pub client_request_id: Option<String>,
    /// list, notify_completed, events: the most entries to return, 1 to 100. Default 10.
    #[serde(default)]
    #[schemars(range(min = 1, max = 100))]
    limit: Option<i64>,
    /// notify_completed: show the notifications without sending them.
    #[serde(default)]
    pub dry_run: Option<bool>,
    /// wait: the timeout in seconds, 0 to 50. Default 50.
    #[serde(default)]
    #[schemars(range(min = 0, max = 50))]
    pub timeout_s: Option<f64>,
    /// events: only events after this number. Default 0.
    #[serde(default)]
    pub after: Option<i64>,
}

impl Call {
    /// Reads a call. The action is trimmed, and its case does not matter.
    pub fn read(mut call: Value) -> Result<Self, Failure> {
        let Some(parameters) = call.as_object_mut() else {
            return Err(Failure::new(Code::BadCall, "a call must be one JSON object")
                .hint("for example {\"action\": \"list\"}"));
        };
        let action =
            parameters.get("action").and_then(Value::as_str).unwrap_or_default().trim().to_lowercase();
        if serde_json::from_value::<Action>(action.as_str().into()).is_err() {
            return Err(Failure::new(Code::UnknownAction, format!("unknown action {action:?}")).hint(ACTIONS));
        }
        // Callers of earlier bridges expect that an empty text counts as absent, for parameters of any type.
        parameters.retain(|_, value| !value.as_str().is_some_and(|text| text.trim().is_empty()));
        parameters.insert("action".to_owned(), action.into());
        serde_json::from_value(call).map_err(|error| {
            Failure::new(Code::BadCall, parser_message(&error.to_string()))
                .hint("`codex-bridge tool --schema` lists the parameters")
        })
    }

    /// The parameters of a start.
    pub fn into_start(self, caller_cwd: Option<PathBuf>) -> Start {
        Start {
            caller_cwd,
            cwd: self.cwd,
            sandbox: self.sandbox,
            approval_policy: self.approval_policy,
            model: self.model,
            effort: self.effort,
            profile: self.profile,
            codex_home: self.codex_home,
            client_request_id: self.client_request_id,
            notify_target: self.notify_target,
            door: Door::Agent,
            prompt: self.prompt.unwrap_or_default(),
            ..Start::default()
        }
    }

    /// The task's id, which must be given.
    pub fn task_id(&self) -> Result<&str, Failure> {
        self.needs("task_id", self.task_id.as_deref())
    }

    /// A required parameter.
    pub fn needs<'a>(&self, name: &str, value: Option<&'a str>) -> Result<&'a str, Failure> {
        non_empty(value).ok_or_else(|| {
            let message = format!("{} needs {name}", self.action_name());
            Failure::new(Code::MissingParameter, message).hint(format!("add {name} to the call"))
        })
    }

    /// The most entries to return.
    pub fn limit(&self) -> Result<u32, Failure> {
        limit_of(self.limit, DEFAULT_LIMIT, MAX_LIMIT)
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
