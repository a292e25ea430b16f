//! The role that `mcp` and `tool` give to the agent that calls them. The agent may do no more than the role allows.

use codex_bridge_core::token::Role;

#[derive(clap::Args)]
pub struct AgentRole {
    /// What the agent may do: an operator starts and steers tasks, an approver also decides Codex's requests
    #[arg(long, value_parser = parse, default_value_t = Role::Operator)]
    pub role: Role,
}

/// Parses a role. A viewer could not start tasks.
fn parse(word: &str) -> Result<Role, String> {
    match word.parse() {
        Ok(Role::Viewer) | Err(_) => Err("use operator or approver".to_owned()),
        Ok(role) => Ok(role),
    }
}
