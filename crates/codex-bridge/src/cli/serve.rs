//! `codex-bridge serve`: the daemon of a state directory, in the foreground.

use std::process::ExitCode;

use super::Globals;
use crate::daemon::{self, Start};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// Begin a session of its own and report on stdout; used when a command starts the daemon
    #[arg(long, hide = true)]
    detached: bool,
}

pub fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let start = if args.detached { Start::Detached } else { Start::Foreground };
    daemon::serve(&globals.paths()?, start)?;
    Ok(ExitCode::SUCCESS)
}
