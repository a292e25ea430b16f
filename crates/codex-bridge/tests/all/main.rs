//! The built program on the real Codex: one file per promise.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod cli_json;
mod cli_terminal;
mod cli_words;
mod daemon;
mod demo;
mod doctor;
mod kills;
mod self_approval;
mod shell;
mod store;
mod tmux;
mod tool_actions;
mod tool_golden;
mod tool_refusals;
mod tool_rig;
