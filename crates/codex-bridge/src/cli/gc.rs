//! `codex-bridge gc`: deletes tasks that are older than `keep_days`.

use std::process::ExitCode;

use super::Globals;
use crate::failure::Failure;
use crate::view::Forgotten;

pub async fn run(globals: &Globals) -> Result<ExitCode, Failure> {
    let deleted: Forgotten = globals.client()?.post(&["gc"], &()).await?;
    globals.print(&deleted, |deleted| vec![format!("deleted tasks: {}", deleted.tasks)])
}
