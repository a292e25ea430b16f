//! `codex-bridge deliveries`: lists notifications that are pending or failed, retries them, sends a test.

use std::process::ExitCode;

use codex_bridge_core::id::short;
use codex_bridge_core::outbox::DeliveryState;
use redact::plain::plain;

use super::terminal::Terminal;
use super::{Globals, number};
use crate::calls;
use crate::cli::render::paint::Paint;
use crate::failure::Failure;
use crate::view::{Delivery, Tried};

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Also list notifications that were delivered, or withdrawn because the request was answered first
    #[arg(short, long)]
    all: bool,
    /// List at most N, the newest first
    #[arg(short = 'n', long, value_name = "N", value_parser = number::whole::<i64>)]
    limit: Option<i64>,
    /// List only notifications about this task; the task's id, or a unique beginning of it
    #[arg(long, value_name = "ID")]
    task: Option<String>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Retry a failed or pending notification now
    Retry {
        /// The notification's id, as `deliveries` lists it
        id: String,
    },
    /// Send a test notification
    Test {
        /// The target, such as webhook:ci
        target: String,
    },
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Some(Action::Retry { id }) => retry(globals, &id).await,
        Some(Action::Test { target }) => test(globals, target).await,
        None => {
            let filter = calls::Deliveries { all: args.all, limit: args.limit, task_id: args.task };
            list(globals, &filter).await
        }
    }
}

async fn list(globals: &Globals, filter: &calls::Deliveries) -> Result<ExitCode, Failure> {
    let deliveries: Vec<Delivery> = globals.client()?.get(&["deliveries"], filter).await?;
    let more = if filter.all { "" } else { "; --all lists delivered ones too" };
    let none = format!("no notifications are pending or failed{more}");
    globals.print_list(&deliveries, &none, |deliveries| {
        let paint = Terminal::of_stdout().paint;
        let widths = deliveries.iter().map(|delivery| delivery.target.chars().count());
        let width = widths.max().unwrap_or_default();
        deliveries.iter().flat_map(|delivery| lines(delivery, width, paint)).collect()
    })
}

fn lines(delivery: &Delivery, width: usize, paint: Paint) -> Vec<String> {
    let state = format!("{:10}", delivery.state.as_str());
    let state = match delivery.state {
        DeliveryState::Delivered => paint.good(&state),
        DeliveryState::Dead => paint.bad(&state),
        DeliveryState::Withdrawn => paint.faint(&state),
        DeliveryState::Pending | DeliveryState::Attempting => paint.waiting(&state),
    };
    let (id, event, target) = (&delivery.delivery_id, delivery.event.as_str(), &delivery.target);
    let task = delivery.task_id.as_deref().map_or("", short);
    let line = format!("{id}  {state}  {event:9}  {target:width$}  {task}");
    let mut lines = vec![line.trim_end().to_owned()];
    if let Some(error) = &delivery.last_error {
        lines.push(format!("  {}", plain(error).replace('\n', " ")));
    }
    match (&delivery.next_at, delivery.state) {
        (Some(at), _) if delivery.attempts > 0 => {
            lines.push(paint.faint(&format!("  tried {} times; next attempt at {at}", delivery.attempts)));
        }
        (_, DeliveryState::Dead) => lines.push(paint.busy(&format!("  codex-bridge deliveries retry {id}"))),
        _ => {}
    }
    lines
}

async fn retry(globals: &Globals, id: &str) -> Result<ExitCode, Failure> {
    let delivery: Delivery = globals.client()?.post(&["deliveries", id, "retry"], &()).await?;
    globals.print(&delivery, |delivery| vec![format!("retrying {} now", delivery.delivery_id)])
}

async fn test(globals: &Globals, target: String) -> Result<ExitCode, Failure> {
    let test = calls::TestTarget { target };
    let sent: Tried = globals.client()?.post(&["deliveries", "test"], &test).await?;
    globals.print(&sent, |sent| vec![format!("{} received the test", sent.target)])
}
