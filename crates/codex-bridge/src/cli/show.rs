//! `codex-bridge show`: shows one task in full.

use std::process::ExitCode;

use super::render::task::task as render;
use super::terminal::Terminal;
use super::{Globals, output};
use crate::amount::now_ms;
use crate::failure::Failure;
use crate::view::Task;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let task = globals.client()?.show(&args.id).await?;
    print(globals, &task)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a task: lines for people, or JSON.
pub fn print(globals: &Globals, task: &Task) -> Result<(), Failure> {
    if globals.json {
        return output::json(task);
    }
    let terminal = Terminal::of_stdout();
    output::lines(&render(task, terminal.paint, terminal.columns(), now_ms()))
}
