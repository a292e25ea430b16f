//! `codex-bridge serve`: the daemon of a state directory, in the foreground.

use std::net::SocketAddr;
use std::process::ExitCode;

use super::Globals;
use crate::daemon::{self, Orders, Start};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// Begin a session of its own and report on stdout; used when a command starts the daemon
    #[arg(long, hide = true)]
    detached: bool,
    /// Answer on this address too, for whoever has a token; such as 127.0.0.1:7777
    #[arg(long, value_name = "ADDR")]
    listen: Option<SocketAddr>,
    /// A proxy in front speaks TLS: the address may lie beyond this machine, and cookies are sent over TLS only
    #[arg(long)]
    behind_proxy: bool,
}

pub fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let start = if args.detached { Start::Detached } else { Start::Foreground };
    let orders = Orders { start, listen: args.listen, behind_proxy: args.behind_proxy, channel: None };
    daemon::serve(&globals.paths()?, orders)?;
    Ok(ExitCode::SUCCESS)
}
