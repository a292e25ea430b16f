//! `codex-bridge logs`: prints a task's log for people.

use std::process::ExitCode;

use super::render::log::LogRenderer;
use super::terminal::Terminal;
use super::{Globals, events, output};
use crate::calls::Events;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// Follow the log until the task is finished
    #[arg(short, long)]
    follow: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let options = Events { follow: args.follow, ..Events::default() };
    if globals.json {
        return events::print(&client, &args.id, &options).await;
    }
    let terminal = Terminal::of_stdout();
    let mut renderer = LogRenderer::new(terminal.paint, terminal.columns());
    let mut log = client.events(&args.id, &options).await?;
    while let Some(event) = log.next().await? {
        renderer.set_width(terminal.columns());
        output::lines(&renderer.render(&event))?;
    }
    Ok(ExitCode::SUCCESS)
}
