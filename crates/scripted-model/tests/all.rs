//! The scripted model against the real Codex.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "all/codex.rs"]
mod codex;
#[path = "all/failures.rs"]
mod failures;
#[path = "all/program.rs"]
mod program;
#[path = "all/stalls.rs"]
mod stalls;
#[path = "all/text.rs"]
mod text;
#[path = "all/tools.rs"]
mod tools;
#[path = "all/turns.rs"]
mod turns;
