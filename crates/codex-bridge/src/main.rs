//! `codex-bridge`: the durable, safe way to hand work to OpenAI Codex.
//!
//! The program translates between people and the library; it decides nothing.

use std::process::ExitCode;

mod amount;
mod calls;
mod channel;
mod cli;
mod client;
mod codex;
mod config;
mod daemon;
mod failure;
mod follow;
mod http;
mod log;
mod mcp;
mod output;
mod paths;
mod peer;
mod services;
mod tool;
mod tool_path;
mod transcript;
mod view;
mod web;

fn main() -> ExitCode {
    cli::run()
}
