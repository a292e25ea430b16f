//! `codex-bridge result`: prints a task's answer, and nothing else.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use redact::plain::plain;

use super::{Globals, TaskArgs, exit, output};
use crate::failure::{Code, Failure};
use crate::view::Task;

pub async fn run(globals: &Globals, args: &TaskArgs) -> Result<ExitCode, Failure> {
    let task = globals.client()?.show(&args.id).await?;
    if globals.json {
        output::json(&task)?;
        return Ok(exit::code_of(&task));
    }
    if !task.status.is_finished() {
        return unfinished(&task);
    }
    if let Some(answer) = &task.final_text {
        output::lines(&[plain(answer).into_owned()])?;
    }
    if let Some(error) = &task.error {
        output::note(format!("error: {}", plain(&error.message)));
    } else if let Some(reason) = &task.reason {
        output::note(format!("{}: {}", task.status, plain(reason)));
    }
    Ok(exit::code_of(&task))
}

/// Reports that there is no answer yet. The exit code is that of the task's status, not of a failed command.
fn unfinished(task: &Task) -> Result<ExitCode, Failure> {
    if !task.pending_requests.is_empty() {
        return Err(exit::needs_answer(&task.task_id));
    }
    let id = short(&task.task_id);
    let message = format!("task {id} is {}: it has no result yet", task.status);
    let hint = format!("`codex-bridge wait {id}` waits until the task is finished");
    output::note(format!("error: {}", Failure::new(Code::WrongState, message).hint(hint)));
    Ok(exit::code_of(task))
}
