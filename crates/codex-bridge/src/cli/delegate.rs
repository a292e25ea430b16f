//! The role that verbs for agents lend out: whoever speaks through them may do no more.

use codex_bridge_core::token::Role;

#[derive(clap::Args)]
pub struct Lending {
    /// What the agent may do: an `operator` hands over work and leaves it to people to answer what Codex asks, an
    /// `approver` answers it too
    #[arg(long, value_parser = lent, default_value_t = Role::Operator)]
    pub role: Role,
}

/// A viewer could hand over nothing.
fn lent(word: &str) -> Result<Role, String> {
    match word.parse() {
        Ok(Role::Viewer) | Err(_) => Err("use operator or approver".to_owned()),
        Ok(role) => Ok(role),
    }
}
