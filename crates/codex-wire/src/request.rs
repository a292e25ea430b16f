//! The requests of Codex to the client, typed. Their answers are in `answer`.
//!
//! Shapes seen on codex 0.166. Fields that we only pass on stay raw. Requests that Codex makes only of clients that ask for
//! them are unknown here: fresh tokens, attestations and the approvals of its first API.

mod digest;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{ThreadId, TurnId};

/// A request from Codex, by method. It is serialised for its digest alone.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum ServerRequest {
    /// May this command run?
    Command(CommandApproval),
    /// May these files change?
    FileChange(FileChangeApproval),
    /// May the sandbox be widened?
    Permissions(PermissionsApproval),
    /// The model asks a person something.
    UserInput(UserInputRequest),
    /// An MCP server asks a person something, or Codex asks whether an MCP tool may run.
    Elicitation(ElicitationRequest),
    /// A tool that the client offered at `thread/start` is called.
    ToolCall(DynamicToolCall),
    /// Codex wants to know the time. An error here fails the turn.
    CurrentTime,
    /// An unknown method, or unreadable parameters.
    Unknown {
        /// The original method.
        method: String,
        /// The original parameters.
        params: Value,
    },
}

/// `item/commandExecution/requestApproval`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CommandApproval {
    /// Thread that asks; a child thread's id for sub-agents.
    pub thread_id: String,
    /// Turn that asks.
    pub turn_id: String,
    /// The command's item.
    pub item_id: String,
    /// `command`, or `writeStdin` for input to a running one.
    pub kind: Option<String>,
    /// The full command line; absent for network approvals.
    pub command: Option<String>,
    /// Where it would run; absent means the thread's own directory.
    pub cwd: Option<String>,
    /// Why the model wants it.
    pub reason: Option<String>,
    /// What `acceptWithExecpolicyAmendment` would allow permanently.
    pub proposed_execpolicy_amendment: Option<Vec<String>>,
    /// What a managed network asks about, instead of a command.
    pub network_approval_context: Option<Value>,
    /// Sandbox widening that comes with the command.
    pub additional_permissions: Option<Value>,
    /// The decisions that Codex lists. Accept, acceptForSession, decline and cancel work even if they are not listed
    /// (codex 0.166), so this only limits amendments.
    pub available_decisions: Option<Vec<Value>>,
    /// When it began. It differs each time that Codex asks, so it is not in the digest.
    #[serde(skip_serializing)]
    pub started_at_ms: serde::de::IgnoredAny,
    /// Fields that this version does not know. They are in the digest too.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl CommandApproval {
    /// Whether this is about input to a running command. codex 0.166 asks only if the command has left the sandbox, or
    /// runs under other limits than the current ones.
    pub fn is_input(&self) -> bool {
        self.kind.as_deref() == Some("writeStdin")
    }

    /// Whether accepting it allows more than the command itself.
    pub fn widens_the_sandbox(&self) -> bool {
        self.additional_permissions.is_some() || self.network_approval_context.is_some()
    }

    /// The permanent rule that can be made of this command: proposed by Codex and among its decisions.
    pub fn permanent_rule(&self) -> Option<&[String]> {
        let is_listed = self.available_decisions.as_ref().is_none_or(|decisions| {
            decisions.iter().any(|decision| decision.get("acceptWithExecpolicyAmendment").is_some())
        });
        self.proposed_execpolicy_amendment.as_deref().filter(|prefix| is_listed && !prefix.is_empty())
    }
}

/// `item/fileChange/requestApproval`. The change itself came earlier, with the item.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileChangeApproval {
    /// Thread that asks.
    pub thread_id: String,
    /// Turn that asks.
    pub turn_id: String,
    /// The file change item that holds the diff.
    pub item_id: String,
    /// Why.
    pub reason: Option<String>,
    /// A root that would become writable for the rest of the session.
    pub grant_root: Option<String>,
    /// When it began. It differs each time that Codex asks, so it is not in the digest.
    #[serde(skip_serializing)]
    pub started_at_ms: serde::de::IgnoredAny,
    /// Fields that this version does not know. They are in the digest too.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// `item/permissions/requestApproval`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PermissionsApproval {
    /// Thread that asks.
    pub thread_id: String,
    /// Turn that asks.
    pub turn_id: String,
    /// The item that needs them.
    pub item_id: String,
    /// The directory that relative paths refer to.
    pub cwd: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What is asked for.
    pub permissions: Permissions,
    /// When it began. It differs each time that Codex asks, so it is not in the digest.
    #[serde(skip_serializing)]
    pub started_at_ms: serde::de::IgnoredAny,
    /// Fields that this version does not know. They are in the digest too.
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

/// A set of permissions: asked for, or granted as a subset.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Permissions {
    /// Files that may be read or written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file_system: Option<FileSystemPermissions>,
    /// Network access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkPermissions>,
}

/// The file part of [`Permissions`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FileSystemPermissions {
    /// Readable paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<Vec<String>>,
    /// Writable paths.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<Vec<String>>,
    /// The same and more, entry by entry (`{path, access}`), as Codex wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entries: Option<Vec<Value>>,
}

/// The network part of [`Permissions`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPermissions {
    /// Whether the network is open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// `item/tool/requestUserInput`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UserInputRequest {
    /// Thread that asks.
    pub thread_id: String,
    /// Turn that asks.
    pub turn_id: String,
    /// The tool call's item.
    pub item_id: String,
    /// The questions, answered by id.
    pub questions: Vec<Question>,
}

/// One question of a [`UserInputRequest`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Question {
    /// The key of its answer.
    pub id: String,
    /// A short heading.
    pub header: String,
    /// The question.
    pub question: String,
    /// Whether a free answer is allowed beside the options.
    pub is_other: bool,
    /// Whether the answer is a secret: never stored, never shown.
    pub is_secret: bool,
    /// The choices, if any.
    pub options: Option<Vec<QuestionOption>>,
}

/// One choice of a [`Question`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QuestionOption {
    /// What is answered.
    pub label: String,
    /// What it means.
    pub description: String,
}

/// `mcpServer/elicitation/request`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ElicitationRequest {
    /// Thread that asks.
    pub thread_id: String,
    /// Turn that asks, if one runs.
    pub turn_id: Option<String>,
    /// The MCP server behind it.
    pub server_name: String,
    /// `form` or `url`.
    pub mode: String,
    /// What the server says.
    pub message: String,
    /// The form, as JSON schema.
    pub requested_schema: Option<Value>,
    /// The page to open, in url mode.
    pub url: Option<String>,
    /// Codex's own notes, such as that this is the approval of a tool call.
    #[serde(rename = "_meta")]
    pub meta: Option<Value>,
}

impl ElicitationRequest {
    /// Whether this is Codex asking if an MCP tool may run, rather than the server asking for input.
    pub fn is_tool_approval(&self) -> bool {
        let kind = self.meta.as_ref().and_then(|meta| meta.get("codex_approval_kind"));
        kind.and_then(Value::as_str) == Some("mcp_tool_call")
    }
}

/// `item/tool/call`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DynamicToolCall {
    /// Thread that calls.
    pub thread_id: String,
    /// Turn that calls.
    pub turn_id: String,
    /// The call, also the item's id.
    pub call_id: String,
    /// The tool's namespace, if it has one.
    pub namespace: Option<String>,
    /// The tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
}

/// The methods of [`ServerRequest`], as they stand on the wire.
pub mod method {
    /// [`super::CommandApproval`]
    pub const COMMAND: &str = "item/commandExecution/requestApproval";
    /// [`super::FileChangeApproval`]
    pub const FILE_CHANGE: &str = "item/fileChange/requestApproval";
    /// [`super::PermissionsApproval`]
    pub const PERMISSIONS: &str = "item/permissions/requestApproval";
    /// [`super::UserInputRequest`]
    pub const USER_INPUT: &str = "item/tool/requestUserInput";
    /// [`super::ElicitationRequest`]
    pub const ELICITATION: &str = "mcpServer/elicitation/request";
    /// [`super::DynamicToolCall`]
    pub const TOOL_CALL: &str = "item/tool/call";
    /// [`super::ServerRequest::CurrentTime`]
    pub const CURRENT_TIME: &str = "currentTime/read";
}

impl ServerRequest {
    /// Reads a request. Never fails: an unreadable request is [`ServerRequest::Unknown`], which is refused.
    pub fn parse(method: &str, params: Value) -> Self {
        fn typed<T: serde::de::DeserializeOwned>(params: &Value) -> Option<T> {
            T::deserialize(params).ok()
        }
        let request = match method {
            method::COMMAND => typed(&params).map(Self::Command),
            method::FILE_CHANGE => typed(&params).map(Self::FileChange),
            method::PERMISSIONS => typed(&params).map(Self::Permissions),
            method::USER_INPUT => typed(&params).map(Self::UserInput),
            method::ELICITATION => typed(&params).map(Self::Elicitation),
            method::TOOL_CALL => typed(&params).map(Self::ToolCall),
            method::CURRENT_TIME => Some(Self::CurrentTime),
            _ => None,
        };
        request.unwrap_or_else(|| Self::Unknown { method: method.to_owned(), params })
    }

    /// The method.
    pub fn method(&self) -> &str {
        match self {
            Self::Command(_) => method::COMMAND,
            Self::FileChange(_) => method::FILE_CHANGE,
            Self::Permissions(_) => method::PERMISSIONS,
            Self::UserInput(_) => method::USER_INPUT,
            Self::Elicitation(_) => method::ELICITATION,
            Self::ToolCall(_) => method::TOOL_CALL,
            Self::CurrentTime => method::CURRENT_TIME,
            Self::Unknown { method, .. } => method,
        }
    }

    /// The thread that asks, if the method names it.
    pub fn thread_id(&self) -> Option<ThreadId> {
        let id = match self {
            Self::Command(it) => &it.thread_id,
            Self::FileChange(it) => &it.thread_id,
            Self::Permissions(it) => &it.thread_id,
            Self::UserInput(it) => &it.thread_id,
            Self::Elicitation(it) => &it.thread_id,
            Self::ToolCall(it) => &it.thread_id,
            Self::CurrentTime | Self::Unknown { .. } => return None,
        };
        (!id.is_empty()).then(|| ThreadId(id.clone()))
    }

    /// The turn that asks, if the method names it.
    pub fn turn_id(&self) -> Option<TurnId> {
        let id = match self {
            Self::Command(it) => &it.turn_id,
            Self::FileChange(it) => &it.turn_id,
            Self::Permissions(it) => &it.turn_id,
            Self::UserInput(it) => &it.turn_id,
            Self::Elicitation(it) => it.turn_id.as_ref()?,
            Self::ToolCall(it) => &it.turn_id,
            Self::CurrentTime | Self::Unknown { .. } => return None,
        };
        (!id.is_empty()).then(|| TurnId(id.clone()))
    }

    /// Whether a person should decide. The program answers the other requests at once.
    pub fn is_for_a_person(&self) -> bool {
        match self {
            Self::Command(_)
            | Self::FileChange(_)
            | Self::Permissions(_)
            | Self::UserInput(_)
            | Self::Elicitation(_) => true,
            Self::ToolCall(_) | Self::CurrentTime | Self::Unknown { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests;
