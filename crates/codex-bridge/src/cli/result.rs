//! `codex-bridge result`: the answer of a task, and nothing else.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use redact::plain::plain;

use super::{Globals, exit, output};
use crate::failure::{Code, Failure};
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
    Ok(exit::of(&task))
}

/// The exit status says how the task stands: there is no answer yet, which is not an error of ours.
fn unfinished(task: &Task) -> Result<ExitCode, Failure> {
    if !task.pending_requests.is_empty() {
        return Err(exit::needs_answer(&task.task_id));
    }
    let id = short(&task.task_id);
    let message = format!("task {id} is {}: it has no result yet", task.status);
    let hint = format!("`codex-bridge wait {id}` waits for its end");
    output::note(format!("error: {}", Failure::new(Code::WrongState, message).hint(hint)));
    Ok(exit::of(task))
}
