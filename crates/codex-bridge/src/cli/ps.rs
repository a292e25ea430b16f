//! `codex-bridge ps`: lists the tasks.

use std::process::ExitCode;

use super::render::task::table;
use super::terminal::Terminal;
use super::{Globals, number, output};
use crate::amount::now_ms;
use crate::calls::List;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// Also list tasks that ended more than a day ago
    #[arg(short, long)]
    all: bool,
    /// List only tasks with this status, such as working or "needs approval"
    #[arg(long)]
    status: Option<String>,
    /// List at most N tasks
    #[arg(short = 'n', long, value_name = "N", value_parser = number::whole::<u32>)]
    limit: Option<u32>,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    let list = List { status: args.status, all: args.all, limit: args.limit, ..List::default() };
    let tasks = globals.client()?.list(&list).await?;
    let terminal = Terminal::of_stdout();
    if globals.json {
        output::json(&tasks)?;
    } else if tasks.is_empty() {
        output::lines(&[format!("no tasks{}", if args.all { "" } else { "; --all shows older ones" })])?;
    } else {
        output::lines(&table(&tasks, terminal.paint, terminal.columns(), now_ms()))?;
    }
    Ok(ExitCode::SUCCESS)
}
