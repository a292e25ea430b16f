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

/// How much of the end of a rollout is read. The call is among the last lines, unless other calls of the same response
/// have had long outputs meanwhile: then more is read, up to the last of these.
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

    /// What the pending call with this id asks for, by the end of the rollout of its thread.
    pub fn of_call(rollout: &Path, call_id: &str) -> Self {
        if call_id.is_empty() {
            return Self::Unknown;
        }
        for window in WINDOWS {
            match read_end(rollout, window) {
                Err(_) => return Self::Unknown,
                Ok(end) => match in_lines(&end.text, call_id) {
                    Some(found) => return found,
                    None if end.is_whole => return Self::Unknown,
                    None => {}
                },
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

/// What the call asks for that has this id and no output yet; none if there is no such call.
///
/// A call with an output is over. A provider that uses an id twice would otherwise have an earlier, plain call taken for
/// one that is not written yet.
fn in_lines(lines: &str, call_id: &str) -> Option<Escalation> {
    let mut found: Option<Escalation> = None;
    for line in lines.lines().filter(|line| line.contains(call_id)) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { continue };
        let payload = &line["payload"];
        if line["type"] != "response_item" || payload["call_id"] != call_id {
            continue;
        }
        found = match payload["type"].as_str() {
            Some("function_call") => Some(wider(found, wish(&payload["arguments"]))),
            Some(output) if output.ends_with("_output") => None,
            _ => Some(Escalation::Unknown),
        };
    }
    found
}

/// Of two calls with one id, the one that asks for more.
fn wider(one: Option<Escalation>, other: Escalation) -> Escalation {
    one.filter(|one| one.counts()).unwrap_or(other)
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
