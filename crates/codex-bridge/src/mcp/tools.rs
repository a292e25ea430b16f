//! The tools: names, descriptions, schemas.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use crate::tool;

/// The `codex_bridge` tool.
pub const BRIDGE: &str = "codex_bridge";
/// Runs a prompt, like the tool of `codex mcp-server`.
pub const CODEX: &str = "codex";
/// Continues a thread, like the tool of `codex mcp-server`.
pub const REPLY: &str = "codex-reply";

/// All tools.
pub fn all() -> Vec<Tool> {
    vec![codex(), reply(), bridge()]
}

fn bridge() -> Tool {
    let schema = tool::schema();
    let description = schema["description"].as_str().unwrap_or_default().to_owned();
    Tool::new(BRIDGE, description, object(schema["parameters"].clone())).with_title("Codex bridge")
}

fn codex() -> Tool {
    let description = "Run a prompt on OpenAI Codex in a new thread and wait for the answer. The work is a durable task: \
        it continues if this call times out or is cancelled. Repeat the call with the same client_request_id to get \
        its answer.";
    let schema = json!({
        "type": "object",
        "properties": {
            "prompt": text("What Codex should do."),
            "cwd": text("The directory Codex works in. A relative path starts at this server's directory."),
            "model": text("The model. Default: Codex's own choice."),
            "sandbox": choice("What commands may write. Default read-only.", &["read-only", "workspace-write"]),
            "approval-policy": choice("When Codex asks for approval. Default untrusted.", &["untrusted", "on-request"]),
            "profile": text("A profile that the operator of codex-bridge has defined for agents."),
            "config": {
                "type": "object",
                "additionalProperties": true,
                "description": "Codex settings. Only model, model_reasoning_effort, sandbox_mode and approval_policy are \
                    allowed, within the same limits. Others are refused.",
            },
            "base-instructions": text("Not supported. Ignored; the result says so."),
            "developer-instructions": text("Instructions for all turns of the thread, in addition to the operator's."),
            "compact-prompt": text("Not supported. Ignored; the result says so."),
            "client_request_id": text("Your name for this request. A repeated name returns the same task and its answer."),
            "approval_wait_s": wait(),
        },
        "required": ["prompt"],
    });
    Tool::new(CODEX, description, object(schema)).with_title("Codex").with_raw_output_schema(output())
}

fn reply() -> Tool {
    let description = "Continue a Codex thread with another prompt and wait for the answer.";
    let schema = json!({
        "type": "object",
        "properties": {
            "threadId": text("The threadId or taskId of an earlier result."),
            "conversationId": text("The older name of threadId."),
            "prompt": text("What Codex should do next."),
            "client_request_id": text("Your name for this request. A repeated name returns the answer of the same turn."),
            "approval_wait_s": wait(),
        },
        "required": ["prompt"],
    });
    Tool::new(REPLY, description, object(schema)).with_title("Codex Reply").with_raw_output_schema(output())
}

fn output() -> Arc<JsonObject> {
    object(json!({
        "type": "object",
        "properties": {
            "threadId": { "type": "string" },
            "content": { "type": "string" },
            "taskId": { "type": "string" },
            "status": { "type": "string" },
            "clientRequestId": { "type": "string" },
            "notes": { "type": "array", "items": { "type": "string" } },
            "pendingRequests": { "type": "array", "items": { "type": "object" } },
        },
        "required": ["threadId", "content"],
    }))
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn choice(description: &str, values: &[&str]) -> Value {
    json!({ "type": "string", "enum": values, "description": description })
}

fn wait() -> Value {
    json!({
        "type": "number", "minimum": 0,
        "description": "Seconds to wait for a decision made elsewhere, if this client cannot ask its user. After that, \
            the call returns the open requests. Default 45.",
    })
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(fields) => Arc::new(fields),
        _ => Arc::default(),
    }
}
