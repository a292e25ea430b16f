//! The output of commands: results on stdout, as lines for people or as JSON; notes and errors on stderr.
//!
//! Output is not a log: it has no filter and no timestamps. The daemon's log is `crate::log`.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};

use codex_wire::reason;
use serde::Serialize;

use crate::failure::{Code, Failure};

/// Prints lines.
pub fn lines(lines: &[String]) -> Result<(), Failure> {
    let mut out = stdout().lock();
    lines
        .iter()
        .try_for_each(|line| writeln!(out, "{line}"))
        .and_then(|()| out.flush())
        .map_err(write_failure)
}

/// Prints one line of JSON.
pub fn json(value: &impl Serialize) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(Failure::internal)?;
    lines(&[line])
}

/// Prints a line on stderr.
pub fn note(line: impl Display) {
    // Nobody may be reading stderr any more.
    writeln!(stderr(), "{line}").ok();
}

/// The failure of writing output.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub fn write_failure(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Code::ReaderGone, "the reader of the output is gone"),
        _ => Failure::new(Code::Output, format!("cannot write the output: {}", reason(&error))),
    }
}
