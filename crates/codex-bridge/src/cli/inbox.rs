//! `codex-bridge inbox`: lists messages from channels, and retries those that failed.

use std::process::ExitCode;

use redact::plain::plain;

use super::render::paint::Paint;
use super::terminal::Terminal;
use super::{Globals, number, output};
use crate::calls;
use crate::failure::Failure;
use crate::view::Message;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// Also list finished messages
    #[arg(short, long)]
    all: bool,
    /// List only messages from this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// List at most N, the newest first
    #[arg(short = 'n', long, value_name = "N", value_parser = number::whole::<u32>)]
    limit: Option<u32>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Retry a failed message
    Retry {
        /// The message's id, as `inbox` lists it
        id: String,
    },
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Some(Action::Retry { id }) => retry(globals, &id).await?,
        None => {
            let filter = calls::Inbox { all: args.all, channel: args.channel, limit: args.limit };
            list(globals, &filter).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(globals: &Globals, filter: &calls::Inbox) -> Result<(), Failure> {
    let messages = globals.client()?.inbox(filter).await?;
    if globals.json {
        return output::json(&messages);
    }
    if messages.is_empty() {
        let more = if filter.all { "" } else { "; --all lists finished ones too" };
        return output::lines(&[format!("no unfinished messages{more}")]);
    }
    let paint = Terminal::of_stdout().paint;
    output::lines(&messages.iter().flat_map(|message| lines(message, paint)).collect::<Vec<_>>())
}

fn lines(message: &Message, paint: Paint) -> Vec<String> {
    let state = format!("{:12}", message.state);
    let state = match message.state.as_str() {
        "acknowledged" => paint.good(&state),
        "dead" => paint.bad(&state),
        _ => paint.waiting(&state),
    };
    let start: String = plain(&message.summary).replace('\n', " ").chars().take(60).collect();
    let sender = plain(&message.sender_name);
    let mut lines = vec![format!("{}  {state}  {}  {sender}: {start}", message.message_id, message.channel)];
    if let Some(error) = &message.error {
        lines.push(format!("  {}", plain(error).replace('\n', " ")));
    }
    if message.state == "dead" {
        lines.push(paint.busy(&format!("  codex-bridge inbox retry {}", message.message_id)));
    }
    lines
}

async fn retry(globals: &Globals, id: &str) -> Result<(), Failure> {
    let message = globals.client()?.retry_message(id).await?;
    if globals.json {
        return output::json(&message);
    }
    output::lines(&[format!("retrying {}", message.message_id)])
}
