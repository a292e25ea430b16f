//! A task's log: durable, redacted lines, numbered per task without gaps.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::task::{TaskId, TimeMs};

/// The number of an event within its task, from 1.
pub type Seq = i64;

/// One line of a task's log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Whose.
    #[serde(skip)]
    pub task_id: Option<TaskId>,
    /// Which.
    pub seq: Seq,
    /// When.
    pub at: TimeMs,
    /// What kind: `state`, `message`, `tool_started`, `tool_completed`, `request`, `request_closed`, `usage`, …
    pub kind: String,
    /// The rest, by kind.
    #[serde(flatten)]
    pub body: Map<String, Value>,
}

impl Event {
    /// Whether a text that was being written is over with this line: its message is in the log, or its turn has ended.
    pub fn ends_text(&self) -> bool {
        self.kind == "message" || self.ends_turn()
    }

    /// Whether a turn has ended with this line.
    pub fn ends_turn(&self) -> bool {
        self.kind == "turn_ended"
    }

    /// The call that has ended with this line.
    pub fn ended_call(&self) -> Option<&str> {
        let is_end = self.kind == "tool_completed";
        self.body.get("call_id").and_then(Value::as_str).filter(|_| is_end)
    }
}

/// A line to be appended; its number comes with the commit.
#[derive(Debug, Clone, PartialEq)]
pub struct NewEvent {
    /// When.
    pub at: TimeMs,
    /// What kind.
    pub kind: String,
    /// The rest.
    pub body: Map<String, Value>,
}
