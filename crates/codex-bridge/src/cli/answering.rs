//! What `approve`, `decline` and `answer` share: sending a decision and telling what came of it.

use std::process::ExitCode;

use codex_session::Decision;

use super::render::story::decided;
use super::{Globals, exit, output};
use crate::failure::Failure;
use crate::view::Decided;

/// Sends a decision; returns when Codex took it.
pub async fn decide(
    globals: &Globals,
    id: &str,
    request: Option<&str>,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let report = globals.client()?.decide(id, request, decision).await?;
    if globals.json {
        output::json(&report)?;
    } else {
        output::lines(&[told(&report)])?;
    }
    Ok(ExitCode::from(match report.outcome.as_str() {
        "resolved" => exit::DONE,
        "sent" => exit::TIME_OUT,
        // Who comes too late has not decided anything.
        _ => exit::FAILED,
    }))
}

/// What came of a decision, in a sentence.
pub fn told(report: &Decided) -> String {
    let decision = decided(report.decision.as_deref().unwrap_or_default());
    let request = &report.request_id;
    match report.outcome.as_str() {
        "resolved" => format!("{request} {decision}"),
        "sent" => format!("{request} {decision}; Codex has not confirmed it yet"),
        "already_resolved" => {
            let by = report.decided_by.as_deref().map(|by| format!(" by {by}")).unwrap_or_default();
            let at = report.decided_at.as_deref().map(|at| format!(" at {at}")).unwrap_or_default();
            format!("too late: {request} was {decision}{by}{at}")
        }
        "expired" => format!("too late: {request} was declined when its time was up"),
        "orphaned" => format!("too late: the turn or the host of {request} ended first"),
        other => format!("{request}: {other}"),
    }
}
