//! `codex-bridge result`: the answer of a task, and nothing else.

use std::process::ExitCode;

use redact::plain::plain;

use super::{Globals, exit, output};
use crate::failure::Failure;
use crate::view::Task;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let task = globals.client()?.show(&args.id).await?;
    if globals.json {
        output::json(&task)?;
        return Ok(exit::of(&task));
    }
    if !task.status.is_at_rest() {
        return Err(unfinished(&task));
    }
    if let Some(answer) = &task.final_text {
        output::lines(&[plain(answer).into_owned()])?;
    }
    if let Some(error) = &task.error {
        eprintln!("error: {}", plain(&error.message));
    } else if let Some(reason) = &task.reason {
        eprintln!("{}: {}", task.status, plain(reason));
    }
    Ok(exit::of(&task))
}

fn unfinished(task: &Task) -> Failure {
    if !task.pending_requests.is_empty() {
        return exit::needs_answer(&task.task_id);
    }
    Failure::new("not_finished", format!("task {} is {}", task.task_id, task.status))
        .hint(format!("`codex-bridge wait {}` waits for its end", task.task_id))
}
