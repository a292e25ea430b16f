//! A task's log: durable, redacted lines, numbered per task without gaps.
//!
//! A [`Line`] keeps its type from the session to the page that shows it. On disk and on the wire a line is a JSON
//! object whose `kind` names the variant.

use codex_session::tool_display::{Display, ToolCompleted, ToolStarted};
use codex_session::turn::Closing;
use codex_session::{TurnOutcome, ask};
use codex_wire::item::Phase;
use codex_wire::{ThreadId, TurnId};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::request::{DecisionWord, RequestName, RequestRecord, RequestState};
use crate::task::{Status, Task, TaskError, TaskId, TimeMs};

/// The number of an event within its task, from 1.
pub type Seq = i64;

/// One numbered line of a task's log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Event {
    /// The task.
    #[serde(skip)]
    pub task_id: Option<TaskId>,
    /// The number of the line.
    pub seq: Seq,
    /// When it was written.
    pub at: TimeMs,
    /// What the line says.
    #[serde(flatten)]
    pub line: Line,
}

/// A line to append. The commit gives it its number.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// When it is written.
    pub at: TimeMs,
    /// What the line says.
    pub line: Line,
}

/// Declares [`Line`] from one table: the variant, its data and its `kind`.
macro_rules! lines {
    ($($(#[$doc:meta])* $name:ident($data:ty) = $kind:literal,)*) => {
        /// What a line of a task's log says.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind")]
        pub enum Line {
            $($(#[$doc])* #[serde(rename = $kind)] $name($data),)*
            /// A line with an unknown kind or shape, from another version. It is kept as it is.
            #[serde(untagged)]
            Other(Other),
        }

        impl Line {
            /// The word that names the variant.
            pub fn kind(&self) -> &str {
                match self {
                    $(Self::$name(_) => $kind,)*
                    Self::Other(other) => &other.kind,
                }
            }

            /// Reads a stored line: its kind and the JSON of its data.
            pub(crate) fn read(kind: &str, data: &str) -> Result<Self, serde_json::Error> {
                let known = match kind {
                    $($kind => read(data, Self::$name),)*
                    _ => None,
                };
                let other = || Ok(Self::Other(Other { kind: kind.to_owned(), data: serde_json::from_str(data)? }));
                known.map_or_else(other, Ok)
            }

            /// The JSON of the line's data, for the store.
            pub(crate) fn data(&self) -> Result<String, serde_json::Error> {
                match self {
                    $(Self::$name(data) => serde_json::to_string(data),)*
                    Self::Other(other) => serde_json::to_string(&other.data),
                }
            }
        }

        $(impl From<$data> for Line {
            fn from(data: $data) -> Self {
                Self::$name(data)
            }
        })*
    };
}

fn read<T: DeserializeOwned>(data: &str, line: fn(T) -> Line) -> Option<Line> {
    serde_json::from_str(data).ok().map(line)
}

lines! {
    /// The task's status changed.
    State(StateChanged) = "state",
    /// Codex opened the task's thread.
    ThreadOpened(ThreadOpened) = "thread_opened",
    /// A turn began.
    TurnStarted(TurnStarted) = "turn_started",
    /// A caller added text to the running turn.
    Steered(Steered) = "steered",
    /// Codex wrote a message.
    Message(Message) = "message",
    /// A summary of what the model thought.
    Thought(Thought) = "thought",
    /// A tool call began.
    ToolStarted(ToolStarted) = "tool_started",
    /// A tool call ended.
    ToolCompleted(ToolCompleted) = "tool_completed",
    /// Something was typed into a running command.
    TerminalInput(TerminalInput) = "terminal_input",
    /// Codex asks for an approval or an answer.
    Request(Requested) = "request",
    /// A request has ended.
    RequestClosed(RequestClosed) = "request_closed",
    /// The operator's settings decided a request; nobody was asked.
    RequestDecided(RequestDecided) = "request_decided",
    /// What the turn changed in files.
    Diff(Diff) = "diff",
    /// A turn ended.
    TurnEnded(TurnEnded) = "turn_ended",
    /// Codex retries a failed call of the model.
    Retrying(Retrying) = "retrying",
    /// A warning from Codex or from the bridge.
    Warning(Warning) = "warning",
    /// Something that the operator should know or do.
    Notice(Notice) = "notice",
}

/// A line of a kind that this version does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Other {
    /// The line's kind.
    pub kind: String,
    /// The line's data.
    #[serde(flatten)]
    pub data: Map<String, Value>,
}

/// The task's status changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StateChanged {
    /// The new status.
    pub status: Status,
    /// Why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether the task continues by itself although it is finished.
    #[serde(default, skip_serializing_if = "is_false")]
    pub goes_on: bool,
    /// The caller's name for the turn that this change queued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<String>,
}

/// Codex opened the task's thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThreadOpened {
    /// The thread.
    pub thread_id: Option<ThreadId>,
    /// The host on which the thread is open.
    pub host: Option<String>,
}

/// A turn began.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// Codex's id of the turn.
    pub turn_id: TurnId,
    /// The turn's number in the task; older logs have none.
    pub number: Option<u32>,
    /// The redacted prompt. Older logs have none, nor has a turn that began while the disk was full.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// How many bytes of the prompt were cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_cut_bytes: Option<usize>,
}

/// A caller added text to the running turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Steered {
    /// Codex's id of the item.
    pub item_id: Option<String>,
    /// The bridge's id under which the text was sent.
    #[serde(default)]
    pub client_id: String,
    /// Who added the text.
    pub by: Option<String>,
    /// The redacted text; older logs have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// How many bytes of the text were cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text_cut_bytes: Option<usize>,
}

/// Codex wrote a message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Codex's id of the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The whole text.
    pub text: String,
    /// What kind of text the model says it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
}

/// A summary of what the model thought.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Thought {
    /// Codex's id of the item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_id: Option<String>,
    /// The whole text.
    pub text: String,
}

/// Something was typed into a running command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TerminalInput {
    /// The id of the command's call. The field is not named `call_id`, because a line with a `call_id` is written once
    /// per call, and one call can be typed into several times.
    pub of_call: String,
    /// The command, if known.
    pub command: Option<String>,
    /// What was typed.
    pub text: String,
    /// How many bytes of the text were cut off.
    #[serde(default)]
    pub text_cut_bytes: usize,
}

/// Codex asks for an approval or an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requested {
    /// The request.
    pub request_id: RequestName,
    /// The digest of the request.
    #[serde(default)]
    pub digest: String,
    /// The request in one line.
    pub title: String,
    /// What kind of request it is.
    pub asks: Option<ask::Kind>,
    /// The tool call that waits for the decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Whether Codex asks again because the first decision was lost.
    #[serde(default, skip_serializing_if = "is_false")]
    pub asked_again: bool,
}

/// A request has ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestClosed {
    /// The request.
    pub request_id: RequestName,
    /// How it ended.
    pub outcome: RequestState,
    /// What was decided.
    pub decision: Option<DecisionWord>,
    /// Who decided.
    pub decided_by: Option<String>,
}

/// The operator's settings decided a request; nobody was asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestDecided {
    /// What was decided, and why.
    pub closing: Closing,
}

/// What the turn changed in files.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Diff {
    /// The unified diff, redacted.
    pub diff: String,
}

/// A turn ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TurnEnded {
    /// How the turn ended.
    #[serde(default)]
    pub outcome: TurnOutcome,
    /// The answer.
    pub final_text: Option<String>,
    /// Why there is no answer.
    pub error: Option<TaskError>,
    /// Whether it is unknown what the turn did at its end.
    #[serde(default)]
    pub outcome_unknown: bool,
    /// Commands and changes that ran, if it is unknown what the turn did at its end.
    #[serde(default)]
    pub side_effects: Vec<String>,
}

/// Codex retries a failed call of the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Retrying {
    /// Why the call failed.
    pub message: String,
}

/// A warning from Codex or from the bridge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Warning {
    /// The warning.
    pub message: String,
}

/// Something that the operator should know or do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notice {
    /// The topic: `login`.
    pub about: Option<String>,
    /// What to know or to do.
    pub message: String,
}

impl Line {
    /// The log line for what a session shows. `None` for text deltas, which are not stored.
    pub(crate) fn of_shown(shown: Display) -> Option<Self> {
        Some(match shown {
            Display::ToolStarted(call) => Self::ToolStarted(call),
            Display::ToolCompleted(call) => Self::ToolCompleted(call),
            Display::Thought { item_id, text } => Self::Thought(Thought { item_id, text }),
            Display::Message { item_id, text, phase } => Self::Message(Message { item_id, text, phase }),
            Display::Text { .. } | Display::Reasoning { .. } => return None,
        })
    }

    /// The line that says how a request ended.
    pub(crate) fn closed(request: &RequestRecord) -> Self {
        Self::RequestClosed(RequestClosed {
            request_id: request.request_id.clone(),
            outcome: request.state,
            decision: request.decision.clone(),
            decided_by: request.decided_by.clone(),
        })
    }

    /// Codex's id of the item in this line; such a line is stored once per item. `None` for lines that may repeat.
    pub(crate) fn item(&self) -> Option<&str> {
        match self {
            Self::ToolStarted(call) => Some(&call.call_id),
            Self::ToolCompleted(call) => Some(&call.call_id),
            Self::Message(message) => message.item_id.as_deref(),
            Self::Thought(thought) => thought.item_id.as_deref(),
            Self::Steered(steered) => steered.item_id.as_deref(),
            _ => None,
        }
    }

    /// Whether live text ends with this line: the message is in the log, or the turn has ended.
    pub fn ends_text(&self) -> bool {
        matches!(self, Self::Message(_) | Self::TurnEnded(_))
    }

    /// The call that this line ends.
    pub fn ended_call(&self) -> Option<&str> {
        match self {
            Self::ToolCompleted(call) => Some(&call.call_id),
            _ => None,
        }
    }
}

impl StateChanged {
    /// The task's present status. `goes_on` says whether the task continues by itself although it is finished.
    pub(crate) fn of(task: &Task, goes_on: bool) -> Self {
        Self { status: task.status, reason: task.reason.clone(), goes_on, client_request_id: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests;
