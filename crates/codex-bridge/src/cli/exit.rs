//! The exit codes that scripts may rely on.

use std::process::ExitCode;

use codex_bridge_core::task::Status;

use crate::failure::Failure;
use crate::view::Task;

/// The task completed, or the command did what it was asked to.
pub const DONE: u8 = 0;
/// The task failed, was lost or is paused; or the command could not do it.
pub const FAILED: u8 = 1;
/// The command line is wrong, or names what is not there.
pub const USAGE: u8 = 2;
/// The task needs an answer, and no one here can give it.
pub const NEEDS_ANSWER: u8 = 3;
/// The time is up, or the task is not at its end yet.
pub const TIME_OUT: u8 = 4;
/// The task was interrupted, or the person left it.
pub const INTERRUPTED: u8 = 130;

/// The exit code that tells how a task stands.
pub fn of(task: &Task) -> ExitCode {
    ExitCode::from(match task.status {
        Status::Completed => DONE,
        Status::Failed | Status::Lost | Status::Paused => FAILED,
        Status::Cancelled => INTERRUPTED,
        Status::WaitingForApproval | Status::WaitingForUserInput => NEEDS_ANSWER,
        Status::Queued | Status::Starting | Status::Working | Status::Interrupting => TIME_OUT,
    })
}

/// What the caller got wrong: words that are not known, things that are not there, wishes that nobody may have.
const USAGE_CODES: [&str; 34] = [
    "ambiguous_task",
    "approval_policy_refused",
    "bad_answers",
    "bad_call",
    "bad_cwd",
    "bad_directory",
    "bad_limit",
    "bad_name",
    "bad_timeout",
    "config",
    "cwd_outside_roots",
    "empty_prompt",
    "home_not_listed",
    "key_reused",
    "listen_beyond_loopback",
    "missing_parameter",
    "no_home",
    "no_roots",
    "not_confirmed",
    "profile_refused",
    "sandbox_refused",
    "token_exists",
    "unknown_approval_policy",
    "unknown_decision",
    "unknown_delivery",
    "unknown_directory",
    "unknown_profile",
    "unknown_request",
    "unknown_sandbox",
    "unknown_status",
    "unknown_target",
    "unknown_task",
    "unknown_token",
    "usage",
];

/// The exit code of a failure.
pub fn of_failure(failure: &Failure) -> u8 {
    match failure.code.as_str() {
        "needs_answer" => NEEDS_ANSWER,
        "not_finished" => TIME_OUT,
        code if USAGE_CODES.contains(&code) => USAGE,
        _ => FAILED,
    }
}

/// A task waits for an answer that cannot be given here.
pub fn needs_answer(task_id: &str) -> Failure {
    Failure::new("needs_answer", format!("task {task_id} waits for an answer, and nobody here can give it")).hint(
        format!("`codex-bridge requests` shows what it asks; `codex-bridge approve {task_id}` or `decline` answers"),
    )
}
