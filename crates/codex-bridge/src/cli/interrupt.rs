//! `codex-bridge interrupt`: stop what runs. Returns when Codex has confirmed it.

use std::process::ExitCode;

use super::{Globals, output};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let said = globals.client()?.interrupt(&args.id).await?;
    if globals.json {
        output::json(&said)?;
    } else if said.outcome == "ended_first" {
        output::lines(&[format!("{} had ended by itself: {}", said.task.task_id, said.task.status)])?;
    } else {
        output::lines(&[format!("{} is {}", said.task.task_id, said.task.status)])?;
    }
    Ok(ExitCode::SUCCESS)
}
