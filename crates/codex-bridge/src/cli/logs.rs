//! `codex-bridge logs`: a task's log as people read it.

use std::process::ExitCode;

use super::render::story::Story;
use super::terminal::Terminal;
use super::{Globals, events, output};
use crate::calls::Events;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// Go on until the task is at rest
    #[arg(short, long)]
    follow: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let which = Events { follow: args.follow, ..Events::default() };
    if globals.json {
        return events::print(&client, &args.id, &which).await;
    }
    let terminal = Terminal::of_stdout();
    let mut story = Story::new(terminal.paint, terminal.columns());
    let mut log = client.events(&args.id, &which).await?;
    while let Some(event) = log.next().await? {
        story.set_room(terminal.columns());
        output::lines(&story.tell(&event))?;
    }
    Ok(ExitCode::SUCCESS)
}
