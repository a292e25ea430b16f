//! `codex-bridge serve`: runs the daemon of a state directory in the foreground.

use std::net::SocketAddr;
use std::process::ExitCode;

use super::Globals;
use crate::daemon::{self, Start, StartOptions};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// Start a new session and report on stdout; used by commands that start the daemon
    #[arg(long, hide = true)]
    detached: bool,
    /// Also listen on this TCP address for callers with a token, such as 127.0.0.1:7777
    #[arg(long, value_name = "ADDR", value_parser = address)]
    listen: Option<SocketAddr>,
    /// A TLS proxy is in front: allow addresses other than loopback, and send cookies over TLS only
    #[arg(long)]
    behind_proxy: bool,
}

fn address(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| "write an IP address with a port, such as 127.0.0.1:7777")
}

pub fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let start = if args.detached { Start::Detached } else { Start::Foreground };
    let options = StartOptions { start, listen: args.listen, behind_proxy: args.behind_proxy, channel: None };
    daemon::serve(&globals.paths()?, options)?;
    Ok(ExitCode::SUCCESS)
}
