//! The exit codes that scripts may rely on.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use codex_bridge_core::task::{ShownStatus, Status};

use crate::failure::{Code, Exit, Failure};
use crate::view::Task;

/// The task completed, or the command did what it was asked to.
pub const DONE: u8 = 0;
/// The task failed, was lost or is paused; or the command could not do it.
pub const FAILED: u8 = Exit::Failed as u8;
/// The command line is wrong, or names what is not there.
pub const USAGE: u8 = Exit::Usage as u8;
/// The task needs an answer, and no one here can give it.
pub const NEEDS_ANSWER: u8 = Exit::NeedsAnswer as u8;
/// The time is up, or the task is not at its end yet.
pub const TIME_OUT: u8 = 4;
/// The task was interrupted, or the person left it.
pub const INTERRUPTED: u8 = 130;

/// The exit code that tells how a task stands.
pub fn of(task: &Task) -> ExitCode {
    let status = match task.status {
        ShownStatus::WaitingForApproval | ShownStatus::WaitingForUserInput => {
            return ExitCode::from(NEEDS_ANSWER);
        }
        ShownStatus::Stored(status) => status,
    };
    ExitCode::from(match status {
        Status::Completed => DONE,
        Status::Failed | Status::Lost | Status::Paused => FAILED,
        Status::Cancelled => INTERRUPTED,
        Status::Queued | Status::Starting | Status::Working | Status::Interrupting => TIME_OUT,
    })
}

/// A task waits for an answer that cannot be given here.
pub fn needs_answer(task_id: &str) -> Failure {
    let id = short(task_id);
    Failure::new(Code::NeedsAnswer, format!("task {id} waits for an answer, and nobody here can give it"))
        .hint(format!(
            "`codex-bridge requests` shows what it asks; `codex-bridge approve {id}` or `decline` answers"
        ))
}
