//! `codex-bridge decline`: no to what a task asks.

use std::process::ExitCode;

use codex_bridge_core::bridge::RequestSelector;
use codex_session::Decision;

use super::{Globals, decide};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// The request, any unique beginning of its id; not needed if only one is open
    request: Option<String>,
    /// And end the turn
    #[arg(long)]
    cancel: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let decision = if args.cancel { Decision::Cancel } else { Decision::Decline };
    let which = args.request.as_deref().map_or(RequestSelector::Only, RequestSelector::Named);
    decide::decide(globals, &args.id, which, &decision).await
}
