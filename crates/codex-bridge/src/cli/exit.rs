//! The exit codes, which scripts may rely on.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use codex_bridge_core::task::{ShownStatus, Status};

use crate::failure::{Code, Exit, Failure};
use crate::view::Task;

/// The task completed, or the command succeeded.
pub const SUCCESS: u8 = 0;
/// The task failed, was lost or is paused; or the command failed.
pub const FAILED: u8 = Exit::Failed as u8;
/// The command line is wrong, or names something that does not exist.
pub const USAGE: u8 = Exit::Usage as u8;
/// The task needs an answer, and there is no terminal to ask on.
pub const NEEDS_ANSWER: u8 = Exit::NeedsAnswer as u8;
/// The timeout passed, or the task is not finished yet.
pub const TIMEOUT: u8 = 4;
/// The task was interrupted, or the person detached.
pub const INTERRUPTED: u8 = 130;

/// The exit code for a task's status.
pub fn code_of(task: &Task) -> ExitCode {
    let status = match task.status {
        ShownStatus::WaitingForApproval | ShownStatus::WaitingForUserInput => {
            return ExitCode::from(NEEDS_ANSWER);
        }
        ShownStatus::Stored(status) => status,
    };
    ExitCode::from(match status {
        Status::Completed => SUCCESS,
        Status::Failed | Status::Lost | Status::Paused => FAILED,
        Status::Cancelled => INTERRUPTED,
        Status::Queued | Status::Starting | Status::Working | Status::Interrupting => TIMEOUT,
    })
}

/// A task needs an answer that cannot be given without a terminal.
pub fn needs_answer(task_id: &str) -> Failure {
    let id = short(task_id);
    Failure::new(Code::NeedsAnswer, format!("task {id} waits for an answer")).hint(format!(
        "`codex-bridge requests {id}` shows the request; `codex-bridge approve {id}`, `decline` or `answer` decides it"
    ))
}
