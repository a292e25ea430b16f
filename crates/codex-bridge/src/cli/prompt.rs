//! Words for Codex: from the command line, or from stdin for `-`.

use std::io::{IsTerminal, Read, stdin};

use super::output;
use crate::failure::{Code, Failure};

/// The words; never empty.
pub fn read(given: &str) -> Result<String, Failure> {
    let words = if given == "-" { from_stdin()? } else { given.to_owned() };
    if words.trim().is_empty() {
        return Err(Failure::new(Code::EmptyPrompt, "the prompt is empty"));
    }
    Ok(words)
}

fn from_stdin() -> Result<String, Failure> {
    if stdin().is_terminal() {
        output::note("type the prompt, then Ctrl-D:");
    }
    let mut words = String::new();
    let read = stdin().read_to_string(&mut words);
    read.map_err(|error| Failure::new(Code::Usage, format!("the prompt on stdin cannot be read: {error}")))?;
    Ok(words)
}
