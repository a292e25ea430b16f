//! What Codex asks of its client, in the shapes of codex 0.166. Ids are integers from 0 there; any JSON is
//! taken here so that scripts can lie.

use serde_json::{Value, json};

use super::item::{self, shell};
use super::{Item, Step, notify, request, status_active, status_waiting_on_approval};

/// May this command run?
pub fn command_request(id: impl Into<Value>, command: &str) -> Step {
    let words: Vec<&str> = command.split_whitespace().collect();
    let amendment = json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": words } });
    request(
        id,
        "item/commandExecution/requestApproval",
        of_item(json!({
            "kind": "command",
            "startedAtMs": "$now_ms",
            "environmentId": "local",
            "command": shell(command),
            "cwd": "$cwd",
            "commandActions": [{ "type": "unknown", "command": command }],
            "proposedExecpolicyAmendment": words,
            "availableDecisions": ["accept", amendment, "cancel"],
        })),
    )
}

/// A command that needs approval, from its start over the answer to its end as if it had been accepted.
pub fn command_approval(id: impl Into<Value>, command: &str) -> Step {
    approval(&item::command(command, "", 0), command_request(id, command))
}

/// May the file change `$item` be applied?
pub fn file_request(id: impl Into<Value>) -> Step {
    request(
        id,
        "item/fileChange/requestApproval",
        of_item(json!({ "startedAtMs": "$now_ms", "reason": null, "grantRoot": null })),
    )
}

/// A file change that needs approval, from its start over the answer to its end as if it had been accepted.
pub fn file_approval(id: impl Into<Value>, changes: impl IntoIterator<Item = Value>) -> Step {
    approval(&item::file_change(changes), file_request(id))
}

fn approval(item: &Item, request: Step) -> Step {
    Step::FreshItem(vec![
        item.started(),
        status_waiting_on_approval(),
        request.asked(),
        status_active(),
        item.completed(),
    ])
}

/// May Codex write to this path and use the network?
pub fn permissions_request(id: impl Into<Value>, write_path: &str) -> Step {
    let entry = json!({ "path": { "type": "path", "path": write_path }, "access": "write" });
    request(
        id,
        "item/permissions/requestApproval",
        of_item(json!({
            "environmentId": "local",
            "startedAtMs": "$now_ms",
            "cwd": "$cwd",
            "reason": "needs to write there",
            "permissions": {
                "network": { "enabled": true },
                "fileSystem": { "read": null, "write": [write_path], "entries": [entry] },
            },
        })),
    )
}

/// A question with two options, `Yes` and `No`.
pub fn user_input_request(id: impl Into<Value>, question_id: &str, question: &str) -> Step {
    let options = json!([
        { "label": "Yes", "description": "do it" },
        { "label": "No", "description": "leave it" },
    ]);
    request(
        id,
        "item/tool/requestUserInput",
        of_item(json!({
            "questions": [{
                "id": question_id,
                "header": "Question",
                "question": question,
                "isOther": true,
                "isSecret": false,
                "options": options,
            }],
            "isBlocking": true,
            "autoResolutionMs": null,
        })),
    )
}

/// A form that an MCP server wants filled in.
pub fn elicitation_form(id: impl Into<Value>, server: &str, message: &str) -> Step {
    let schema = json!({
        "type": "object",
        "properties": { "answer": { "type": "string", "title": "Answer" } },
        "required": ["answer"],
    });
    request(
        id,
        "mcpServer/elicitation/request",
        of_turn(json!({
            "serverName": server,
            "mode": "form",
            "_meta": null,
            "message": message,
            "requestedSchema": schema,
        })),
    )
}

/// A page that an MCP server wants opened.
pub fn elicitation_url(id: impl Into<Value>, server: &str, url: &str) -> Step {
    request(
        id,
        "mcpServer/elicitation/request",
        of_turn(json!({
            "serverName": server,
            "mode": "url",
            "_meta": null,
            "message": "open this page",
            "url": url,
            "elicitationId": "elicitation-1",
        })),
    )
}

/// May this MCP tool be called? Codex asks it as an elicitation.
pub fn mcp_tool_approval(id: impl Into<Value>, server: &str, tool: &str) -> Step {
    request(
        id,
        "mcpServer/elicitation/request",
        of_turn(json!({
            "serverName": server,
            "mode": "form",
            "_meta": {
                "codex_approval_kind": "mcp_tool_call",
                "persist": ["session", "always"],
                "tool_description": "writes something",
                "tool_params": { "text": "it" },
                "tool_params_display": [{ "display_name": "text", "name": "text", "value": "it" }],
            },
            "message": format!("Allow the {server} MCP server to run tool \"{tool}\"?"),
            "requestedSchema": { "type": "object", "properties": {} },
        })),
    )
}

/// A call of a tool that the client offers. codex 0.166 sends no `serverRequest/resolved` for it.
pub fn tool_call(id: impl Into<Value>, tool: &str, arguments: impl Into<Value>) -> Step {
    let arguments = arguments.into();
    let params = json!({ "callId": "$item", "namespace": null, "tool": tool, "arguments": arguments });
    request(id, "item/tool/call", of_turn(params))
}

/// What time is it?
pub fn current_time(id: impl Into<Value>) -> Step {
    request(id, "currentTime/read", json!({ "threadId": "$thread" }))
}

/// New ChatGPT tokens, please. Carries no thread, so the real one sends no `serverRequest/resolved`.
pub fn token_refresh(id: impl Into<Value>) -> Step {
    let params = json!({ "reason": "unauthorized", "previousAccountId": "account-1" });
    request(id, "account/chatgptAuthTokens/refresh", params)
}

/// An attestation token, please.
pub fn attestation(id: impl Into<Value>) -> Step {
    request(id, "attestation/generate", json!({}))
}

/// A request that no client knows.
pub fn unknown_request(id: impl Into<Value>) -> Step {
    request(id, "test/unknown", json!({ "threadId": "$thread", "turnId": "$turn" }))
}

/// `serverRequest/resolved`.
pub fn resolved(id: impl Into<Value>) -> Step {
    notify("serverRequest/resolved", json!({ "threadId": "$thread", "requestId": id.into() }))
}

/// `thread/started` of a child of this thread; its events are those of any thread with
/// [`Step::in_thread`].
pub fn child_started(child_thread: &str) -> Step {
    let thread = json!({ "$extends": "$thread_object", "id": child_thread, "parentThreadId": "$thread" });
    notify("thread/started", json!({ "thread": thread }))
}

fn of_turn(mut params: Value) -> Value {
    params["threadId"] = json!("$thread");
    params["turnId"] = json!("$turn");
    params
}

fn of_item(params: Value) -> Value {
    let mut params = of_turn(params);
    params["itemId"] = json!("$item");
    params
}
