//! Whether a command asks to leave the sandbox, according to the model's own tool call.
//!
//! The request for approval does not contain this: under the policy `untrusted`, codex 0.166 sends the same request for
//! a plain and for an escalated command. But the call is in the rollout file of its thread by the time the request
//! comes: at the start, after a resume on a new host and in a fork. The call of a sub-agent is in the rollout of its
//! own thread. In code mode the call is not recorded. A call that is not found counts as an escalation.
//!
//! Reads files and blocks. Knows neither when to try again nor what an escalation means for a decision.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How many bytes at the end of a rollout are read: each in turn, until the beginning of the turn is found. A longer
/// turn is not read.
const WINDOWS: [u64; 3] = [256 * 1024, 4 * 1024 * 1024, 32 * 1024 * 1024];

/// Whether a request asks for more than the sandbox allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalation {
    /// It does not.
    #[default]
    None,
    /// It does.
    Asked,
    /// Unknown; treated as if it did.
    Unknown,
}

impl Escalation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Asked, Self::Unknown];

    /// Whether it is treated as an escalation.
    pub fn counts(self) -> bool {
        self != Self::None
    }

    /// Whether the pending call with this id asks to leave the sandbox, by the last turn in the rollout of its thread.
    pub fn of_call(rollout: &Path, call_id: &str) -> Self {
        if call_id.is_empty() {
            return Self::Unknown;
        }
        for window in WINDOWS {
            let Ok(end) = read_end(rollout, window) else { return Self::Unknown };
            match last_turn(&end.text) {
                Some(turn) => return in_turn(turn, call_id),
                None if end.is_whole => return in_turn(&end.text, call_id),
                None => {}
            }
        }
        Self::Unknown
    }
}

/// The last lines of a file.
struct End {
    text: String,
    /// Whether that is the whole file.
    is_whole: bool,
}

fn read_end(rollout: &Path, bytes: u64) -> io::Result<End> {
    // Opening a pipe would wait for its writer.
    if !std::fs::metadata(rollout)?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut file = File::open(rollout)?;
    let start = file.metadata()?.len().saturating_sub(bytes);
    file.seek(SeekFrom::Start(start))?;
    let mut read = Vec::new();
    // The file may grow while it is read.
    file.take(bytes).read_to_end(&mut read)?;
    let text = String::from_utf8_lossy(&read).into_owned();
    if start == 0 {
        return Ok(End { text, is_whole: true });
    }
    // The window begins within a line.
    let lines = text.split_once('\n').map(|(_, lines)| lines.to_owned()).unwrap_or_default();
    Ok(End { text: lines, is_whole: false })
}

/// The lines after the line with which the last turn began. Only Codex writes such a line: the text of a model is
/// inside of other lines.
fn last_turn(lines: &str) -> Option<&str> {
    let is_beginning = |line: &str| {
        line.contains("task_started")
            && serde_json::from_str::<Value>(line)
                .is_ok_and(|line| line["type"] == "event_msg" && line["payload"]["type"] == "task_started")
    };
    let mut end = lines.len();
    for line in lines.rsplit('\n') {
        if is_beginning(line) {
            return Some(&lines[end..]);
        }
        end -= (line.len() + 1).min(end);
    }
    None
}

/// Whether the call with this id asks to leave the sandbox. The provider chooses the ids: if an id occurs twice, also
/// in an output, it is unknown which call is meant.
fn in_turn(lines: &str, call_id: &str) -> Escalation {
    let with_id = lines.lines().filter(|line| line.contains(call_id)).filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        (line["type"] == "response_item" && line["payload"]["call_id"] == call_id).then_some(line)
    });
    let mut with_id = with_id.take(2);
    match (with_id.next(), with_id.next()) {
        (Some(line), None) if is_command(&line["payload"]) => wish(&line["payload"]["arguments"]),
        _ => Escalation::Unknown,
    }
}

/// Whether a call runs a command through the tool whose arguments are known here.
fn is_command(call: &Value) -> bool {
    call["type"] == "function_call" && call["name"] == "exec_command"
}

/// Whether the arguments of a call ask to leave the sandbox.
fn wish(arguments: &Value) -> Escalation {
    let arguments = arguments.as_str().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let Some(arguments) = arguments else { return Escalation::Unknown };
    let said = |key: &str| arguments.get(key).filter(|value| !value.is_null());
    let stays = said("sandbox_permissions").is_none_or(|wish| wish == "use_default")
        && said("additional_permissions").is_none()
        // The key of older versions.
        && said("with_escalated_permissions").is_none_or(|wish| *wish == Value::Bool(false));
    if stays { Escalation::None } else { Escalation::Asked }
}

#[cfg(test)]
mod tests;
