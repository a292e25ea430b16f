//! Tool calls in the shapes that Codex 0.166 offers to `gpt-5.5`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// How long a terminal may take to answer before its output is reported.
const TERMINAL_YIELD_MS: u64 = 250;
/// The same for a program that is about to end; the longest that Codex waits.
const LAST_YIELD_MS: u64 = 30_000;

/// A call of one tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolCall {
    /// A tool with JSON arguments; MCP tools have the namespace of their server.
    Function {
        name: String,
        #[serde(default)]
        namespace: Option<String>,
        arguments: Value,
    },
    /// A free-form tool, which takes text.
    Custom { name: String, input: String },
}

/// A question of `request_user_input`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The key of the answer.
    pub id: String,
    /// A label of at most 12 characters.
    pub header: String,
    /// The question itself.
    pub question: String,
    /// The labels of the 2 or 3 choices.
    pub options: Vec<String>,
}

impl Question {
    /// A question with the choices Yes and No.
    pub fn yes_no(id: impl Into<String>, question: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            header: "Choice".to_owned(),
            question: question.into(),
            options: vec!["Yes".to_owned(), "No".to_owned()],
        }
    }
}

impl ToolCall {
    /// Any function tool without a namespace: built-in or dynamic.
    pub fn function(name: impl Into<String>, arguments: Value) -> Self {
        Self::Function { name: name.into(), namespace: None, arguments }
    }

    /// A shell command by `exec_command`.
    pub fn exec(command: impl Into<String>) -> Self {
        Self::function("exec_command", json!({"cmd": command.into()}))
    }

    /// A shell command that asks to run outside the sandbox, with its reason.
    pub fn exec_escalated(command: impl Into<String>, justification: impl Into<String>) -> Self {
        let arguments = json!({
            "cmd": command.into(),
            "sandbox_permissions": "require_escalated",
            "justification": justification.into(),
        });
        Self::function("exec_command", arguments)
    }

    /// A command in a terminal that is left running: its output names a session to type into.
    pub fn exec_in_terminal(command: impl Into<String>) -> Self {
        let arguments = json!({"cmd": command.into(), "tty": true, "yield_time_ms": TERMINAL_YIELD_MS});
        Self::function("exec_command", arguments)
    }

    /// The same for a command that asks to run outside the sandbox.
    pub fn exec_escalated_in_terminal(command: impl Into<String>, justification: impl Into<String>) -> Self {
        let arguments = json!({
            "cmd": command.into(), "tty": true, "yield_time_ms": TERMINAL_YIELD_MS,
            "sandbox_permissions": "require_escalated", "justification": justification.into(),
        });
        Self::function("exec_command", arguments)
    }

    /// Input to the terminal of a session; an empty one only looks at its output.
    pub fn write_stdin(session: u64, text: impl Into<String>) -> Self {
        let arguments =
            json!({"session_id": session, "chars": text.into(), "yield_time_ms": TERMINAL_YIELD_MS});
        Self::function("write_stdin", arguments)
    }

    /// Input that ends the program of a terminal: its output is reported once the program has ended.
    pub fn write_last(session: u64, text: impl Into<String>) -> Self {
        let arguments = json!({"session_id": session, "chars": text.into(), "yield_time_ms": LAST_YIELD_MS});
        Self::function("write_stdin", arguments)
    }

    /// A sub-agent with this prompt.
    pub fn spawn_agent(prompt: impl Into<String>) -> Self {
        Self::namespaced("multi_agent_v1", "spawn_agent", json!({"message": prompt.into()}))
    }

    /// A patch: `*** Begin Patch` … `*** End Patch`.
    pub fn apply_patch(patch: impl Into<String>) -> Self {
        Self::Custom { name: "apply_patch".to_owned(), input: patch.into() }
    }

    /// A patch that adds one file.
    pub fn add_file(path: &str, content: &str) -> Self {
        let mut lines = String::new();
        for line in content.lines() {
            lines.extend(["+", line, "\n"]);
        }
        Self::apply_patch(format!("*** Begin Patch\n*** Add File: {path}\n{lines}*** End Patch\n"))
    }

    /// Questions to the user.
    pub fn request_user_input(questions: &[Question]) -> Self {
        let questions: Vec<Value> = questions.iter().map(question_argument).collect();
        Self::function("request_user_input", json!({"questions": questions}))
    }

    /// A wish for more rights: `{"file_system": {"write": ["/abs"]}, "network": {"enabled": true}}`.
    pub fn request_permissions(permissions: &Value, reason: impl Into<String>) -> Self {
        Self::function("request_permissions", json!({"permissions": permissions, "reason": reason.into()}))
    }

    /// A tool of an MCP server that Codex runs.
    pub fn mcp(server: &str, tool: impl Into<String>, arguments: Value) -> Self {
        Self::namespaced(format!("mcp__{server}"), tool, arguments)
    }

    /// A tool of a namespace.
    pub fn namespaced(namespace: impl Into<String>, tool: impl Into<String>, arguments: Value) -> Self {
        Self::Function { name: tool.into(), namespace: Some(namespace.into()), arguments }
    }
}

fn question_argument(question: &Question) -> Value {
    let options: Vec<Value> = question
        .options
        .iter()
        .map(|label| json!({"label": label, "description": format!("Choose {label}.")}))
        .collect();
    json!({
        "id": question.id,
        "header": question.header,
        "question": question.question,
        "options": options,
    })
}
