//! Notifications from Codex, typed where we act on them. What we do not know stays [`Event::Other`], with its
//! line untouched beside it.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::id::RequestId;
use crate::item::Item;
use crate::thread::{RateLimits, Thread, ThreadLimits, ThreadStatus, TokenUsage, Turn, TurnError};

/// What happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A thread began, ours or a sub-agent's.
    ThreadStarted(Thread),
    /// A thread works, waits or failed.
    ThreadStatus(ThreadStatus),
    /// The settings of a thread changed.
    ThreadSettings(Box<ThreadLimits>),
    /// An MCP server is being started, or was.
    McpServer {
        /// Its name.
        name: String,
    },
    /// A turn became active. Interrupts are refused before this (codex 0.166).
    TurnStarted(Turn),
    /// A turn ended. Only this proves the end of a turn.
    TurnCompleted(Turn),
    /// An item began.
    ItemStarted(Item),
    /// An item is whole.
    ItemCompleted(Item),
    /// A piece of an item that is being written.
    Delta(Delta),
    /// Text was typed into a running command. The text is empty if the model only read the output. codex 0.166 does not
    /// ask before it types into a command in the sandbox.
    TerminalInput {
        /// The command's item.
        item_id: String,
        /// What was typed.
        text: String,
    },
    /// Tokens were counted.
    TokenUsage(TokenUsage),
    /// The diff of the turn so far.
    DiffUpdated(String),
    /// A request was answered, or cleared by the end of its turn.
    RequestResolved(RequestId),
    /// The model or its connection failed.
    Error {
        /// The error.
        error: TurnError,
        /// Whether Codex tries again by itself.
        will_retry: bool,
    },
    /// Something that the user should know.
    Warning(String),
    /// The account's limits.
    RateLimits(RateLimits),
    /// `thread/compacted`, deprecated: history was summarised.
    Compacted,
    /// Anything else.
    Other,
}

/// A piece of text of an item that is being written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The item.
    pub item_id: String,
    /// The kind of text.
    pub kind: DeltaKind,
    /// The piece; never empty.
    pub text: String,
}

/// What a [`Delta`] is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeltaKind {
    /// The agent's message.
    Message,
    /// Its reasoning or the summary of it.
    Reasoning,
    /// The output of a command.
    Output,
}

/// Every notification method that [`Event::parse`] reads, for the contract with the installed Codex.
pub const METHODS: &[&str] = &[
    "thread/started",
    "thread/status/changed",
    "thread/settings/updated",
    "mcpServer/startupStatus/updated",
    "turn/started",
    "turn/completed",
    "item/started",
    "item/completed",
    "item/agentMessage/delta",
    "item/reasoning/textDelta",
    "item/reasoning/summaryTextDelta",
    "item/commandExecution/outputDelta",
    "item/commandExecution/terminalInteraction",
    "thread/tokenUsage/updated",
    "turn/diff/updated",
    "serverRequest/resolved",
    "error",
    "warning",
    "account/rateLimits/updated",
    "thread/compacted",
];

impl Event {
    /// Reads a notification's parameters. Known methods whose parameters cannot be read are [`Event::Other`].
    pub fn parse(method: &str, params: Option<&RawValue>) -> Self {
        params.and_then(|params| Self::typed(method, &Params(params.get()))).unwrap_or(Self::Other)
    }

    /// The same from the whole line, in one go.
    pub fn parse_line(method: &str, line: &[u8]) -> Self {
        let line = std::str::from_utf8(line).ok();
        line.and_then(|line| Self::typed(method, &Line(line))).unwrap_or(Self::Other)
    }

    fn typed(method: &str, source: &impl Source) -> Option<Self> {
        Some(match method {
            "item/agentMessage/delta" => delta(DeltaKind::Message, source.read()?)?,
            "item/commandExecution/outputDelta" => delta(DeltaKind::Output, source.read()?)?,
            "item/reasoning/textDelta" | "item/reasoning/summaryTextDelta" | "item/reasoning/delta" => {
                delta(DeltaKind::Reasoning, source.read()?)?
            }
            "item/commandExecution/terminalInteraction" => {
                let typed: WithStdin = source.read()?;
                Self::TerminalInput { item_id: typed.item_id, text: typed.stdin }
            }
            "item/started" => Self::ItemStarted(source.read::<WithItem>()?.item),
            "item/completed" => Self::ItemCompleted(source.read::<WithItem>()?.item),
            "turn/started" => Self::TurnStarted(source.read::<WithTurn>()?.turn),
            "turn/completed" => Self::TurnCompleted(source.read::<WithTurn>()?.turn),
            "thread/started" => Self::ThreadStarted(source.read::<WithThread>()?.thread),
            "thread/status/changed" => Self::ThreadStatus(source.read::<WithStatus>()?.status),
            "thread/settings/updated" => {
                Self::ThreadSettings(Box::new(source.read::<WithSettings>()?.thread_settings))
            }
            "mcpServer/startupStatus/updated" => Self::McpServer { name: source.read::<WithName>()?.name },
            "thread/tokenUsage/updated" => Self::TokenUsage(source.read::<WithUsage>()?.token_usage),
            "turn/diff/updated" => Self::DiffUpdated(source.read::<WithDiff>()?.diff),
            "serverRequest/resolved" => Self::RequestResolved(source.read::<WithRequest>()?.request_id),
            "error" => {
                let error: WithError = source.read()?;
                Self::Error { error: error.error, will_retry: error.will_retry }
            }
            "warning" | "configWarning" | "guardianWarning" | "deprecationNotice" => {
                let warning: WithMessage = source.read()?;
                Self::Warning(warning.message.or(warning.summary)?)
            }
            "account/rateLimits/updated" => Self::RateLimits(source.read::<WithLimits>()?.rate_limits),
            "thread/compacted" => Self::Compacted,
            _ => return None,
        })
    }
}

/// Where parameters are read from.
trait Source {
    fn read<T: DeserializeOwned>(&self) -> Option<T>;
}

/// The parameters alone.
struct Params<'a>(&'a str);

/// A line with the parameters in it.
struct Line<'a>(&'a str);

impl Source for Params<'_> {
    fn read<T: DeserializeOwned>(&self) -> Option<T> {
        serde_json::from_str(self.0).ok()
    }
}

impl Source for Line<'_> {
    fn read<T: DeserializeOwned>(&self) -> Option<T> {
        #[derive(Deserialize)]
        struct WithParams<T> {
            params: T,
        }
        serde_json::from_str::<WithParams<T>>(self.0).ok().map(|line| line.params)
    }
}

fn delta(kind: DeltaKind, params: WithDelta) -> Option<Event> {
    // Older servers wrote the piece under `text`.
    let text = params.delta.or(params.text).filter(|text| !text.is_empty())?;
    Some(Event::Delta(Delta { item_id: params.item_id, kind, text }))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithDelta {
    #[serde(default)]
    item_id: String,
    delta: Option<String>,
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithStdin {
    item_id: String,
    stdin: String,
}

#[derive(Deserialize)]
struct WithItem {
    item: Item,
}

#[derive(Deserialize)]
struct WithTurn {
    turn: Turn,
}

#[derive(Deserialize)]
struct WithThread {
    thread: Thread,
}

#[derive(Deserialize)]
struct WithStatus {
    status: ThreadStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithSettings {
    thread_settings: ThreadLimits,
}

#[derive(Deserialize)]
struct WithName {
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithUsage {
    token_usage: TokenUsage,
}

#[derive(Deserialize)]
struct WithDiff {
    diff: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithRequest {
    request_id: RequestId,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithError {
    error: TurnError,
    #[serde(default)]
    will_retry: bool,
}

#[derive(Deserialize)]
struct WithMessage {
    message: Option<String>,
    summary: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct WithLimits {
    rate_limits: RateLimits,
}

#[cfg(test)]
mod tests;
