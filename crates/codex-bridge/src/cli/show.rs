//! `codex-bridge show`: shows one task in full.

use std::process::ExitCode;

use super::render::task::task as render;
use super::terminal::Terminal;
use super::{Globals, TaskArgs};
use crate::amount::now_ms;
use crate::failure::Failure;

pub async fn run(globals: &Globals, args: &TaskArgs) -> Result<ExitCode, Failure> {
    let task = globals.client()?.show(&args.id).await?;
    let terminal = Terminal::of_stdout();
    globals.print(&task, |task| render(task, terminal.paint, terminal.columns(), now_ms()))
}
