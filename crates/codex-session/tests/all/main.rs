//! The session library against the real Codex and against the scripted app-server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_turns;
mod workbench;
