//! `codex-bridge events`: prints a task's log for programs, as JSON lines without gaps.

use std::process::ExitCode;

use super::{Globals, number, output};
use crate::calls::Events;
use crate::client::Client;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// Print only events after this number
    #[arg(long, value_name = "SEQ", default_value_t = 0, value_parser = number::whole::<i64>)]
    after: i64,
    /// Follow the log until the task is finished
    #[arg(short, long)]
    follow: bool,
    /// Also print text as it is written: lines of kind `live`, which have no number and are not stored
    #[arg(long, requires = "follow")]
    live: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let options = Events { after: args.after, follow: args.follow, live: args.live, ..Events::default() };
    print(&globals.client()?, &args.id, &options).await
}

/// Prints a log as JSON lines.
pub async fn print(client: &Client, id: &str, options: &Events) -> Result<ExitCode, Failure> {
    let mut log = client.events(id, options).await?;
    while let Some(event) = log.next().await? {
        output::json(&event)?;
    }
    Ok(ExitCode::SUCCESS)
}
