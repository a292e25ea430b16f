//! `codex-bridge inbox`: what came in by channels, and what became of it.

use std::process::ExitCode;

use redact::plain::plain;

use super::render::paint::Paint;
use super::terminal::Terminal;
use super::{Globals, output};
use crate::calls;
use crate::failure::Failure;
use crate::view::Message;

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Also what is done with
    #[arg(short, long)]
    all: bool,
    /// Only what came by this channel
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// At most so many, the newest
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<u32>,
}

#[derive(clap::Subcommand)]
enum What {
    /// Take a message up again that was given up
    Retry {
        /// Which, as `inbox` lists it
        id: String,
    },
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        Some(What::Retry { id }) => retry(globals, &id).await?,
        None => {
            let which = calls::Inbox { all: args.all, channel: args.channel, limit: args.limit };
            list(globals, &which).await?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(globals: &Globals, which: &calls::Inbox) -> Result<(), Failure> {
    let messages = globals.client()?.inbox(which).await?;
    if globals.json {
        return output::json(&messages);
    }
    if messages.is_empty() {
        let more = if which.all { "" } else { "; --all shows what is done with" };
        return output::lines(&[format!("nothing waits{more}")]);
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
    let who = plain(&message.sender_name);
    let mut lines = vec![format!("{}  {state}  {}  {who}: {start}", message.message_id, message.channel)];
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
    output::lines(&[format!("{} is taken up again", message.message_id)])
}
