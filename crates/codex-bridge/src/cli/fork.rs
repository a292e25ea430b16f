//! `codex-bridge fork`: a branch of a task at rest, with all that was said so far.

use std::process::ExitCode;

use super::watch::{Unattended, to_the_end};
use super::{Globals, output, prompt};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// What the branch does first; `-` reads it from stdin. Without it the branch waits for a `continue`
    prompt: Option<String>,
    /// Print the branch's id and return; it works on
    #[arg(short, long)]
    detach: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let prompt = args.prompt.as_deref().map(prompt::read).transpose()?;
    let task = client.fork(&args.id, prompt.as_deref()).await?;
    if globals.json {
        output::json(&task)?;
    } else if prompt.is_some() && !args.detach {
        return to_the_end(&client, &task, 0, Unattended::Interrupts).await;
    } else {
        output::lines(std::slice::from_ref(&task.task_id))?;
    }
    Ok(ExitCode::SUCCESS)
}
