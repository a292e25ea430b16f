//! The calls that we make, typed: what is sent and what comes back.
//!
//! `params` is always an object: codex 0.166 refuses a call without one.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::id::{ThreadId, TurnId};
use crate::thread::{ActivePermissionProfile, Thread, Turn};

/// A method of the app-server.
pub trait Call: Serialize {
    /// The method's name on the wire.
    const METHOD: &'static str;
    /// The reply.
    type Reply: DeserializeOwned;
}

macro_rules! call {
    ($type:ident, $method:literal, $reply:ty) => {
        impl Call for $type {
            const METHOD: &'static str = $method;
            type Reply = $reply;
        }
    };
}

/// Every method that we call, for the contract with the installed Codex.
pub const METHODS: &[&str] = &[
    Initialize::METHOD,
    ThreadStart::METHOD,
    ThreadResume::METHOD,
    ThreadFork::METHOD,
    ThreadUnsubscribe::METHOD,
    ThreadTurnsList::METHOD,
    ThreadLoadedList::METHOD,
    ThreadRead::METHOD,
    CompactStart::METHOD,
    CleanBackgroundTerminals::METHOD,
    CommandExec::METHOD,
    TurnStart::METHOD,
    TurnSteer::METHOD,
    TurnInterrupt::METHOD,
];

/// `initialize`, exactly once per connection.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Initialize {
    /// The client's name and version.
    pub client_info: ClientInfo,
    /// The client's capabilities.
    pub capabilities: Capabilities,
}
call!(Initialize, "initialize", Initialized);

/// The client's name and version.
#[derive(Debug, Clone, Serialize)]
pub struct ClientInfo {
    /// Must be a valid HTTP header value.
    pub name: String,
    /// For people.
    pub title: String,
    /// The program's version.
    pub version: String,
}

/// What the client can do.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Capabilities {
    /// Needed for `availableDecisions`, dynamic tools and `thread/backgroundTerminals/clean`.
    pub experimental_api: bool,
    /// Notifications that Codex should not send.
    pub opt_out_notification_methods: Vec<String>,
}

/// The server's description of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Initialized {
    /// `client/0.166.0 (…)`: the only place with the version.
    pub user_agent: String,
    /// The server's CODEX_HOME.
    pub codex_home: Option<String>,
}

/// Settings of `thread/start`, `thread/resume` and `thread/fork`. With `None`, Codex's own config decides.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadSettings {
    /// The working directory; Codex does not check that it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `danger-full-access`. Every other sandbox is a permission profile; Codex refuses both together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The name of a permission profile of `config`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// The directories that count as the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_workspace_roots: Option<Vec<String>>,
    /// `untrusted`, `on-request`, `never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<String>,
    /// `user` or `auto_review`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<String>,
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Instructions above the user's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
    /// Overrides of config.toml.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<Map<String, Value>>,
}

/// `thread/start`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadStart {
    /// The settings.
    #[serde(flatten)]
    pub settings: ThreadSettings,
    /// Tools that the client offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic_tools: Option<Vec<Value>>,
}
call!(ThreadStart, "thread/start", ThreadOpened);

/// `thread/resume`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadResume {
    /// Which.
    pub thread_id: ThreadId,
    /// Leaves the history out of the reply. Turns are listed by `thread/turns/list`.
    pub exclude_turns: bool,
    /// Asks for the newest turns in the reply. Only here do they contain items that have not ended: `thread/turns/list`
    /// leaves them out (codex 0.166).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_turns_page: Option<InitialTurnsPage>,
    /// The settings.
    #[serde(flatten)]
    pub settings: ThreadSettings,
}
call!(ThreadResume, "thread/resume", ThreadOpened);

/// How much of the newest turns comes with a resumed thread.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InitialTurnsPage {
    /// How many turns at most.
    pub limit: u32,
    /// `summary` or `full`: how much of the items.
    pub items_view: &'static str,
}

/// `thread/fork`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadFork {
    /// Which thread to branch from.
    pub thread_id: ThreadId,
    /// The last turn to keep.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_turn_id: Option<TurnId>,
    /// As for resume.
    pub exclude_turns: bool,
    /// The settings.
    #[serde(flatten)]
    pub settings: ThreadSettings,
}
call!(ThreadFork, "thread/fork", ThreadOpened);

/// A thread that was started, resumed or forked, with the settings in effect.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ThreadOpened {
    /// The thread.
    pub thread: Thread,
    /// The key of the id on some servers.
    pub session_id: Option<String>,
    /// The key of the id on other servers.
    pub thread_id: Option<String>,
    /// The directory in effect.
    pub cwd: Option<String>,
    /// The sandbox in effect, `{"type": "readOnly", …}`.
    pub sandbox: Option<Value>,
    /// The approval policy in effect: a string, or an object for granular ones.
    pub approval_policy: Option<Value>,
    /// The reviewer in effect.
    pub approvals_reviewer: Option<String>,
    /// The permission profile in effect; `None` with a plain sandbox.
    pub active_permission_profile: Option<ActivePermissionProfile>,
    /// The directories that count as the workspace.
    pub runtime_workspace_roots: Option<Vec<String>>,
    /// The files that instructions were read from.
    pub instruction_sources: Vec<String>,
    /// The model in effect.
    pub model: Option<String>,
    /// The newest turns, if a resume asked for them.
    pub initial_turns_page: Option<Page<Turn>>,
}

impl ThreadOpened {
    /// The thread's id, under any of its known keys.
    pub fn id(&self) -> Option<ThreadId> {
        let outside = || self.session_id.as_ref().or(self.thread_id.as_ref()).filter(|id| !id.is_empty());
        self.thread.any_id().or_else(|| outside().map(|id| ThreadId(id.clone())))
    }

    /// Whether a turn runs on it already.
    pub fn is_active(&self) -> bool {
        self.thread.status.kind == "active"
    }
}

/// `thread/unsubscribe`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnsubscribe {
    /// Which.
    pub thread_id: ThreadId,
}
call!(ThreadUnsubscribe, "thread/unsubscribe", Value);

/// `thread/archive`. codex 0.166 unloads the thread at once, so that other programs can open it.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadArchive {
    /// Which.
    pub thread_id: ThreadId,
}
call!(ThreadArchive, "thread/archive", Value);

/// `thread/unarchive`: undoes `thread/archive`, without loading the thread.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadUnarchive {
    /// Which.
    pub thread_id: ThreadId,
}
call!(ThreadUnarchive, "thread/unarchive", Value);

/// `thread/turns/list`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadTurnsList {
    /// The thread.
    pub thread_id: ThreadId,
    /// How many at most.
    pub limit: u32,
    /// `desc`: the newest first.
    pub sort_direction: &'static str,
    /// `summary` or `full`: how much of the items.
    pub items_view: &'static str,
}
call!(ThreadTurnsList, "thread/turns/list", Page<Turn>);

/// A page of a list.
#[derive(Debug, Clone, Deserialize)]
pub struct Page<T> {
    /// The entries.
    pub data: Vec<T>,
}

/// `thread/loaded/list`: the threads that a server holds in memory.
#[derive(Debug, Clone, Serialize)]
pub struct ThreadLoadedList {}
call!(ThreadLoadedList, "thread/loaded/list", Page<ThreadId>);

/// `thread/read`, for a thread's status and the path of its rollout. Works for the threads of sub-agents too.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadRead {
    /// Which.
    pub thread_id: ThreadId,
    /// Whether the reply contains the turns.
    pub include_turns: bool,
}
call!(ThreadRead, "thread/read", ThreadOpened);

/// `thread/compact/start`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CompactStart {
    /// Which.
    pub thread_id: ThreadId,
}
call!(CompactStart, "thread/compact/start", Value);

/// `thread/backgroundTerminals/clean`: ends commands that still run after an interrupt.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CleanBackgroundTerminals {
    /// The thread.
    pub thread_id: ThreadId,
}
call!(CleanBackgroundTerminals, "thread/backgroundTerminals/clean", Value);

/// `command/exec`: runs a command of the client, under a permission profile of the server's configuration.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandExec {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Where it runs.
    pub cwd: String,
    /// The name of the profile.
    pub permission_profile: String,
    /// How long it may take.
    pub timeout_ms: u64,
}
call!(CommandExec, "command/exec", CommandExecuted);

/// How the command ended.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandExecuted {
    /// Its exit code.
    pub exit_code: i32,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

/// `turn/start`. While a turn runs, Codex treats this as a *steer*: the caller must know that no turn runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnStart {
    /// On which thread.
    pub thread_id: String,
    /// The prompt.
    pub input: Vec<UserInput>,
    /// The client's id of the prompt, which comes back as `clientId`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<String>,
    /// As in [`ThreadSettings`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// As in [`ThreadSettings`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<String>,
    /// As in [`ThreadSettings`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_reviewer: Option<String>,
    /// As in [`ThreadSettings`]. A sandbox by itself would replace the profile (codex 0.166).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// The model, from this turn on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reasoning effort, from this turn on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// A JSON schema for the final message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
}
call!(TurnStart, "turn/start", TurnStarted);

/// The turn that began.
#[derive(Debug, Clone, Deserialize)]
pub struct TurnStarted {
    /// The turn.
    pub turn: Turn,
}

/// A piece of a prompt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum UserInput {
    /// Text. At most 1,048,576 characters in all (codex 0.166).
    Text {
        /// The text.
        text: String,
    },
    /// An image by URL: `data:` or `http(s):`.
    Image {
        /// The address.
        url: String,
    },
    /// An image file.
    LocalImage {
        /// The file.
        path: String,
    },
}

impl UserInput {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }
}

/// `turn/steer`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnSteer {
    /// The thread.
    pub thread_id: ThreadId,
    /// What to add.
    pub input: Vec<UserInput>,
    /// The client's id of it, which comes back as `clientId`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_user_message_id: Option<String>,
    /// The turn that must be running.
    pub expected_turn_id: TurnId,
}
call!(TurnSteer, "turn/steer", Steered);

/// Which turn took the steer.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Steered {
    /// Absent on older servers.
    pub turn_id: Option<TurnId>,
}

/// `turn/interrupt`. An empty turn id means the running turn; before `turn/started` only that works (codex 0.166).
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnInterrupt {
    /// The thread.
    pub thread_id: ThreadId,
    /// Which turn, or "".
    pub turn_id: String,
}
call!(TurnInterrupt, "turn/interrupt", Value);

#[cfg(test)]
mod tests;
