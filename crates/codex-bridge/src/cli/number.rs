//! Parsers for numbers on the command line. The errors of the standard library would name Rust's types.

use std::str::FromStr;

/// Parses a whole number.
pub fn whole<T: FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "write a whole number, such as 10")
}

/// Parses a number of seconds.
pub fn seconds(text: &str) -> Result<f64, &'static str> {
    text.parse().map_err(|_| "write a number of seconds, such as 60")
}
