//! The number of entries in a list.

use crate::failure::{Code, Failure};

/// The number of entries without a `limit`.
const DEFAULT: u32 = 100;
/// The largest `limit`.
const MAX: u32 = 1000;

/// Checks the `limit` of a list.
pub fn limit(asked: Option<u32>) -> Result<u32, Failure> {
    limit_of(asked, DEFAULT, MAX)
}

/// As [`limit`], for a list with its own default and maximum.
pub fn limit_of(asked: Option<u32>, default: u32, max: u32) -> Result<u32, Failure> {
    let limit = asked.unwrap_or(default);
    if (1..=max).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("limit {limit} is out of range");
    Err(Failure::new(Code::BadLimit, message).hint(format!("use 1 to {max}")))
}
