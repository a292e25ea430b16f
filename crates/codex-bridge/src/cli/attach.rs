//! `codex-bridge attach`: watch a task from its beginning, and answer what it asks.

use std::process::ExitCode;

use super::Globals;
use super::run::awaited;
use super::watch::{Unattended, to_the_end};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let task = client.show(&args.id).await?;
    if globals.json {
        return awaited(&client, &task.task_id, Unattended::Leaves).await;
    }
    to_the_end(&client, &task, 0, Unattended::Leaves).await
}
