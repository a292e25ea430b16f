//! Prompts from the command line, or from stdin for `-`.

use std::io::{IsTerminal, Read, stdin};

use codex_wire::reason;

use super::output;
use crate::failure::{Code, Failure};

/// The prompt; never empty.
pub fn read(argument: &str) -> Result<String, Failure> {
    let prompt = if argument == "-" { from_stdin()? } else { argument.to_owned() };
    if prompt.trim().is_empty() {
        return Err(Failure::new(Code::EmptyPrompt, "the prompt is empty"));
    }
    Ok(prompt)
}

fn from_stdin() -> Result<String, Failure> {
    if stdin().is_terminal() {
        output::note("type the prompt, then Ctrl-D:");
    }
    let mut prompt = String::new();
    let read = stdin().read_to_string(&mut prompt);
    read.map_err(|error| {
        Failure::new(Code::Usage, format!("cannot read the prompt on stdin: {}", reason(&error)))
    })?;
    Ok(prompt)
}
