//! What people see: pure functions from what the daemon says to lines of text. Nothing here reads or writes.

pub mod fold;
pub mod paint;
pub mod request;
pub mod story;
pub mod task;
pub mod width;
