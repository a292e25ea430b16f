//! `codex-bridge mcp`: the MCP server on stdin and stdout.

use std::process::ExitCode;

use codex_bridge_core::token::Role;

use super::Globals;
use crate::failure::Failure;
use crate::{config, mcp, peer};

#[derive(clap::Args)]
pub struct Args {
    /// What whoever speaks to this server may do: an `operator` hands over work and cannot answer what Codex asks, so
    /// that a person does [default: approver]
    #[arg(long, value_parser = lent)]
    role: Option<Role>,
}

/// A viewer could do nothing here.
fn lent(word: &str) -> Result<Role, String> {
    match word.parse()? {
        Role::Viewer => Err("use operator or approver".to_owned()),
        role => Ok(role),
    }
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let paths = globals.paths()?;
    if peer::is_below_a_host(std::process::id()) && !config::load(&paths)?.allow_nested_mcp {
        return Err(Failure::new("nested", "this MCP server was started by a Codex that codex-bridge runs")
            .hint("a task that starts tasks has no end; the operator can allow it with `allow_nested_mcp = true`"));
    }
    mcp::serve_stdio(globals.client()?, args.role.unwrap_or(Role::Approver)).await?;
    Ok(ExitCode::SUCCESS)
}
