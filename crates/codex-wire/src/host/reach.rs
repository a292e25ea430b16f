//! How hosts are reached: as processes of our own user, or through a launcher under another one.

use std::path::Path;

use super::Error;
use super::launcher::Client;
use crate::codex_home::CodexHome;
use crate::escalation::Escalation;

/// How hosts are reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reach {
    /// Hosts run as our own user.
    #[default]
    Own,
    /// Hosts run as another user, through that user's launcher.
    Launcher(Client),
}

impl Reach {
    /// Reads the configuration and the login of a CODEX_HOME.
    pub async fn home(&self, dir: &Path) -> Result<CodexHome, Error> {
        match self {
            Reach::Own => Ok(CodexHome::read(dir)),
            Reach::Launcher(launcher) => launcher.home(dir).await,
        }
    }

    /// Whether the pending call with this id asks to leave the sandbox, by the rollout of its thread.
    pub async fn escalation(&self, rollout: &Path, call_id: &str) -> Escalation {
        match self {
            Reach::Own => {
                let (rollout, call_id) = (rollout.to_owned(), call_id.to_owned());
                let look = move || Escalation::of_call(&rollout, &call_id);
                tokio::task::spawn_blocking(look).await.unwrap_or(Escalation::Unknown)
            }
            Reach::Launcher(launcher) => {
                launcher.escalation(rollout, call_id).await.unwrap_or(Escalation::Unknown)
            }
        }
    }
}
