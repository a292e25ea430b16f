//! `codex-bridge steer`: adds text to the running turn.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::{Globals, prompt};
use crate::calls::Steer;
use crate::failure::Failure;
use crate::view::Outcome;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// The text; `-` reads it from stdin
    text: String,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let steer = Steer { text: prompt::read(&args.text)? };
    let report: Outcome = globals.client()?.post(&["tasks", &args.id, "steer"], &steer).await?;
    globals.print(&report, |report| {
        vec![format!("added to the running turn of {}", short(&report.task.task_id))]
    })
}
