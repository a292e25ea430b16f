//! `codex-bridge`: the durable, safe way to hand work to OpenAI Codex.
//!
//! The program translates between people and the library; it decides nothing.

use std::process::ExitCode;

mod cli;
mod codex;

fn main() -> ExitCode {
    cli::run()
}
