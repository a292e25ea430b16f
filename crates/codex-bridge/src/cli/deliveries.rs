//! `codex-bridge deliveries`: what was sent to whom, and what could not be.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use redact::plain::plain;

use super::terminal::Terminal;
use super::{Globals, output};
use crate::calls;
use crate::cli::render::paint::Paint;
use crate::failure::Failure;
use crate::view::Delivery;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Also what was delivered, or answered before it was told
    #[arg(short, long)]
    all: bool,
    /// At most so many, the newest
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
    /// Only those of this task; any unique beginning of its id
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Try one again now that was given up, or waits for its time
    Retry {
        /// Which, as `deliveries` lists it
        id: String,
    },
    /// Send a test to a target, such as webhook:ci
    Test {
        /// Where to
        target: String,
    },
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        Some(What::Retry { id }) => retry(globals, &id).await?,
        Some(What::Test { target }) => test(globals, target).await?,
        None => {
            let which = calls::Deliveries { all: args.all, limit: args.limit, task_id: args.task };
            list(globals, &which).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(globals: &Globals, which: &calls::Deliveries) -> Result<(), Failure> {
    let deliveries = globals.client()?.deliveries(which).await?;
    if globals.json {
        return output::json(&deliveries);
    }
    if deliveries.is_empty() {
        let more = if which.all { "" } else { "; --all shows what was sent" };
        return output::lines(&[format!("nothing is to be sent{more}")]);
    }
    let paint = Terminal::of_stdout().paint;
    let width = deliveries.iter().map(|delivery| delivery.target.chars().count()).max().unwrap_or_default();
    let lines = deliveries.iter().flat_map(|delivery| lines(delivery, width, paint));
    output::lines(&lines.collect::<Vec<_>>())
}

fn lines(delivery: &Delivery, width: usize, paint: Paint) -> Vec<String> {
    let state = format!("{:10}", delivery.state);
    let state = match delivery.state.as_str() {
        "delivered" => paint.good(&state),
        "dead" => paint.bad(&state),
        "withdrawn" => paint.faint(&state),
        _ => paint.waiting(&state),
    };
    let (id, event, target) = (&delivery.delivery_id, &delivery.event, &delivery.target);
    let task = delivery.task_id.as_deref().map_or("", short);
    let line = format!("{id}  {state}  {event:9}  {target:width$}  {task}");
    let mut lines = vec![line.trim_end().to_owned()];
    if let Some(error) = &delivery.last_error {
        lines.push(format!("  {}", plain(error).replace('\n', " ")));
    }
    match (&delivery.next_at, delivery.state.as_str()) {
        (Some(at), _) if delivery.attempts > 0 => {
            lines.push(paint.faint(&format!("  tried {} times; again at {at}", delivery.attempts)));
        }
        (_, "dead") => lines.push(paint.busy(&format!("  codex-bridge deliveries retry {id}"))),
        _ => {}
    }
    lines
}

async fn retry(globals: &Globals, id: &str) -> Result<(), Failure> {
    let delivery = globals.client()?.retry_delivery(id).await?;
    if globals.json {
        return output::json(&delivery);
    }
    output::lines(&[format!("{} is tried again now", delivery.delivery_id)])
}

async fn test(globals: &Globals, target: String) -> Result<(), Failure> {
    let tried = globals.client()?.test_target(&calls::TestTarget { target }).await?;
    if globals.json {
        return output::json(&tried);
    }
    output::lines(&[format!("{} took it", tried.target)])
}
