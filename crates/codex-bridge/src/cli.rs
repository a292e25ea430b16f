//! The command line: one file per verb.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod demo;
mod host;

/// The durable, safe way to hand work to OpenAI Codex.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Show one turn on the real Codex, with a scripted model: no login, no network, nothing kept
    Demo(demo::Args),
    /// Keep one Codex host alive; started by codex-bridge itself
    #[command(hide = true)]
    Host(host::Args),
}

/// A verb's failure, in words for people.
type Failed = Box<dyn std::error::Error>;

/// Runs the program.
pub fn run() -> ExitCode {
    let outcome = match Args::parse().verb {
        Verb::Demo(args) => demo::run(&args),
        Verb::Host(args) => host::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
