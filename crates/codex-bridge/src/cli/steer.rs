//! `codex-bridge steer`: adds text to the running turn.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::{Globals, exit, output, prompt};
use crate::failure::{Code, Failure};

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// The text; `-` reads it from stdin
    text: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let report = globals.client()?.steer(&args.id, &prompt::read(&args.text)?).await?;
    let was_accepted = report.outcome == "accepted";
    if globals.json {
        output::json(&report)?;
    } else if was_accepted {
        output::lines(&[format!("added to the running turn of {}", short(&report.task.task_id))])?;
    } else {
        return Err(refused(&report.outcome, report.message.as_deref(), short(&report.task.task_id)));
    }
    Ok(ExitCode::from(if was_accepted { exit::SUCCESS } else { exit::FAILED }))
}

fn refused(outcome: &str, message: Option<&str>, task_id: &str) -> Failure {
    let reason = match (outcome, message) {
        (_, Some(message)) => {
            return Failure::new(Code::NotSteered, format!("Codex has not confirmed the text: {message}"));
        }
        ("no_active_turn", _) => "no turn is running any more",
        ("wrong_turn", _) => "another turn has started since",
        ("not_steerable", _) => "this kind of turn cannot be steered",
        (other, _) => other,
    };
    Failure::new(Code::NotSteered, format!("Codex did not accept the text: {reason}"))
        .hint(format!("`codex-bridge continue {task_id} …` starts another turn once the task is finished"))
}
