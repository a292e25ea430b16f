//! `codex-bridge steer`: add to the turn that runs.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::{Globals, exit, output, prompt};
use crate::failure::{Code, Failure};

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// What to add; `-` reads it from stdin
    text: String,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let said = globals.client()?.steer(&args.id, &prompt::read(&args.text)?).await?;
    let was_taken = said.outcome == "accepted";
    if globals.json {
        output::json(&said)?;
    } else if was_taken {
        output::lines(&[format!("added to the running turn of {}", short(&said.task.task_id))])?;
    } else {
        return Err(refused(&said.outcome, said.message.as_deref(), short(&said.task.task_id)));
    }
    Ok(ExitCode::from(if was_taken { exit::DONE } else { exit::FAILED }))
}

fn refused(outcome: &str, message: Option<&str>, task_id: &str) -> Failure {
    let why = match (outcome, message) {
        (_, Some(message)) => {
            return Failure::new(Code::NotSteered, format!("Codex has not confirmed it: {message}"));
        }
        ("no_active_turn", _) => "no turn runs any more",
        ("wrong_turn", _) => "another turn has begun in between",
        ("not_steerable", _) => "this kind of turn cannot be steered",
        (other, _) => other,
    };
    Failure::new(Code::NotSteered, format!("Codex did not take it: {why}"))
        .hint(format!("`codex-bridge continue {task_id} …` gives it another turn once it is at rest"))
}
