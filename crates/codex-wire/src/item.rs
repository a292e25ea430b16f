//! The things a turn is made of: messages, commands, file changes, tool calls, typed.
//!
//! Reading never fails. An item that this version does not know or cannot read is [`Item::Other`] with its original
//! JSON. What an item means for a turn or a person is not known here.

mod change;
mod open_enum;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

pub use change::{Change, ChangeKind};
use open_enum::open_enum;

use crate::id::ThreadId;

/// One item of a thread.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum Item {
    /// A message of the model.
    AgentMessage(AgentMessage),
    /// Reasoning of the model.
    Reasoning(Reasoning),
    /// A command.
    CommandExecution(CommandExecution),
    /// A change of files.
    FileChange(FileChange),
    /// A call of an MCP server's tool.
    McpToolCall(McpToolCall),
    /// A call of a tool that the client offered.
    DynamicToolCall(DynamicToolCall),
    /// A message to the model, from a person or a program.
    UserMessage(UserMessage),
    /// A web search of the provider.
    WebSearch(WebSearch),
    /// A proposed plan.
    Plan(Plan),
    /// The thread's history was shortened.
    ContextCompaction(ContextCompaction),
    /// An item type that we do not know, or fields that we cannot read.
    #[serde(untagged)]
    Other(OtherItem),
}

/// What the model says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AgentMessage {
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The whole text.
    #[serde(deserialize_with = "null_as_default")]
    pub text: String,
    /// What kind of text it is. Providers do not always say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
}

/// What the model thinks, as far as the provider shows it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reasoning {
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Parts of the summary.
    #[serde(deserialize_with = "null_as_default")]
    pub summary: Vec<String>,
    /// Parts of the raw reasoning.
    #[serde(deserialize_with = "null_as_default")]
    pub content: Vec<String>,
}

/// A command and, when it is done, what came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandExecution {
    /// The item: the model's call id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The command line, with the shell around it.
    #[serde(deserialize_with = "null_as_default")]
    pub command: String,
    /// Where it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Standard output and error together. codex 0.166 cuts it at 1 MiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregated_output: Option<String>,
    /// The exit code, once it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    /// How long it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// A patch and, when it is done, whether it was applied.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileChange {
    /// The item: the model's call id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The files.
    #[serde(deserialize_with = "null_as_default")]
    pub changes: Vec<Change>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}

/// A call of an MCP server's tool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct McpToolCall {
    /// The item: the model's call id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The server.
    #[serde(deserialize_with = "null_as_default")]
    pub server: String,
    /// Its tool.
    #[serde(deserialize_with = "null_as_default")]
    pub tool: String,
    /// What it is called with.
    pub arguments: Value,
    /// What it gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed: `{message}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Value>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// A call of a tool that the client offered.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DynamicToolCall {
    /// The item: the model's call id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The tool's namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The tool.
    #[serde(deserialize_with = "null_as_default")]
    pub tool: String,
    /// What it is called with.
    pub arguments: Value,
    /// What it gave, part by part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_items: Option<Vec<Value>>,
    /// Whether it worked, once known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success: Option<bool>,
    /// How far it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// How long it took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration_ms: Option<i64>,
}

/// What was said to the model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserMessage {
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The `clientUserMessageId` of the `turn/start` or `turn/steer` that it came with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<String>,
    /// Text, images and the like, as Codex wrote them.
    #[serde(deserialize_with = "null_as_default")]
    pub content: Vec<Value>,
}

/// A search of the web by the provider.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebSearch {
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// What was looked for; empty until it is known.
    #[serde(deserialize_with = "null_as_default")]
    pub query: String,
    /// Search, open page, find in page …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Value>,
    /// What was found, where the provider shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results: Option<Vec<Value>>,
}

/// A proposed plan.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Plan {
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The plan.
    #[serde(deserialize_with = "null_as_default")]
    pub text: String,
}

/// The mark of a compaction.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContextCompaction {
    /// The item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// An item that is passed on uninterpreted.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherItem {
    /// The item, if it said so.
    pub id: Option<String>,
    /// Its type as it came; empty when it had none.
    pub type_name: String,
    /// All of it, as it came.
    pub raw: Value,
}

/// The type of items that deal with sub-agents.
pub(crate) const SUB_AGENT_CALL: &str = "collabAgentToolCall";

open_enum! {
    /// What kind of text an agent message is.
    pub enum Phase {
        /// A message on the way; more follows.
        Commentary = "commentary",
        /// The answer of the turn.
        FinalAnswer = "final_answer",
    }
}

open_enum! {
    /// How far a command, a file change or a tool call is.
    pub enum Status {
        /// It runs, or waits for a decision.
        InProgress = "inProgress",
        /// It worked.
        Completed = "completed",
        /// It did not work.
        Failed = "failed",
        /// It was not allowed.
        Declined = "declined",
    }
}

impl Item {
    /// Reads an item. Never fails: see [`Item::Other`].
    ///
    /// ```
    /// use codex_wire::item::{Item, Phase};
    /// use serde_json::json;
    ///
    /// let item = Item::from_value(json!({"type": "agentMessage", "id": "m1", "text": "hi", "phase": "final_answer"}));
    /// let Item::AgentMessage(message) = item else { panic!("an agent message") };
    /// assert_eq!(message.phase, Some(Phase::FinalAnswer));
    ///
    /// let item = Item::from_value(json!({"type": "hologram", "id": "h1"}));
    /// assert_eq!((item.type_name(), item.id()), ("hologram", Some("h1")));
    /// ```
    pub fn from_value(raw: Value) -> Self {
        fn typed<T: DeserializeOwned>(raw: &Value) -> Option<T> {
            T::deserialize(raw).ok()
        }
        let type_name = raw.get("type").and_then(Value::as_str).unwrap_or_default();
        let item = match type_name {
            "agentMessage" => typed(&raw).map(Self::AgentMessage),
            "reasoning" => typed(&raw).map(Self::Reasoning),
            "commandExecution" => typed(&raw).map(Self::CommandExecution),
            "fileChange" => typed(&raw).map(Self::FileChange),
            "mcpToolCall" => typed(&raw).map(Self::McpToolCall),
            "dynamicToolCall" => typed(&raw).map(Self::DynamicToolCall),
            "userMessage" => typed(&raw).map(Self::UserMessage),
            "webSearch" => typed(&raw).map(Self::WebSearch),
            "plan" => typed(&raw).map(Self::Plan),
            "contextCompaction" => typed(&raw).map(Self::ContextCompaction),
            _ => None,
        };
        if let Some(item) = item {
            return item;
        }
        let id = raw.get("id").and_then(Value::as_str).map(str::to_owned);
        Self::Other(OtherItem { id, type_name: type_name.to_owned(), raw })
    }

    /// The item's id, unless it is empty.
    pub fn id(&self) -> Option<&str> {
        let id = match self {
            Self::AgentMessage(it) => &it.id,
            Self::Reasoning(it) => &it.id,
            Self::CommandExecution(it) => &it.id,
            Self::FileChange(it) => &it.id,
            Self::McpToolCall(it) => &it.id,
            Self::DynamicToolCall(it) => &it.id,
            Self::UserMessage(it) => &it.id,
            Self::WebSearch(it) => &it.id,
            Self::Plan(it) => &it.id,
            Self::ContextCompaction(it) => &it.id,
            Self::Other(it) => &it.id,
        };
        id.as_deref().filter(|id| !id.is_empty())
    }

    /// The threads of sub-agents that this item has started. codex 0.166 reports them nowhere else.
    pub fn started_agents(&self) -> Vec<ThreadId> {
        let Self::Other(OtherItem { type_name, raw, .. }) = self else { return Vec::new() };
        if type_name != SUB_AGENT_CALL || raw["tool"] != "spawnAgent" {
            return Vec::new();
        }
        let threads = raw["receiverThreadIds"].as_array().map(Vec::as_slice).unwrap_or_default();
        threads.iter().filter_map(Value::as_str).map(ThreadId::from).collect()
    }

    /// Whether it is still being worked on, for the items that say so.
    pub fn is_in_progress(&self) -> Option<bool> {
        let status = match self {
            Self::CommandExecution(it) => it.status.as_ref(),
            Self::FileChange(it) => it.status.as_ref(),
            Self::McpToolCall(it) => it.status.as_ref(),
            Self::DynamicToolCall(it) => it.status.as_ref(),
            _ => None,
        };
        status.map(|status| *status == Status::InProgress)
    }

    /// The type as it stands on the wire; empty when the item had none.
    pub fn type_name(&self) -> &str {
        match self {
            Self::AgentMessage(_) => "agentMessage",
            Self::Reasoning(_) => "reasoning",
            Self::CommandExecution(_) => "commandExecution",
            Self::FileChange(_) => "fileChange",
            Self::McpToolCall(_) => "mcpToolCall",
            Self::DynamicToolCall(_) => "dynamicToolCall",
            Self::UserMessage(_) => "userMessage",
            Self::WebSearch(_) => "webSearch",
            Self::Plan(_) => "plan",
            Self::ContextCompaction(_) => "contextCompaction",
            Self::Other(it) => &it.type_name,
        }
    }
}

impl UserMessage {
    /// The text parts, joined by line breaks. Images and the rest are left out.
    pub fn text(&self) -> String {
        let parts =
            self.content.iter().filter(|part| part.get("type").and_then(Value::as_str) == Some("text"));
        let texts: Vec<&str> = parts.filter_map(|part| part.get("text")?.as_str()).collect();
        texts.join("\n")
    }
}

impl Serialize for OtherItem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from_value)
    }
}

/// Reads `null` as the default: Codex writes `null` for values that it does not know yet.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
