//! What commands tell their user: lines for people and JSON for programs on stdout, what is beside the point on stderr.
//!
//! This is output and not a log: no filter hides it, and it has no time. What the daemon tells its operator is `crate::log`.

use std::fmt::Display;
use std::io::{self, ErrorKind, Write, stderr, stdout};

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

/// Tells the user something that is not the result.
pub fn note(line: impl Display) {
    // A user who is not there is told nothing.
    writeln!(stderr(), "{line}").ok();
}

/// Why something could not be written.
#[expect(clippy::needless_pass_by_value, reason = "it is handed to map_err")]
pub fn failed(error: io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::new(Code::ReaderGone, "nobody reads the output any more"),
        _ => Failure::new(Code::Output, format!("cannot write the output: {error}")),
    }
}
