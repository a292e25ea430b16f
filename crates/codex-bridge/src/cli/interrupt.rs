//! `codex-bridge interrupt`: stops the running turn. Returns when Codex has confirmed it.

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
    let report = globals.client()?.interrupt(&args.id).await?;
    if globals.json {
        output::json(&report)?;
        return Ok(ExitCode::SUCCESS);
    }
    let (id, status) = (short(&report.task.task_id), report.task.status);
    output::lines(&[match report.outcome.as_str() {
        "ended_first" => format!("{id} had ended before the interrupt: {status}"),
        _ => format!("{id} is {status}"),
    }])?;
    Ok(ExitCode::SUCCESS)
}
