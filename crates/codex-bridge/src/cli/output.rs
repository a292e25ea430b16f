//! What goes to stdout: lines for people, JSON for programs.

use std::io::{self, ErrorKind, Write, stdout};

use serde::Serialize;

use crate::failure::{Code, Failure};

/// Prints lines.
pub fn lines(lines: &[String]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    lines.iter().try_for_each(|line| writeln!(out, "{line}")).and_then(|()| out.flush()).map_err(failed)
}

/// Prints one line of JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(Failure::internal)?;
    lines(&[line])
}

/// Why something could not be written.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub fn failed(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Code::ReaderGone, "nobody reads the output any more"),
        _ => Failure::new(Code::Output, format!("cannot write the output: {error}")),
    }
}
