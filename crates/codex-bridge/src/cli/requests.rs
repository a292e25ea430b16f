//! `codex-bridge requests`: lists the pending requests.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use codex_bridge_core::request::DecisionWord;

use super::Globals;
use super::render::paint::Paint;
use super::render::request::{request as folded, whole_request};
use super::terminal::Terminal;
use crate::client::Client;
use crate::failure::Failure;
use crate::view::{Request, Revealed, WholeChanges};

#[derive(clap::Args)]
pub struct Args {
    /// List only the requests of this task, and show them in full; the task's id, or a unique beginning of it
    id: Option<String>,
    /// Show hidden secrets too; works only on this machine
    #[arg(long, requires = "id")]
    reveal: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let mut requests = match &args.id {
        Some(id) => client.show(id).await?.pending_requests,
        None => client.get(&["requests"], &()).await?,
    };
    if args.reveal {
        return reveal(globals, &client, &requests).await;
    }
    let terminal = Terminal::of_stdout();
    // A list has only the beginning of long diffs.
    for request in requests.iter_mut().filter(|_| args.id.is_some()) {
        *request = with_whole_changes(&client, request.clone()).await?;
    }
    globals.print_list(&requests, "no pending requests", |requests| {
        // The requests of one task are shown in full.
        let render = if args.id.is_some() { whole_request } else { folded };
        let shown = |request: &Request| render(request, terminal.paint, terminal.columns());
        let blocks = requests.iter().map(|request| block(request, shown(request), terminal.paint));
        blocks.collect::<Vec<_>>().join(&String::new())
    })
}

async fn reveal(globals: &Globals, client: &Client, requests: &[Request]) -> Result<ExitCode, Failure> {
    let mut revealed = Vec::new();
    for request in requests.iter().filter(|request| request.hides_anything()) {
        revealed.push(client.reveal(&request.task_id, &request.request_id).await?);
    }
    globals.print_list(&revealed, "no pending request hides a secret", |revealed| {
        revealed.iter().flat_map(revealed_lines).collect()
    })
}

/// The lines of a request without redaction.
pub fn revealed_lines(revealed: &Revealed) -> Vec<String> {
    let head = format!("{}, without redaction:", short(&revealed.request_id));
    std::iter::once(head).chain(revealed.text.lines().map(|line| format!("  {line}"))).collect()
}

/// The request with its whole diffs.
pub async fn with_whole_changes(client: &Client, mut request: Request) -> Result<Request, Failure> {
    if request.whole_changes_bytes.take().is_some() {
        let path = ["tasks", &request.task_id, "requests", &request.request_id, "changes"];
        let whole: WholeChanges = client.get(&path, &()).await?;
        (request.changes, request.digest) = (Some(whole.changes), whole.digest);
    }
    Ok(request)
}

/// A request with the command that answers it.
fn block(request: &Request, mut lines: Vec<String>, paint: Paint) -> Vec<String> {
    let (task, id) = (short(&request.task_id), short(&request.request_id));
    let takes_answers = request.offers(&DecisionWord::Answers) || request.offers(&DecisionWord::Form);
    let command = if takes_answers {
        format!("codex-bridge answer {task} {id} {}", request.answer_example())
    } else {
        format!("codex-bridge approve {task} {id}")
    };
    lines.push(format!("  {}", paint.busy(&command)));
    lines
}
