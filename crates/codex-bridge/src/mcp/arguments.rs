//! The arguments of the drop-ins: those of `codex mcp-server`, within what a caller may choose here.
//!
//! An argument that could widen the sandbox, turn off approvals or change Codex's configuration is refused. A harmless
//! argument that is not supported is ignored, and the result says so.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::access::Access;
use crate::calls::{Door, Start};
use crate::failure::{Code, Failure, parser_message};

/// The default of `approval_wait_s`. Clients time out after a minute by default; the result must arrive earlier.
const APPROVAL_WAIT: Duration = Duration::from_secs(45);
/// Longer waits are shortened to this. A `Duration` cannot hold every number.
const MAX_WAIT_S: f64 = 7.0 * 24.0 * 3600.0;

/// The arguments of a call of `codex` or `codex-reply`.
pub struct Arguments {
    /// The work.
    pub work: Work,
    /// The caller's name for the request, or a generated one.
    pub client_request_id: String,
    /// How long to wait for a decision of a person whom the client cannot ask.
    pub approval_wait: Duration,
    /// Which arguments were ignored.
    pub notes: Vec<String>,
}

/// The work that a call hands over.
pub enum Work {
    /// A new task.
    Start(Box<Start>),
    /// Another turn of a task.
    Continue { thread: String, prompt: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Codex {
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    model: Option<String>,
    #[serde(default)]
    sandbox: Option<String>,
    #[serde(default)]
    approval_policy: Option<String>,
    #[serde(default)]
    profile: Option<String>,
    #[serde(default)]
    config: Option<Map<String, Value>>,
    #[serde(default)]
    developer_instructions: Option<String>,
    #[serde(default, rename = "client_request_id")]
    client_request_id: Option<String>,
    #[serde(default, rename = "approval_wait_s")]
    approval_wait_s: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Reply {
    #[serde(default)]
    thread_id: Option<String>,
    #[serde(default)]
    conversation_id: Option<String>,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default, rename = "client_request_id")]
    client_request_id: Option<String>,
    #[serde(default, rename = "approval_wait_s")]
    approval_wait_s: Option<f64>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// Parses the arguments of `codex`.
pub fn codex(arguments: JsonObject, access: &Access) -> Result<Arguments, Failure> {
    let call: Codex = parse(arguments)?;
    let mut start = Start {
        caller_cwd: access.cwd.clone(),
        cwd: call.cwd.filter(|cwd| !cwd.is_empty()).map(Into::into),
        sandbox: call.sandbox,
        approval_policy: call.approval_policy,
        model: call.model,
        profile: call.profile,
        developer_instructions: call.developer_instructions,
        door: Door::Agent,
        prompt: call.prompt.unwrap_or_default(),
        ..Start::default()
    };
    apply_config(call.config.unwrap_or_default(), &mut start)?;
    let client_request_id = request_id(call.client_request_id);
    start.client_request_id = Some(client_request_id.clone());
    Ok(Arguments {
        work: Work::Start(Box::new(start)),
        client_request_id,
        approval_wait: wait(call.approval_wait_s)?,
        notes: ignored(&call.others),
    })
}

/// Parses the arguments of `codex-reply`.
pub fn reply(arguments: JsonObject) -> Result<Arguments, Failure> {
    let call: Reply = parse(arguments)?;
    let given = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let thread = given(call.thread_id).or(given(call.conversation_id)).ok_or_else(|| {
        Failure::new(Code::MissingParameter, "codex-reply needs threadId")
            .hint("pass the threadId of an earlier result")
    })?;
    Ok(Arguments {
        work: Work::Continue { thread, prompt: call.prompt.unwrap_or_default() },
        client_request_id: request_id(call.client_request_id),
        approval_wait: wait(call.approval_wait_s)?,
        notes: ignored(&call.others),
    })
}

fn parse<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Failure::new(Code::BadCall, parser_message(&error.to_string()))
            .hint("the tool's schema lists the arguments")
    })
}

/// Applies the settings that a caller may choose, under their names in Codex's configuration.
fn apply_config(config: Map<String, Value>, start: &mut Start) -> Result<(), Failure> {
    for (key, value) in config {
        let setting = match key.as_str() {
            "model" => &mut start.model,
            "model_reasoning_effort" => &mut start.effort,
            "sandbox_mode" => &mut start.sandbox,
            "approval_policy" => &mut start.approval_policy,
            _ => {
                return Err(Failure::new(
                    Code::ConfigRefused,
                    format!("config {key:?} cannot be set by callers"),
                )
                .hint("omit it; the operator can set it in Codex's config.toml"));
            }
        };
        let Value::String(text) = value else {
            return Err(Failure::new(Code::BadCall, format!("config {key:?} must be a string")));
        };
        // The tool's own argument overrides the one in `config`.
        if setting.as_deref().is_none_or(|text| text.trim().is_empty()) {
            *setting = Some(text);
        }
    }
    Ok(())
}

fn ignored(others: &Map<String, Value>) -> Vec<String> {
    let is_given = |value: &Value| !value.is_null() && value.as_str() != Some("");
    let others = others.iter().filter(|(_, value)| is_given(value));
    others.map(|(name, _)| format!("{name} is not supported and was ignored")).collect()
}

fn wait(seconds: Option<f64>) -> Result<Duration, Failure> {
    let Some(seconds) = seconds else { return Ok(APPROVAL_WAIT) };
    Duration::try_from_secs_f64(seconds.min(MAX_WAIT_S)).map_err(|_| {
        Failure::new(Code::BadTimeout, "approval_wait_s must be a number of seconds").hint("use 0 or more")
    })
}

/// The caller's name for the request, or a unique one.
fn request_id(name: Option<String>) -> String {
    name.filter(|name| !name.trim().is_empty())
        .unwrap_or_else(|| format!("mcp-{:032x}", rand::random::<u128>()))
}
