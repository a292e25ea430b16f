//! `codex-bridge ps`: lists the tasks.

use std::process::ExitCode;

use super::render::task::table;
use super::terminal::Terminal;
use super::{Globals, number};
use crate::amount::now_ms;
use crate::calls::List;
use crate::failure::Failure;
use crate::view::ShortTask;

#[derive(clap::Args)]
pub struct Args {
    /// Also list tasks that ended more than a day ago
    #[arg(short, long)]
    all: bool,
    /// List only tasks with this status, such as working or "needs approval"
    #[arg(long)]
    status: Option<String>,
    /// List at most N tasks
    #[arg(short = 'n', long, value_name = "N", value_parser = number::whole::<i64>)]
    limit: Option<i64>,
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    let list = List { status: args.status, all: args.all, limit: args.limit, ..List::default() };
    let tasks: Vec<ShortTask> = globals.client()?.get(&["tasks"], &list).await?;
    let terminal = Terminal::of_stdout();
    let none = if args.all { "no tasks" } else { "no tasks; --all shows older ones" };
    globals.print_list(&tasks, none, |tasks| table(tasks, terminal.paint, terminal.columns(), now_ms()))
}
