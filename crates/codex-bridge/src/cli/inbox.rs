//! `codex-bridge inbox`: lists messages from channels, and retries those that failed.

use std::process::ExitCode;

use codex_bridge_core::inbox::MessageState;
use redact::plain::plain;

use super::render::paint::Paint;
use super::terminal::Terminal;
use super::{Globals, number};
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
    #[arg(short = 'n', long, value_name = "N", value_parser = number::whole::<i64>)]
    limit: Option<i64>,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Retry a failed message
    Retry {
        /// The message's id, as `inbox` lists it
        id: String,
    },
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Some(Action::Retry { id }) => retry(globals, &id).await,
        None => {
            let filter = calls::Inbox { all: args.all, channel: args.channel, limit: args.limit };
            list(globals, &filter).await
        }
    }
}

async fn list(globals: &Globals, filter: &calls::Inbox) -> Result<ExitCode, Failure> {
    let messages: Vec<Message> = globals.client()?.get(&["inbox"], filter).await?;
    let more = if filter.all { "" } else { "; --all lists finished ones too" };
    let paint = Terminal::of_stdout().paint;
    globals.print_list(&messages, &format!("no unfinished messages{more}"), |messages| {
        messages.iter().flat_map(|message| lines(message, paint)).collect()
    })
}

fn lines(message: &Message, paint: Paint) -> Vec<String> {
    let state = format!("{:12}", message.state.as_str());
    let state = match message.state {
        MessageState::Acknowledged => paint.good(&state),
        MessageState::Dead => paint.bad(&state),
        _ => paint.waiting(&state),
    };
    let start: String = plain(&message.summary).replace('\n', " ").chars().take(60).collect();
    let sender = plain(&message.sender_name);
    let mut lines = vec![format!("{}  {state}  {}  {sender}: {start}", message.message_id, message.channel)];
    if let Some(error) = &message.error {
        lines.push(format!("  {}", plain(error).replace('\n', " ")));
    }
    if message.state == MessageState::Dead {
        lines.push(paint.busy(&format!("  codex-bridge inbox retry {}", message.message_id)));
    }
    lines
}

async fn retry(globals: &Globals, id: &str) -> Result<ExitCode, Failure> {
    let message: Message = globals.client()?.post(&["inbox", id, "retry"], &()).await?;
    globals.print(&message, |message| vec![format!("retrying {}", message.message_id)])
}
