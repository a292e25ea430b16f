//! `codex-bridge mcp`: the MCP server on stdin and stdout.

use std::process::ExitCode;

use super::Globals;
use super::delegate::Lending;
use crate::failure::{Code, Failure};
use crate::{config, mcp, peer};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    lending: Lending,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let paths = globals.paths()?;
    if peer::is_below_a_host(std::process::id()) && !config::load(&paths)?.allow_nested_mcp {
        return Err(Failure::new(
            Code::Nested,
            "this MCP server was started by a Codex that codex-bridge runs",
        )
        .hint(
            "a task that starts tasks has no end; the operator can allow it with `allow_nested_mcp = true`",
        ));
    }
    mcp::serve_stdio(globals.client()?, args.lending.role).await?;
    Ok(ExitCode::SUCCESS)
}
