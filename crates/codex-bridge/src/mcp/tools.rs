//! The tools as clients see them: names, descriptions, schemas.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use crate::tool;

/// The `codex_bridge` tool.
pub const BRIDGE: &str = "codex_bridge";
/// Runs a prompt, as `codex mcp-server` did.
pub const CODEX: &str = "codex";
/// Goes on with a thread, as `codex mcp-server` did.
pub const REPLY: &str = "codex-reply";

/// All of them.
pub fn all() -> Vec<Tool> {
    vec![codex(), reply(), bridge()]
}

fn bridge() -> Tool {
    let schema = tool::schema();
    let description = schema["description"].as_str().unwrap_or_default().to_owned();
    Tool::new(BRIDGE, description, object(schema["parameters"].clone())).with_title("Codex bridge")
}

fn codex() -> Tool {
    let description = "Run a prompt on OpenAI Codex in a thread of its own, and wait for the answer. The work is a durable \
        task: if this call times out or is cancelled it goes on, and the same call with the same client_request_id \
        finds it again.";
    let schema = json!({
        "type": "object",
        "properties": {
            "prompt": text("What Codex shall do."),
            "cwd": text("Where Codex works; a relative path counts from where this server runs."),
            "model": text("Another model than Codex's own choice."),
            "sandbox": choice("What commands may touch. Default read-only.", &["read-only", "workspace-write"]),
            "approval-policy": choice("When Codex asks. Default untrusted.", &["untrusted", "on-request"]),
            "profile": text("A profile that the operator of codex-bridge defined for agents."),
            "config": {
                "type": "object",
                "additionalProperties": true,
                "description": "Of Codex's own settings only model, model_reasoning_effort, sandbox_mode and \
                    approval_policy can be given, within the same limits; others are the operator's.",
            },
            "base-instructions": text("Not supported: it is said in the result that they were not used."),
            "developer-instructions": text("What Codex shall heed in all turns of the thread, beside the operator's instructions."),
            "compact-prompt": text("Not supported: it is said in the result that it was not used."),
            "client_request_id": text("Your own name for this request; the same one gives the same task and its answer."),
            "approval_wait_s": wait(),
        },
        "required": ["prompt"],
    });
    Tool::new(CODEX, description, object(schema)).with_title("Codex").with_raw_output_schema(output())
}

fn reply() -> Tool {
    let description = "Go on with a Codex thread: give it another prompt and wait for the answer.";
    let schema = json!({
        "type": "object",
        "properties": {
            "threadId": text("The thread, from an earlier result; its taskId will do as well."),
            "conversationId": text("The older name of threadId."),
            "prompt": text("What Codex shall do next."),
            "client_request_id": text("Your own name for this request; the same one gives no second turn but the answer of the first."),
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
        "description": "When Codex needs a person whom this client cannot ask: how many seconds the call waits for an \
            answer given elsewhere before it returns with what is open. Default 45.",
    })
}

fn object(schema: Value) -> Arc<JsonObject> {
    match schema {
        Value::Object(fields) => Arc::new(fields),
        _ => Arc::default(),
    }
}
