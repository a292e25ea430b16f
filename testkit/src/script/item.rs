//! The items of a turn, each in its form at `item/started` and at `item/completed`.

use serde_json::{Map, Value, json};

use super::{Step, notify};

/// One item, from its start to its end.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub struct Item {
    at_start: Map<String, Value>,
    at_end: Map<String, Value>,
}

impl Item {
    /// An item of any type, also of one that nobody knows.
    pub fn new(kind: &str) -> Self {
        Self { at_start: Map::new(), at_end: Map::new() }
            .with("type", kind)
            .with("id", "$item")
            .with("startedAtMs", "$now_ms")
            .turning("completedAtMs", Value::Null, "$now_ms")
    }

    /// Gives it an id of its own instead of `$item`.
    pub fn id(self, id: &str) -> Self {
        self.with("id", id)
    }

    /// Sets a field.
    pub fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        self.at_start.insert(field.into(), value.clone());
        self.at_end.insert(field.into(), value);
        self
    }

    /// Sets a field that has another value at the start than at the end.
    pub fn turning(mut self, field: &str, at_start: impl Into<Value>, at_end: impl Into<Value>) -> Self {
        self.at_start.insert(field.into(), at_start.into());
        self.at_end.insert(field.into(), at_end.into());
        self
    }

    /// `item/started`.
    pub fn started(&self) -> Step {
        notify(
            "item/started",
            json!({
                "item": self.at_start,
                "threadId": "$thread",
                "turnId": "$turn",
                "startedAtMs": "$now_ms",
            }),
        )
    }

    /// `item/completed`.
    pub fn completed(&self) -> Step {
        notify(
            "item/completed",
            json!({
                "item": self.at_end,
                "threadId": "$thread",
                "turnId": "$turn",
                "completedAtMs": "$now_ms",
            }),
        )
    }

    /// Both, with a new `$item`.
    pub fn lifecycle(&self) -> Step {
        Step::FreshItem(vec![self.started(), self.completed()])
    }
}

/// What the user sent.
pub fn user(text: &str) -> Item {
    let content = json!([{ "type": "text", "text": text, "text_elements": [] }]);
    Item::new("userMessage").with("clientId", Value::Null).with("content", content)
}

/// An agent message without a phase.
pub fn agent(text: &str) -> Item {
    Item::new("agentMessage")
        .turning("text", "", text)
        .with("phase", Value::Null)
        .with("memoryCitation", Value::Null)
        .with("delivery", Value::Null)
        .with("questions", Value::Null)
}

/// Reasoning with a summary of one part.
pub fn reasoning(summary: &str) -> Item {
    Item::new("reasoning").turning("summary", json!([]), json!([summary])).with("content", json!([]))
}

/// A proposed plan.
pub fn plan(text: &str) -> Item {
    Item::new("plan").turning("text", "", text)
}

/// A command that ran; an exit code other than 0 makes it failed.
pub fn command(command: &str, output: &str, exit_code: i64) -> Item {
    let status = if exit_code == 0 { "completed" } else { "failed" };
    Item::new("commandExecution")
        .with("pluginId", Value::Null)
        .with("scriptPath", Value::Null)
        .with("command", shell(command))
        .with("cwd", "$cwd")
        .with("commandActions", json!([{ "type": "unknown", "command": command }]))
        .turning("status", "inProgress", status)
        .turning("processId", Value::Null, "48213")
        .turning("source", "agent", "unifiedExecStartup")
        .turning("aggregatedOutput", Value::Null, output)
        .turning("exitCode", Value::Null, exit_code)
        .turning("durationMs", Value::Null, 7)
}

pub(super) fn shell(command: &str) -> String {
    format!("/bin/bash -lc '{command}'")
}

/// A patch that was applied. See [`added`], [`updated`], [`deleted`].
pub fn file_change(changes: impl IntoIterator<Item = Value>) -> Item {
    Item::new("fileChange").with("changes", changes.into_iter().collect::<Vec<_>>()).turning(
        "status",
        "inProgress",
        "completed",
    )
}

/// A change that adds a file.
pub fn added(path: &str, content: &str) -> Value {
    json!({ "path": path, "kind": { "type": "add" }, "diff": content })
}

/// A change that changes a file.
pub fn updated(path: &str, diff: &str) -> Value {
    json!({ "path": path, "kind": { "type": "update", "move_path": null }, "diff": diff })
}

/// A change that deletes a file.
pub fn deleted(path: &str, content: &str) -> Value {
    json!({ "path": path, "kind": { "type": "delete" }, "diff": content })
}

/// An MCP tool call that gave a text.
pub fn mcp_call(server: &str, tool: &str, arguments: Value, text: &str) -> Item {
    let content = json!([{ "type": "text", "text": text }]);
    let result = json!({ "content": content, "structuredContent": null, "_meta": null });
    Item::new("mcpToolCall")
        .with("appContext", Value::Null)
        .with("mcpAppUi", Value::Null)
        .with("pluginId", Value::Null)
        .with("readOnlyHint", false)
        .with("server", server)
        .with("tool", tool)
        .with("arguments", arguments)
        .with("error", Value::Null)
        .turning("status", "inProgress", "completed")
        .turning("result", Value::Null, result)
        .turning("durationMs", Value::Null, 7)
}

/// A dynamic tool call that gave a text.
pub fn dynamic_call(tool: &str, arguments: Value, text: &str) -> Item {
    Item::new("dynamicToolCall")
        .with("namespace", Value::Null)
        .with("tool", tool)
        .with("arguments", arguments)
        .turning("status", "inProgress", "completed")
        .turning("contentItems", Value::Null, json!([{ "type": "inputText", "text": text }]))
        .turning("success", Value::Null, true)
        .turning("durationMs", Value::Null, 7)
}

/// A call that gives work to a child thread.
pub fn spawned_agent(child_thread: &str, prompt: &str) -> Item {
    let states = json!({ child_thread: { "status": "running", "message": null } });
    Item::new("collabAgentToolCall")
        .with("tool", "spawnAgent")
        .with("senderThreadId", "$thread")
        .with("receiverThreadIds", json!([child_thread]))
        .with("prompt", prompt)
        .with("model", Value::Null)
        .with("reasoningEffort", Value::Null)
        .turning("agentsStates", json!({}), states)
        .turning("status", "inProgress", "completed")
}

/// A web search.
pub fn web_search(query: &str) -> Item {
    let action = json!({ "type": "search", "query": query, "queries": [query] });
    Item::new("webSearch").with("query", query).turning("action", Value::Null, action)
}

/// A compaction of the thread's context.
pub fn compaction() -> Item {
    Item::new("contextCompaction")
}
