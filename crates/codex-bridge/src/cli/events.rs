//! `codex-bridge events`: a task's log as programs read it, one JSON object a line, without gaps.

use std::process::ExitCode;

use super::{Globals, output};
use crate::calls::Events;
use crate::client::Client;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// Only events with a higher number
    #[arg(long, value_name = "SEQ", default_value_t = 0)]
    after: i64,
    /// Go on until the task is at rest
    #[arg(short, long)]
    follow: bool,
    /// With text as it is written: lines of kind `live`, which have no number and are not kept
    #[arg(long, requires = "follow")]
    live: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let which = Events { after: args.after, follow: args.follow, live: args.live, ..Events::default() };
    print(&globals.client()?, &args.id, &which).await
}

/// Prints a log as JSON lines.
pub async fn print(client: &Client, id: &str, which: &Events) -> Result<ExitCode, Failure> {
    let mut log = client.events(id, which).await?;
    while let Some(event) = log.next().await? {
        output::json(&event)?;
    }
    Ok(ExitCode::SUCCESS)
}
