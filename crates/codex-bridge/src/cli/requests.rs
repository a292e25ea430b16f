//! `codex-bridge requests`: lists the pending requests.

use std::process::ExitCode;

use codex_bridge_core::id::short;

use super::render::paint::Paint;
use super::render::request::{request as folded, whole_request};
use super::terminal::Terminal;
use super::{Globals, output};
use crate::client::Client;
use crate::failure::Failure;
use crate::view::{Request, Revealed};

#[derive(clap::Args)]
pub struct Args {
    /// List only the requests of this task, and show them in full; the task's id, or a unique beginning of it
    id: Option<String>,
    /// Show hidden secrets too; works only on this machine
    #[arg(long, requires = "id")]
    reveal: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let mut requests = match &args.id {
        Some(id) => client.show(id).await?.pending_requests,
        None => client.requests().await?,
    };
    if args.reveal {
        return reveal(globals, &client, &requests).await;
    }
    let terminal = Terminal::of_stdout();
    // A list has only the beginning of long diffs.
    for request in requests.iter_mut().filter(|_| args.id.is_some()) {
        *request = with_whole_changes(&client, request.clone()).await?;
    }
    if globals.json {
        output::json(&requests)?;
    } else if requests.is_empty() {
        output::lines(&["no pending requests".to_owned()])?;
    } else {
        // The requests of one task are shown in full.
        let render = if args.id.is_some() { whole_request } else { folded };
        let shown = |request: &Request| render(request, terminal.paint, terminal.columns());
        let blocks = requests.iter().map(|request| block(request, shown(request), terminal.paint));
        output::lines(&blocks.collect::<Vec<_>>().join(&String::new()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints requests without redaction.
async fn reveal(globals: &Globals, client: &Client, requests: &[Request]) -> Result<ExitCode, Failure> {
    let mut revealed = Vec::new();
    for request in requests.iter().filter(|request| request.hides_anything()) {
        revealed.push(client.reveal(&request.task_id, &request.request_id).await?);
    }
    if globals.json {
        output::json(&revealed)?;
    } else if revealed.is_empty() {
        output::lines(&["no pending request hides a secret".to_owned()])?;
    } else {
        output::lines(&revealed.iter().flat_map(revealed_lines).collect::<Vec<_>>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The lines of a request without redaction.
pub fn revealed_lines(revealed: &Revealed) -> Vec<String> {
    let head = format!("{}, without redaction:", short(&revealed.request_id));
    std::iter::once(head).chain(revealed.text.lines().map(|line| format!("  {line}"))).collect()
}

/// The request with its whole diffs.
pub async fn with_whole_changes(client: &Client, mut request: Request) -> Result<Request, Failure> {
    if request.whole_changes_bytes.take().is_some() {
        let whole = client.changes(&request.task_id, &request.request_id).await?;
        (request.changes, request.digest) = (Some(whole.changes), whole.digest);
    }
    Ok(request)
}

/// A request with the command that answers it.
fn block(request: &Request, mut lines: Vec<String>, paint: Paint) -> Vec<String> {
    let (task, id) = (short(&request.task_id), short(&request.request_id));
    let command = match request.kind.as_str() {
        "question" => format!("codex-bridge answer {task} {id} KEY=ANSWER"),
        _ if request.decisions.iter().any(|decision| decision == "form") => {
            format!("codex-bridge answer {task} {id} FIELD=VALUE")
        }
        _ => format!("codex-bridge approve {task} {id}"),
    };
    lines.push(format!("  {}", paint.busy(&command)));
    lines
}
