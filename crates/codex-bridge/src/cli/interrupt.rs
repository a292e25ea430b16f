//! `codex-bridge interrupt`: stops the running turn. Returns when Codex has confirmed it.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::{Globals, TaskArgs};
use crate::failure::Failure;
use crate::view::OutcomeWord;

pub async fn run(globals: &Globals, args: &TaskArgs) -> Result<ExitCode, Failure> {
    let report = globals.client()?.interrupt(&args.id).await?;
    globals.print(&report, |report| {
        let (id, status) = (short(&report.task.task_id), report.task.status);
        vec![match report.outcome {
            OutcomeWord::EndedFirst => format!("{id} had ended before the interrupt: {status}"),
            _ => format!("{id} is {status}"),
        }]
    })
}
