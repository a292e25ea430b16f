//! `codex-bridge continue`: starts another turn of a finished task.

use std::process::ExitCode;

use serde_json::json;

use super::watch::{CtrlC, watch};
use super::{Globals, output, prompt};
use crate::calls::Prompt;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// What Codex should do next; `-` reads the prompt from stdin
    prompt: String,
    /// Print the task's id and return; the task continues
    #[arg(short, long)]
    detach: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let turn = Prompt { prompt: prompt::read(&args.prompt)?, client_request_id: None };
    let task = client.continue_task(&args.id, &turn).await?;
    // The log of earlier turns is not shown again.
    let after = task.turn.map_or(0, |turn| turn.after);
    match (globals.json, args.detach) {
        (true, _) => output::json(&json!({"outcome": "queued", "task": task}))?,
        (false, true) => output::lines(std::slice::from_ref(&task.task_id))?,
        (false, false) => return watch(&client, &task, after, CtrlC::Interrupts).await,
    }
    Ok(ExitCode::SUCCESS)
}
