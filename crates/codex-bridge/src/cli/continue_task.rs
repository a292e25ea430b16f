//! `codex-bridge continue`: another turn for a task at rest.

use std::process::ExitCode;

use serde_json::json;

use super::watch::{Unattended, to_the_end};
use super::{Globals, output, prompt};
use crate::calls::Events;
use crate::client::Client;
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
    let prompt = prompt::read(&args.prompt)?;
    let after = if args.detach || globals.json { 0 } else { last_seq(&client, &args.id).await? };
    let task = client.continue_task(&args.id, &prompt).await?;
    match (globals.json, args.detach) {
        (true, _) => output::json(&json!({"outcome": "queued", "task": task}))?,
        (false, true) => output::lines(std::slice::from_ref(&task.task_id))?,
        (false, false) => return to_the_end(&client, &task, after, Unattended::Interrupts).await,
    }
    Ok(ExitCode::SUCCESS)
}

/// The end of the log so far: what was told before is not told again.
async fn last_seq(client: &Client, id: &str) -> Result<i64, Failure> {
    let mut events = client.events(id, &Events::default()).await?;
    let mut last = 0;
    while let Some(event) = events.next().await? {
        last = event.seq.unwrap_or(last);
    }
    Ok(last)
}
