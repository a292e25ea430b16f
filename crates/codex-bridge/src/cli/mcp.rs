//! `codex-bridge mcp`: runs an MCP server on stdin and stdout.

use std::process::ExitCode;

use super::Globals;
use super::delegate::AgentRole;
use crate::failure::{Code, Failure};
use crate::{config, mcp, socket_access};

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    agent: AgentRole,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let paths = globals.paths()?;
    if socket_access::is_below_a_host(std::process::id()) && !config::load(&paths)?.allow_nested_mcp {
        return Err(Failure::new(
            Code::Nested,
            "this MCP server was started by a Codex that codex-bridge started",
        )
        .hint(
            "tasks that start tasks may never end; the operator can allow them with `allow_nested_mcp = true`",
        ));
    }
    mcp::serve_stdio(globals.client()?, args.agent.role).await?;
    Ok(ExitCode::SUCCESS)
}
