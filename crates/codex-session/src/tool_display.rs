//! The live view of a running turn: tool calls that begin and end, text as it is written, finished messages.
//!
//! Pure: the caller passes the time. Call ids are those of [`crate::projection`], so that the live view and the stored
//! history match. Nothing is redacted here, except before a text is cut.

use std::collections::HashSet;

use codex_wire::event::{DeltaKind, Event};
use codex_wire::item::{AgentMessage, Item, Phase, Reasoning};
use redact::Redactor;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::projection::call_id::CallIds;
use crate::projection::cut::cut;
use crate::projection::tool::{self, Tool, json_text};

/// Longest preview of a tool call.
const MAX_PREVIEW_CHARS: usize = 120;
/// How many paths the preview of a patch names.
const MAX_PREVIEW_PATHS: usize = 3;
/// Replaces a missing item type.
const UNTYPED: &str = "unknown";

/// The options of the view.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Our own MCP servers: their tools are shown without a prefix.
    pub own_servers: Vec<String>,
    /// Hides secrets in texts that have to be cut. Other texts stay unchanged.
    pub redactor: Redactor,
}

/// One thing to show.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "show", rename_all = "snake_case")]
pub enum Display {
    /// A tool call began.
    ToolStarted(ToolStarted),
    /// A tool call ended; its start was shown before.
    ToolCompleted(ToolCompleted),
    /// A piece of the message that is being written.
    Text {
        /// The piece.
        delta: String,
    },
    /// A piece of the reasoning that is being written.
    Reasoning {
        /// The piece.
        delta: String,
    },
    /// A summary of the reasoning is complete.
    Thought {
        /// The item, as Codex names it.
        #[serde(skip_serializing_if = "Option::is_none")]
        item_id: Option<String>,
        /// All of it.
        text: String,
    },
    /// A message is complete. The turn goes on, unless it was the answer.
    Message {
        /// The item, as Codex names it.
        #[serde(skip_serializing_if = "Option::is_none")]
        item_id: Option<String>,
        /// All of it.
        text: String,
        /// What kind of text it is, if the model said so.
        #[serde(skip_serializing_if = "Option::is_none")]
        phase: Option<Phase>,
    },
}

/// A tool call that began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolStarted {
    /// The call, as in the projected messages.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// The call in at most 120 characters, unless that is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    /// Its arguments: an object.
    #[serde(default)]
    pub args: Value,
}

/// What a tool call does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action<'c> {
    /// It runs this command.
    Command(&'c str),
    /// It changes these files.
    Changes(Vec<ChangedFile<'c>>),
    /// It calls another tool.
    Tool,
}

/// A file that a call changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangedFile<'c> {
    /// `add`, `update` or `delete`.
    pub kind: &'c str,
    /// The path.
    pub path: &'c str,
}

impl ToolStarted {
    /// What the call does, from its name and arguments.
    pub fn action(&self) -> Action<'_> {
        match self.name.as_str() {
            tool::COMMAND => self.args["command"].as_str().map_or(Action::Tool, Action::Command),
            tool::PATCH => {
                let changes = self.args["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
                Action::Changes(
                    changes
                        .iter()
                        .map(|change| ChangedFile {
                            kind: change["kind"].as_str().unwrap_or_default(),
                            path: change["path"].as_str().unwrap_or_default(),
                        })
                        .collect(),
                )
            }
            _ => Action::Tool,
        }
    }
}

/// A tool call that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCompleted {
    /// The call, as in the projected messages.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// How long it took, as reported by Codex or else as measured; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<u64>,
    /// Whether it failed or was declined.
    #[serde(default)]
    pub is_error: bool,
    /// The result.
    #[serde(default)]
    pub result: String,
}

impl ToolCompleted {
    /// Whether the call changed files.
    pub fn is_change(&self) -> bool {
        self.name == tool::PATCH
    }

    /// How a failed call ended, such as `exit 1`; `None` if it succeeded.
    pub fn failure(&self) -> Option<&str> {
        self.is_error.then(|| tool::mark(&self.result).map_or("failed", |(mark, _)| mark))
    }

    /// The result without the mark of a failure.
    pub fn output(&self) -> &str {
        let marked = tool::mark(&self.result).filter(|_| self.is_error);
        marked.map_or(self.result.as_str(), |(_, output)| output)
    }
}

/// The live view of one turn.
#[derive(Debug)]
pub struct ToolDisplay {
    options: Options,
    started_ids: CallIds,
    completed_ids: CallIds,
    /// Calls that were shown as started and not yet as ended, in order.
    open: Vec<OpenCall>,
    /// Ended calls and messages that were shown: Codex may report them again.
    done: HashSet<String>,
}

#[derive(Debug)]
struct OpenCall {
    call_id: String,
    name: String,
    preview: Option<String>,
    started_ms: u64,
}

impl ToolDisplay {
    /// A view of one turn, with the same `turn_seed` as its [`crate::projection::Projector`]. The turn's id replaces
    /// the seed once it is known.
    pub fn new(turn_seed: impl Into<String>, options: Options) -> Self {
        let turn_seed = turn_seed.into();
        Self {
            options,
            started_ids: CallIds::new(turn_seed.clone()),
            completed_ids: CallIds::new(turn_seed),
            open: Vec::new(),
            done: HashSet::new(),
        }
    }

    /// What to show for an event: nothing, one thing, or the start and the end of a call whose start was missed.
    /// `now_ms` is on any monotonic clock.
    pub fn observe(&mut self, event: &Event, now_ms: u64) -> Vec<Display> {
        match event {
            Event::ItemStarted(item) => {
                self.started(item, now_ms).into_iter().map(Display::ToolStarted).collect()
            }
            Event::ItemCompleted(Item::AgentMessage(message)) => self.message(message).into_iter().collect(),
            Event::ItemCompleted(Item::Reasoning(reasoning)) => self.thought(reasoning).into_iter().collect(),
            Event::ItemCompleted(item) => self.completed(item, now_ms),
            Event::Delta(delta) => match delta.kind {
                DeltaKind::Message => vec![Display::Text { delta: delta.text.clone() }],
                DeltaKind::Reasoning => vec![Display::Reasoning { delta: delta.text.clone() }],
                DeltaKind::Output => Vec::new(),
            },
            Event::TurnStarted(turn) => {
                self.started_ids.name_turn(turn.id.as_str());
                self.completed_ids.name_turn(turn.id.as_str());
                Vec::new()
            }
            _ => Vec::new(),
        }
    }

    /// The preview of a running call; `None` if it did not begin in this turn. Not redacted, unless it was cut.
    pub fn announced(&self, call_id: &str) -> Option<&str> {
        self.open.iter().find(|call| call.call_id == call_id)?.preview.as_deref()
    }

    /// Ends the calls that still run at the end of the turn. codex 0.166 sends no `item/completed` for them after an
    /// interrupt.
    pub fn close(&mut self, now_ms: u64) -> Vec<Display> {
        let open = std::mem::take(&mut self.open);
        let end = |call: OpenCall| {
            self.done.insert(call.call_id.clone());
            Display::ToolCompleted(ToolCompleted {
                duration_ms: Some(now_ms.saturating_sub(call.started_ms)),
                call_id: call.call_id,
                name: call.name,
                is_error: true,
                result: tool::UNFINISHED.to_owned(),
            })
        };
        open.into_iter().map(end).collect()
    }

    fn started(&mut self, item: &Item, now_ms: u64) -> Option<ToolStarted> {
        let tool = Tool::of(item)?;
        let call_id = self.started_ids.call_id(item)?;
        if self.done.contains(&call_id) || self.open.iter().any(|call| call.call_id == call_id) {
            return None;
        }
        let started = self.announce(call_id, item, tool);
        let (call_id, name) = (started.call_id.clone(), started.name.clone());
        let preview = started.preview.clone();
        self.open.push(OpenCall { call_id, name, preview, started_ms: now_ms });
        Some(started)
    }

    fn announce(&self, call_id: String, item: &Item, tool: Tool<'_>) -> ToolStarted {
        let name = tool_name(item, &self.options.own_servers);
        ToolStarted { call_id, name, preview: preview(tool, &self.options.redactor), args: tool.args() }
    }

    fn completed(&mut self, item: &Item, now_ms: u64) -> Vec<Display> {
        let (Some(tool), Some(call_id)) = (Tool::of(item), self.completed_ids.call_id(item)) else {
            return Vec::new();
        };
        if !self.done.insert(call_id.clone()) {
            return Vec::new();
        }
        let mut shown = Vec::new();
        let mut duration_ms = tool.duration_ms();
        if let Some(position) = self.open.iter().position(|call| call.call_id == call_id) {
            let call = self.open.remove(position);
            duration_ms = duration_ms.or(Some(now_ms.saturating_sub(call.started_ms)));
        } else {
            shown.push(Display::ToolStarted(self.announce(call_id.clone(), item, tool)));
        }
        let name = tool_name(item, &self.options.own_servers);
        let outcome = tool.outcome(&self.options.redactor);
        let (is_error, result) = (outcome.is_error, outcome.result);
        shown.push(Display::ToolCompleted(ToolCompleted { call_id, name, duration_ms, is_error, result }));
        shown
    }

    fn message(&mut self, message: &AgentMessage) -> Option<Display> {
        if message.text.trim().is_empty() {
            return None;
        }
        let is_new = message.id.as_ref().is_none_or(|id| self.done.insert(format!("message {id}")));
        is_new.then(|| Display::Message {
            item_id: message.id.clone(),
            text: message.text.clone(),
            phase: message.phase.clone(),
        })
    }

    /// Shows the summary only, not the raw reasoning.
    fn thought(&mut self, reasoning: &Reasoning) -> Option<Display> {
        let text = reasoning.summary.join("\n\n");
        let is_new = reasoning.id.as_ref().is_none_or(|id| self.done.insert(format!("thought {id}")));
        let is_shown = is_new && !text.trim().is_empty();
        is_shown.then(|| Display::Thought { item_id: reasoning.id.clone(), text })
    }
}

/// The name of an item for people: the tool's name, or the item's type.
pub fn tool_name(item: &Item, own_servers: &[String]) -> String {
    match (item, Tool::of(item)) {
        (Item::McpToolCall(call), _) if own_servers.contains(&call.server) && !call.tool.is_empty() => {
            call.tool.clone()
        }
        (_, Some(tool)) => tool.name(),
        (item, None) if item.type_name().is_empty() => UNTYPED.to_owned(),
        (item, None) => item.type_name().to_owned(),
    }
}

fn preview(tool: Tool<'_>, redactor: &Redactor) -> Option<String> {
    let text = match tool {
        Tool::Command(it) => it.command.clone(),
        Tool::Patch(it) => {
            let paths: Vec<&str> =
                it.changes.iter().map(|it| it.path.as_str()).filter(|it| !it.is_empty()).collect();
            let named = paths.iter().take(MAX_PREVIEW_PATHS).copied().collect::<Vec<_>>().join(", ");
            match paths.len().saturating_sub(MAX_PREVIEW_PATHS) {
                0 => named,
                more => format!("{named}, +{more} more"),
            }
        }
        Tool::Mcp(_) | Tool::Dynamic(_) => match tool.args() {
            Value::Object(args) if args.is_empty() => String::new(),
            args => json_text(&args),
        },
        Tool::WebSearch(it) => it.query.clone(),
    };
    (!text.trim().is_empty()).then(|| cut(&text, MAX_PREVIEW_CHARS, redactor).into_owned())
}

#[cfg(test)]
mod tests;
