//! `codex-bridge fork`: makes a new task from a finished one, with the whole conversation so far.

use std::process::ExitCode;

use super::watch::{CtrlC, watch};
use super::{Globals, output, prompt};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// What the new task should do; `-` reads the prompt from stdin. Without a prompt the new task waits for `continue`
    prompt: Option<String>,
    /// Print the new task's id and return; the new task continues
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
        return watch(&client, &task, 0, CtrlC::Interrupts).await;
    } else {
        output::lines(std::slice::from_ref(&task.task_id))?;
    }
    Ok(ExitCode::SUCCESS)
}
