//! `codex-bridge continue`: another turn for a task at rest.

use std::process::ExitCode;

use serde_json::json;

use super::watch::{Unattended, to_the_end};
use super::{Globals, output, prompt};
use crate::calls::Prompt;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// What Codex shall do next; `-` reads it from stdin
    prompt: String,
    /// Return at once; it works on
    #[arg(short, long)]
    detach: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let turn = Prompt { prompt: prompt::read(&args.prompt)?, client_request_id: None };
    let task = client.continue_task(&args.id, &turn).await?;
    // What was told before is not told again.
    let after = task.turn.map_or(0, |turn| turn.after);
    match (globals.json, args.detach) {
        (true, _) => output::json(&json!({"outcome": "queued", "task": task}))?,
        (false, true) => output::lines(std::slice::from_ref(&task.task_id))?,
        (false, false) => return to_the_end(&client, &task, after, Unattended::Interrupts).await,
    }
    Ok(ExitCode::SUCCESS)
}
