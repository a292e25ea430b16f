//! `codex-bridge fork`: makes a new task from a finished one, with the whole conversation so far.

use std::process::ExitCode;

use super::watch::{CtrlC, watch};
use super::{Globals, prompt};
use crate::calls::Fork;
use crate::failure::Failure;
use crate::view::Task;

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

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let prompt = args.prompt.as_deref().map(prompt::read).transpose()?;
    let is_watched = prompt.is_some() && !args.detach && !globals.json;
    let fork = Fork { prompt, client_request_id: None };
    let task: Task = client.post(&["tasks", &args.id, "fork"], &fork).await?;
    if is_watched {
        return watch(&client, &task, 0, CtrlC::Interrupts).await;
    }
    globals.print(&task, |task| vec![task.task_id.clone()])
}
