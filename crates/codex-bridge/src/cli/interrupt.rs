//! `codex-bridge interrupt`: stop what runs. Returns when Codex has confirmed it.

use std::process::ExitCode;

use codex_bridge_core::id::short;

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
        return Ok(ExitCode::SUCCESS);
    }
    let (id, status) = (short(&said.task.task_id), said.task.status);
    let had_ended = said.outcome == "ended_first";
    let told =
        if had_ended { format!("{id} had ended by itself: {status}") } else { format!("{id} is {status}") };
    output::lines(&[told])?;
    Ok(ExitCode::SUCCESS)
}
