//! `codex-bridge`: the durable, safe way to hand work to OpenAI Codex.
//!
//! The program translates between callers and the library; the library decides.

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
mod lock_file;
mod log;
mod mcp;
mod output;
mod paths;
mod services;
mod socket_access;
mod tool;
mod tool_path;
mod transcript;
mod view;
mod web;

fn main() -> ExitCode {
    cli::run()
}
