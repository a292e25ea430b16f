//! Shared by `approve`, `decline` and `answer`: sends a decision and prints its outcome.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use codex_bridge_core::bridge::{DecisionOutcome, RequestSelector};
use codex_bridge_core::id::short;
use codex_bridge_core::request::{DecisionWord, RequestState};
use codex_session::Decision;

use super::render::request::whole_request;
use super::terminal::Terminal;
use super::{Globals, exit, output, requests};
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::view::{Decided, Request};

/// Sends a decision, waits until Codex has taken it, and prints the outcome.
pub async fn decide(
    globals: &Globals,
    id: &str,
    selector: RequestSelector<'_>,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let report = globals.client()?.decide(id, selector, decision).await?;
    globals.print(&report, |report| vec![outcome_sentence(report)])?;
    let is_sent = report.outcome == DecisionOutcome::Sent;
    Ok(ExitCode::from(if is_sent { exit::TIMEOUT } else { exit::SUCCESS }))
}

/// Approves or answers a request. A named request counts as shown. Without a name, the only pending request is shown, and
/// the person is asked.
pub async fn approve(
    globals: &Globals,
    id: &str,
    request: Option<&str>,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let shown = match request {
        Some(request) => match client.get::<Request>(&["tasks", id, "requests", request], &()).await? {
            request if request.needs_reveal && request.state == RequestState::Open => {
                return approve_revealed(globals, &client, &request, decision).await;
            }
            // A list has shown only the beginning of the diffs.
            request if request.whole_changes_bytes.is_some() && is_at_terminal() => {
                show_and_confirm(&client, request).await?
            }
            request => Some(requests::with_whole_changes(&client, request).await?),
        },
        None => match only_request(&client, id).await? {
            Some(request) if request.needs_reveal => {
                return approve_revealed(globals, &client, &request, decision).await;
            }
            Some(request) => show_and_confirm(&client, request).await?,
            // The daemon refuses this with the reason.
            None => return decide(globals, id, RequestSelector::Only, decision).await,
        },
    };
    match shown {
        Some(shown) => decide(globals, id, shown.selector(), decision).await,
        None => Ok(ExitCode::from(exit::FAILED)),
    }
}

/// Shows a request without redaction at this terminal, and asks.
async fn approve_revealed(
    globals: &Globals,
    client: &Client,
    request: &Request,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let Request { task_id, request_id, .. } = request;
    if !is_at_terminal() {
        let (task, id) = (short(task_id), short(request_id));
        let message = format!("{id} contains a secret that is shown only at a terminal of this machine");
        let hint = format!("run `codex-bridge approve {task} {id}` there");
        return Err(Failure::new(Code::NeedsReveal, message).hint(hint));
    }
    let revealed = client.reveal(task_id, request_id).await?;
    output::lines(&requests::revealed_lines(&revealed))?;
    if !confirm(request_id)? {
        return Ok(ExitCode::from(exit::FAILED));
    }
    let selector = RequestSelector::Revealed { request_id, digest: &revealed.digest };
    decide(globals, task_id, selector, decision).await
}

fn is_at_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

fn confirm(request_id: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout();
    write!(stdout, "  Approve {}? [y/N] ", short(request_id))
        .and_then(|()| stdout.flush())
        .map_err(output::write_failure)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(output::write_failure)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The only pending request of a task, if there is one.
async fn only_request(client: &Client, id: &str) -> Result<Option<Request>, Failure> {
    let mut open = client.show(id).await?.pending_requests;
    if open.len() > 1 {
        let message = format!("{} requests are pending: name one", open.len());
        let hint = format!("`codex-bridge requests {id}` lists them");
        return Err(Failure::new(Code::Refused, message).hint(hint));
    }
    Ok(open.pop())
}

/// Shows a request at the terminal and asks; returns the request if it was approved. Without a terminal the caller must
/// name the request.
async fn show_and_confirm(client: &Client, request: Request) -> Result<Option<Request>, Failure> {
    let terminal = Terminal::of_stdout();
    if !is_at_terminal() {
        let (task, id) = (short(&request.task_id), short(&request.request_id));
        let message = format!("without a terminal the request must be named: {id}");
        let hint = format!(
            "`codex-bridge requests {task}` shows the request, `codex-bridge approve {task} {id}` approves it"
        );
        return Err(Failure::new(Code::Usage, message).hint(hint));
    }
    let whole = requests::with_whole_changes(client, request).await?;
    output::lines(&whole_request(&whole, terminal.paint, terminal.columns()))?;
    Ok(confirm(&whole.request_id)?.then_some(whole))
}

/// The outcome of a decision, in a sentence.
pub fn outcome_sentence(report: &Decided) -> String {
    let decision = report.decision.as_ref().map_or("answered", DecisionWord::past_tense);
    let unconfirmed =
        if report.outcome == DecisionOutcome::Sent { "; Codex has not confirmed it yet" } else { "" };
    format!("{} {decision}{unconfirmed}", short(&report.request_id))
}
