//! Pure functions that render the daemon's JSON as lines for people. Nothing here reads or writes.

pub mod fold;
pub mod log;
pub mod paint;
pub mod request;
pub mod task;
pub mod width;
