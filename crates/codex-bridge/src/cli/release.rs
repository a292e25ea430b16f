//! `codex-bridge release`: frees a task's thread for another program, such as Codex's own terminal.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::{Globals, TaskArgs};
use crate::failure::Failure;
use crate::view::Task;

pub async fn run(globals: &Globals, args: &TaskArgs) -> Result<ExitCode, Failure> {
    let task: Task = globals.client()?.post(&["tasks", &args.id, "release"], &()).await?;
    globals.print(&task, |task| {
        let mut lines = vec![format!("the thread of {} is free", short(&task.task_id))];
        lines.extend(task.thread_id.as_ref().map(|thread_id| format!("  codex resume {thread_id}")));
        lines
    })
}
