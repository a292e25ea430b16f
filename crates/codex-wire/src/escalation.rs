//! Whether a command asks to leave the sandbox, as the model's own call tells it.
//!
//! The request for approval does not say so: under the policy `untrusted`, codex 0.166 sends the same request for a plain
//! and for an escalated command. The call stands in the rollout file of its thread by the time the request comes: at the
//! start, after a resume on a new host, in a fork, and for a sub-agent in the rollout of its own thread. In code mode the
//! call stands nowhere. A call that is not found counts as an escalation.
//!
//! Reads files and blocks. When to look again, and what an escalation means for a decision, is not known here.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How much of the end of a rollout is read: more and more, until the beginning of the turn is in it. A turn that is longer than
/// the last of these is not read.
const WINDOWS: [u64; 3] = [256 * 1024, 4 * 1024 * 1024, 32 * 1024 * 1024];

/// Whether a request asks for more than the sandbox gives.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Escalation {
    /// It does not.
    #[default]
    None,
    /// It does.
    Asked,
    /// That could not be told: it counts as if it did.
    Unknown,
}

impl Escalation {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::None, Self::Asked, Self::Unknown];

    /// Whether it is treated as an escalation.
    pub fn counts(self) -> bool {
        self != Self::None
    }

    /// What the pending call with this id asks for, by the last turn in the rollout of its thread.
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

/// The lines behind the one with which the last turn began. Codex alone writes such a line: what a model says stands inside of
/// others.
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

/// What the one call of a turn asks for that has this id. A provider chooses the ids: where one stands twice, be it with an
/// output, it cannot be told which call is meant.
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

/// Whether a call runs a command by the tool whose arguments we know.
fn is_command(call: &Value) -> bool {
    call["type"] == "function_call" && call["name"] == "exec_command"
}

/// What the arguments of a call ask for.
fn wish(arguments: &Value) -> Escalation {
    let arguments = arguments.as_str().and_then(|text| serde_json::from_str::<Map<String, Value>>(text).ok());
    let Some(arguments) = arguments else { return Escalation::Unknown };
    let said = |key: &str| arguments.get(key).filter(|value| !value.is_null());
    let stays = said("sandbox_permissions").is_none_or(|wish| wish == "use_default")
        && said("additional_permissions").is_none()
        // Older ones said it so.
        && said("with_escalated_permissions").is_none_or(|wish| *wish == Value::Bool(false));
    if stays { Escalation::None } else { Escalation::Asked }
}

#[cfg(test)]
mod tests;
