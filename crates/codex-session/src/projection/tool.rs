//! Tool calls for people and chat histories: name, arguments, result.

use codex_wire::item::{CommandExecution, DynamicToolCall, FileChange, Item, McpToolCall, Status, WebSearch};
use redact::Redactor;
use serde_json::{Map, Value, json};

use super::cut::cut;

/// The name of the tool that runs commands.
pub(crate) const COMMAND: &str = "exec_command";
/// The name of the tool that changes files.
pub(crate) const PATCH: &str = "apply_patch";
/// The mark of a failed call of an MCP server.
const ERROR: &str = "error";
/// The result of a call that was still running at the end of the turn.
pub(crate) const UNFINISHED: &str = "[unfinished]\nthe turn ended before a result came";
/// Longest text of a tool's result.
const MAX_RESULT_CHARS: usize = 4000;
/// Longest text of a tool's error.
const MAX_ERROR_CHARS: usize = 1000;
/// Replaces a missing name.
const UNNAMED: &str = "unknown";

/// An item that calls a tool.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tool<'a> {
    Command(&'a CommandExecution),
    Patch(&'a FileChange),
    Mcp(&'a McpToolCall),
    Dynamic(&'a DynamicToolCall),
    WebSearch(&'a WebSearch),
}

/// The outcome of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) result: String,
    pub(crate) is_error: bool,
}

impl<'a> Tool<'a> {
    pub(crate) fn of(item: &'a Item) -> Option<Self> {
        match item {
            Item::CommandExecution(it) => Some(Self::Command(it)),
            Item::FileChange(it) => Some(Self::Patch(it)),
            Item::McpToolCall(it) => Some(Self::Mcp(it)),
            Item::DynamicToolCall(it) => Some(Self::Dynamic(it)),
            Item::WebSearch(it) => Some(Self::WebSearch(it)),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::Command(_) => COMMAND.to_owned(),
            Self::Patch(_) => PATCH.to_owned(),
            Self::Mcp(call) => format!("mcp.{}.{}", or_unnamed(&call.server), or_unnamed(&call.tool)),
            Self::Dynamic(call) => or_unnamed(&call.tool).to_owned(),
            Self::WebSearch(_) => "web_search".to_owned(),
        }
    }

    /// The arguments: always an object, without the contents of files.
    pub(crate) fn args(self) -> Value {
        match self {
            Self::Command(it) => match &it.cwd {
                Some(cwd) => json!({"command": it.command, "cwd": cwd}),
                None => json!({"command": it.command}),
            },
            Self::Patch(it) => {
                let change = |change: &codex_wire::item::Change| json!({"kind": change.kind.as_str(), "path": change.path});
                json!({"changes": it.changes.iter().map(change).collect::<Vec<_>>()})
            }
            Self::Mcp(it) => as_object(&it.arguments),
            Self::Dynamic(it) => as_object(&it.arguments),
            Self::WebSearch(it) => json!({"query": it.query}),
        }
    }

    pub(crate) fn duration_ms(self) -> Option<u64> {
        let duration_ms = match self {
            Self::Command(it) => it.duration_ms,
            Self::Mcp(it) => it.duration_ms,
            Self::Dynamic(it) => it.duration_ms,
            Self::Patch(_) | Self::WebSearch(_) => None,
        };
        duration_ms.and_then(|duration_ms| u64::try_from(duration_ms).ok())
    }

    /// The outcome. Only texts that have to be cut are redacted.
    pub(crate) fn outcome(self, redactor: &Redactor) -> Outcome {
        match self {
            Self::Command(it) => command_outcome(it),
            Self::Patch(it) => {
                let status = it.status.as_ref().map_or(UNNAMED, Status::as_str);
                let result = format!("apply_patch status={status}, {} change(s)", it.changes.len());
                Outcome { result, is_error: it.status != Some(Status::Completed) }
            }
            Self::Mcp(it) => mcp_outcome(it, redactor),
            Self::Dynamic(it) => dynamic_outcome(it, redactor),
            Self::WebSearch(it) => {
                let result =
                    it.results.as_ref().map(|results| cut_json(&json!(results), MAX_RESULT_CHARS, redactor));
                Outcome { result: result.unwrap_or_default(), is_error: false }
            }
        }
    }
}

/// The mark before the result of a failed call, as [`Tool::outcome`] and [`UNFINISHED`] have it, and the result behind it. A result of a tool may
/// begin with a bracket too.
pub(crate) fn mark(result: &str) -> Option<(&str, &str)> {
    let (mark, rest) = result.strip_prefix('[')?.split_once(']')?;
    let is_exit = mark.strip_prefix("exit ").is_some_and(|code| code.parse::<i64>().is_ok());
    let is_status = [Status::Declined, Status::Failed].iter().any(|status| status.as_str() == mark);
    let is_ours = is_exit || is_status || mark == ERROR || result == UNFINISHED;
    is_ours.then(|| (mark, rest.strip_prefix(' ').unwrap_or(rest).trim_start_matches('\n')))
}

fn command_outcome(it: &CommandExecution) -> Outcome {
    let output = it.aggregated_output.as_deref().unwrap_or_default();
    let result = match (it.exit_code, &it.status) {
        (None | Some(0), Some(status @ (Status::Declined | Status::Failed))) => {
            format!("[{}]\n{output}", status.as_str())
        }
        (None | Some(0), _) => return Outcome { result: output.to_owned(), is_error: false },
        (Some(exit_code), _) => format!("[exit {exit_code}]\n{output}"),
    };
    Outcome { result, is_error: true }
}

fn mcp_outcome(it: &McpToolCall, redactor: &Redactor) -> Outcome {
    if let Some(error) = &it.error {
        return Outcome {
            result: format!("[{ERROR}] {}", cut_json(error, MAX_ERROR_CHARS, redactor)),
            is_error: true,
        };
    }
    let result =
        it.result.as_ref().map(|result| cut_json(result, MAX_RESULT_CHARS, redactor)).unwrap_or_default();
    Outcome { result, is_error: it.status == Some(Status::Failed) }
}

fn dynamic_outcome(it: &DynamicToolCall, redactor: &Redactor) -> Outcome {
    let result = match it.content_items.as_deref() {
        None | Some([]) => {
            format!("success={}", it.success.map_or(UNNAMED.to_owned(), |success| success.to_string()))
        }
        Some(parts) => cut_json(&json!(parts), MAX_RESULT_CHARS, redactor),
    };
    Outcome { result, is_error: it.success == Some(false) || it.status == Some(Status::Failed) }
}

/// The side effects of a completed tool item, one line each. A declined one has none.
pub(crate) fn effects(item: &Item) -> Vec<String> {
    match Tool::of(item) {
        Some(Tool::Command(it)) if it.status == Some(Status::Declined) => Vec::new(),
        Some(Tool::Command(it)) => {
            let end = match (it.exit_code, &it.status) {
                (Some(exit_code), _) => format!("exit {exit_code}"),
                (None, Some(status)) => status.as_str().to_owned(),
                (None, None) => "end unknown".to_owned(),
            };
            vec![format!("ran: {} ({end})", it.command)]
        }
        Some(Tool::Patch(it)) => match it.status {
            Some(Status::Declined) => Vec::new(),
            Some(Status::Completed) => changed("changed", it),
            _ => changed("may have changed", it),
        },
        Some(tool @ (Tool::Mcp(_) | Tool::Dynamic(_))) => vec![format!("called: {}", tool.name())],
        Some(Tool::WebSearch(_)) | None => Vec::new(),
    }
}

/// The possible side effect of a running tool item.
pub(crate) fn open_effect(item: &Item) -> Option<String> {
    match Tool::of(item)? {
        Tool::Command(it) => Some(format!("may have run: {}", it.command)),
        Tool::Patch(it) => {
            Some(changed("may have changed", it).join(", ")).filter(|effect| !effect.is_empty())
        }
        tool @ (Tool::Mcp(_) | Tool::Dynamic(_)) => Some(format!("may have called: {}", tool.name())),
        Tool::WebSearch(_) => None,
    }
}

fn changed(verb: &str, it: &FileChange) -> Vec<String> {
    it.changes
        .iter()
        .map(|change| format!("{verb}: {} ({})", change.path, or_unnamed(change.kind.as_str())))
        .collect()
}

/// JSON text with sorted keys.
pub(crate) fn json_text(value: &Value) -> String {
    sorted(value).to_string()
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(object) => {
            let mut entries: Vec<_> = object.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Value::Object(entries.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(values) => values.iter().map(sorted).collect(),
        plain => plain.clone(),
    }
}

fn cut_json(value: &Value, max_chars: usize, redactor: &Redactor) -> String {
    cut(&json_text(value), max_chars, redactor).into_owned()
}

fn as_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        Value::Null => Value::Object(Map::new()),
        other => json!({"arguments": other}),
    }
}

fn or_unnamed(name: &str) -> &str {
    if name.is_empty() { UNNAMED } else { name }
}
