//! What `approve`, `decline` and `answer` share: sending a decision and telling what came of it.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use codex_bridge_core::bridge::RequestSelector;
use codex_bridge_core::id::short;
use codex_bridge_core::request::RequestState;
use codex_session::Decision;

use super::render::request::whole_request;
use super::terminal::Terminal;
use super::{Globals, exit, output, requests};
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::transcript::decided;
use crate::view::{Decided, Request};

/// Sends a decision; returns when Codex took it.
pub async fn decide(
    globals: &Globals,
    id: &str,
    which: RequestSelector<'_>,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let report = globals.client()?.decide(id, which, decision).await?;
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

/// Sends a yes to what the person was shown: the request that they name, or the only one of the task, which is shown to
/// them now.
pub async fn agree(
    globals: &Globals,
    id: &str,
    request: Option<&str>,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let shown = match request {
        Some(request) => match client.request(id, request).await? {
            asked if asked.needs_reveal && asked.state == RequestState::Open => {
                return agree_to_revealed(globals, &client, &asked, decision).await;
            }
            // A list shows the beginning of it.
            asked if asked.whole_changes_bytes.is_some() && is_at_terminal() => {
                confirmed(&client, asked).await?
            }
            asked => Some(requests::with_whole_changes(&client, asked).await?),
        },
        None => match only(&client, id).await? {
            Some(request) if request.needs_reveal => {
                return agree_to_revealed(globals, &client, &request, decision).await;
            }
            Some(request) => confirmed(&client, request).await?,
            // The daemon says that nothing is open.
            None => return decide(globals, id, RequestSelector::Only, decision).await,
        },
    };
    match shown {
        Some(shown) => decide(globals, id, shown.shown(), decision).await,
        None => Ok(ExitCode::from(exit::FAILED)),
    }
}

/// Shows all of a request that cannot be shown elsewhere, and asks the person at this terminal.
async fn agree_to_revealed(
    globals: &Globals,
    client: &Client,
    asked: &Request,
    decision: &Decision,
) -> Result<ExitCode, Failure> {
    let Request { task_id, request_id, .. } = asked;
    if !is_at_terminal() {
        let (task, id) = (short(task_id), short(request_id));
        let message = format!("{id} holds a secret that is shown only at a terminal of this machine");
        let hint = format!("run `codex-bridge approve {task} {id}` there");
        return Err(Failure::new(Code::NeedsReveal, message).hint(hint));
    }
    let revealed = client.reveal(task_id, request_id).await?;
    output::lines(&requests::revealed_lines(&revealed))?;
    if !confirm(request_id)? {
        return Ok(ExitCode::from(exit::FAILED));
    }
    let which = RequestSelector::Revealed { request_id, digest: &revealed.digest };
    decide(globals, task_id, which, decision).await
}

fn is_at_terminal() -> bool {
    std::io::stdout().is_terminal() && std::io::stdin().is_terminal()
}

fn confirm(request_id: &str) -> Result<bool, Failure> {
    let mut stdout = std::io::stdout();
    write!(stdout, "  Approve {}? [y/N] ", short(request_id))
        .and_then(|()| stdout.flush())
        .map_err(output::failed)?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).map_err(output::failed)?;
    Ok(matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// The only open request of a task; none if there is none.
async fn only(client: &Client, id: &str) -> Result<Option<Request>, Failure> {
    let mut open = client.show(id).await?.pending_requests;
    if open.len() > 1 {
        let message = format!("{} requests are open: say which one", open.len());
        let hint = format!("`codex-bridge requests {id}` shows them");
        return Err(Failure::new(Code::Refused, message).hint(hint));
    }
    Ok(open.pop())
}

/// Shows a request to the person at this terminal, and asks them; gives what they agreed to. Nobody else can agree to what they
/// do not name.
async fn confirmed(client: &Client, request: Request) -> Result<Option<Request>, Failure> {
    let terminal = Terminal::of_stdout();
    if !is_at_terminal() {
        let (task, id) = (short(&request.task_id), short(&request.request_id));
        let message = format!("nobody was shown {id}: without a terminal its name is needed");
        let hint = format!(
            "`codex-bridge requests {task}` shows it, `codex-bridge approve {task} {id}` approves it"
        );
        return Err(Failure::new(Code::Usage, message).hint(hint));
    }
    let whole = requests::with_whole_changes(client, request).await?;
    output::lines(&whole_request(&whole, terminal.paint, terminal.columns()))?;
    Ok(confirm(&whole.request_id)?.then_some(whole))
}

/// What came of a decision, in a sentence.
pub fn told(report: &Decided) -> String {
    let decision = decided(report.decision.as_deref().unwrap_or_default());
    let request = short(&report.request_id);
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
