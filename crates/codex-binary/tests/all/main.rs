//! The crate as its users see it: real files, real processes, the real codex.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod fake;
mod find;
mod install;
mod link;
mod real;
