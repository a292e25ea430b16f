//! How much one answer lists.

use crate::failure::{Code, Failure};

/// How many entries a list has unless told otherwise.
const USUAL: u32 = 100;
/// How many it may have.
const MOST: u32 = 1000;

/// As many as were asked for, if that may be.
pub fn limit(asked: Option<u32>) -> Result<u32, Failure> {
    limit_of(asked, USUAL, MOST)
}

/// The same for a list that has its own measure.
pub fn limit_of(asked: Option<u32>, usual: u32, most: u32) -> Result<u32, Failure> {
    let limit = asked.unwrap_or(usual);
    if (1..=most).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("limit {limit} is out of range");
    Err(Failure::new(Code::BadLimit, message).hint(format!("use 1 to {most}")))
}
