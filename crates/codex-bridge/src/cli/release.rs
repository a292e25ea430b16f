//! `codex-bridge release`: frees a task's thread for another program, such as Codex's own terminal.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::{Globals, output};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let task = globals.client()?.release(&args.id).await?;
    if globals.json {
        output::json(&task)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut lines = vec![format!("the thread of {} is free", short(&task.task_id))];
    lines.extend(task.thread_id.map(|thread_id| format!("  codex resume {thread_id}")));
    output::lines(&lines)?;
    Ok(ExitCode::SUCCESS)
}
