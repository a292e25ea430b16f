//! Notifications from Codex, typed where we act on them. What we do not know stays [`Event::Other`], with its
//! line untouched beside it.

use std::collections::HashMap;

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
    /// Reads a notification from its line. Known methods whose parameters cannot be read are [`Event::Other`].
    pub fn parse(method: &str, line: &[u8]) -> Self {
        let line = std::str::from_utf8(line).ok();
        let event = line.and_then(|line| match delta_kind(method) {
            Some(kind) => delta(kind, line),
            None => Self::typed(method, &serde_json::from_str(line).ok()?),
        });
        event.unwrap_or(Self::Other)
    }

    fn typed(method: &str, line: &Line<'_>) -> Option<Self> {
        Some(match method {
            "item/commandExecution/terminalInteraction" => {
                Self::TerminalInput { item_id: line.param("itemId")?, text: line.param("stdin")? }
            }
            "item/started" => Self::ItemStarted(line.param("item")?),
            "item/completed" => Self::ItemCompleted(line.param("item")?),
            "turn/started" => Self::TurnStarted(line.param("turn")?),
            "turn/completed" => Self::TurnCompleted(line.param("turn")?),
            "thread/started" => Self::ThreadStarted(line.param("thread")?),
            "thread/status/changed" => Self::ThreadStatus(line.param("status")?),
            "thread/settings/updated" => Self::ThreadSettings(line.param("threadSettings")?),
            "mcpServer/startupStatus/updated" => Self::McpServer { name: line.param("name")? },
            "thread/tokenUsage/updated" => Self::TokenUsage(line.param("tokenUsage")?),
            "turn/diff/updated" => Self::DiffUpdated(line.param("diff")?),
            "serverRequest/resolved" => Self::RequestResolved(line.param("requestId")?),
            "error" => {
                let will_retry = line.param("willRetry").unwrap_or_default();
                Self::Error { error: line.param("error")?, will_retry }
            }
            "warning" | "configWarning" | "guardianWarning" | "deprecationNotice" => {
                Self::Warning(line.param("message").or_else(|| line.param("summary"))?)
            }
            "account/rateLimits/updated" => Self::RateLimits(line.param("rateLimits")?),
            "thread/compacted" => Self::Compacted,
            _ => return None,
        })
    }
}

/// A notification whose parameters are read one by one, when its method asks for them.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    params: HashMap<String, &'a RawValue>,
}

impl Line<'_> {
    fn param<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.params.get(name)?.get()).ok()
    }
}

/// The parameters of a delta. Most lines are deltas, so these are read in one go: 1.4 times as fast as one by one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct DeltaParams {
    #[serde(default)]
    item_id: String,
    delta: Option<String>,
    /// Older servers wrote the piece here.
    text: Option<String>,
}

fn delta_kind(method: &str) -> Option<DeltaKind> {
    Some(match method {
        "item/agentMessage/delta" => DeltaKind::Message,
        "item/commandExecution/outputDelta" => DeltaKind::Output,
        "item/reasoning/textDelta" | "item/reasoning/summaryTextDelta" | "item/reasoning/delta" => {
            DeltaKind::Reasoning
        }
        _ => return None,
    })
}

fn delta(kind: DeltaKind, line: &str) -> Option<Event> {
    #[derive(Deserialize)]
    struct Line {
        params: DeltaParams,
    }
    let params = serde_json::from_str::<Line>(line).ok()?.params;
    let text = params.delta.or(params.text).filter(|text| !text.is_empty())?;
    Some(Event::Delta(Delta { item_id: params.item_id, kind, text }))
}

#[cfg(test)]
mod tests;
