//! The arguments of the drop-ins: what `codex mcp-server` took, within what a caller may choose here.
//!
//! What could widen the sandbox, silence approvals or set Codex's configuration is refused; what is harmless but has no
//! place here is left out, and the result says so.

use std::time::Duration;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::access::Access;
use crate::calls::{Door, Start};
use crate::failure::{Code, Failure};

/// Clients give up on a call after a minute by default: this leaves room to tell them what is open.
const APPROVAL_WAIT: Duration = Duration::from_secs(45);
/// What nobody waits longer than, so that any number that is given can be waited for.
const LONGEST_WAIT_S: f64 = 7.0 * 24.0 * 3600.0;

/// What both drop-ins are asked for.
pub struct Asked {
    /// What to begin with.
    pub begin: Begin,
    /// The caller's own name for it, or one that we made.
    pub client_request_id: String,
    /// How long to wait for a person whom the client cannot ask.
    pub approval_wait: Duration,
    /// What was asked for and left out.
    pub notes: Vec<String>,
}

/// How a call begins.
pub enum Begin {
    /// A new task.
    Start(Box<Start>),
    /// Another turn of one.
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

/// Reads a call of `codex`.
pub fn codex(arguments: JsonObject, access: &Access) -> Result<Asked, Failure> {
    let call: Codex = read(arguments)?;
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
    settle_config(call.config.unwrap_or_default(), &mut start)?;
    let client_request_id = named(call.client_request_id);
    start.client_request_id = Some(client_request_id.clone());
    Ok(Asked {
        begin: Begin::Start(Box::new(start)),
        client_request_id,
        approval_wait: wait(call.approval_wait_s)?,
        notes: left_out(&call.others),
    })
}

/// Reads a call of `codex-reply`.
pub fn reply(arguments: JsonObject) -> Result<Asked, Failure> {
    let call: Reply = read(arguments)?;
    let said = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let thread = said(call.thread_id).or(said(call.conversation_id)).ok_or_else(|| {
        Failure::new(Code::MissingParameter, "codex-reply needs threadId")
            .hint("give the threadId of an earlier result")
    })?;
    Ok(Asked {
        begin: Begin::Continue { thread, prompt: call.prompt.unwrap_or_default() },
        client_request_id: named(call.client_request_id),
        approval_wait: wait(call.approval_wait_s)?,
        notes: left_out(&call.others),
    })
}

fn read<T: serde::de::DeserializeOwned>(arguments: JsonObject) -> Result<T, Failure> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| {
        Failure::new(Code::BadCall, error.to_string()).hint("the tool's schema lists the arguments")
    })
}

/// The few settings that a caller may choose, under the names that Codex's configuration has for them.
fn settle_config(config: Map<String, Value>, start: &mut Start) -> Result<(), Failure> {
    for (key, value) in config {
        let place = match key.as_str() {
            "model" => &mut start.model,
            "model_reasoning_effort" => &mut start.effort,
            "sandbox_mode" => &mut start.sandbox,
            "approval_policy" => &mut start.approval_policy,
            _ => {
                return Err(Failure::new(
                    Code::ConfigRefused,
                    format!("config {key:?} is not for callers to set"),
                )
                .hint("leave it out; the operator sets it in Codex's own config.toml"));
            }
        };
        let Value::String(word) = value else {
            return Err(Failure::new(Code::BadCall, format!("config {key:?} must be a string")));
        };
        // An argument of its own says more than a line of configuration.
        if place.as_deref().is_none_or(|said| said.trim().is_empty()) {
            *place = Some(word);
        }
    }
    Ok(())
}

fn left_out(others: &Map<String, Value>) -> Vec<String> {
    let is_said = |value: &Value| !value.is_null() && value.as_str() != Some("");
    let others = others.iter().filter(|(_, value)| is_said(value));
    others.map(|(name, _)| format!("{name} is not supported and was not used")).collect()
}

fn wait(seconds: Option<f64>) -> Result<Duration, Failure> {
    let Some(seconds) = seconds else { return Ok(APPROVAL_WAIT) };
    Duration::try_from_secs_f64(seconds.min(LONGEST_WAIT_S)).map_err(|_| {
        Failure::new(Code::BadTimeout, "approval_wait_s must be a number of seconds").hint("use 0 or more")
    })
}

fn named(name: Option<String>) -> String {
    name.filter(|name| !name.trim().is_empty()).unwrap_or_else(made_up)
}

/// A name that nobody else has.
fn made_up() -> String {
    format!("mcp-{:032x}", rand::random::<u128>())
}
