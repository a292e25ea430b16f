//! The words of a system error, for messages that people read.

use std::io;

/// The message of the error, without the number that the standard library appends (`(os error 2)`).
///
/// ```
/// let error = std::io::Error::from_raw_os_error(2);
/// assert_eq!(codex_binary::reason(&error), "No such file or directory");
/// ```
pub fn reason(error: &io::Error) -> String {
    let mut message = error.to_string();
    message.truncate(message.rfind(" (os error ").unwrap_or(message.len()));
    message
}
