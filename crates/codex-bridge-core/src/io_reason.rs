//! Errors of the operating system, for people.

use std::io;

/// The error without its number: `No such file or directory` instead of `No such file or directory (os error 2)`.
pub(crate) fn io_reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split_once(" (os error ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}
