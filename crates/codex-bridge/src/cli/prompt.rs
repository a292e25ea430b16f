//! Prompts from the command line, or from stdin for `-`.

use std::io::{IsTerminal, read_to_string, stdin};

use codex_wire::reason;

use super::output;
use crate::failure::{Code, Failure};

/// The prompt. The daemon refuses an empty one.
pub fn read(argument: &str) -> Result<String, Failure> {
    if argument == "-" { from_stdin() } else { Ok(argument.to_owned()) }
}

fn from_stdin() -> Result<String, Failure> {
    if stdin().is_terminal() {
        output::note("type the prompt, then Ctrl-D:");
    }
    read_to_string(stdin()).map_err(|error| {
        Failure::new(Code::Usage, format!("cannot read the prompt on stdin: {}", reason(&error)))
    })
}
