//! `codex-bridge approve`: yes to what a task asks.

use std::process::ExitCode;

use codex_session::Decision;

use super::{Globals, decide};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task; any unique beginning of its id
    id: String,
    /// The request, any unique beginning of its id; without it the only open one is shown, and you are asked
    request: Option<String>,
    /// Also to the same again in this task: `Session` in the request says what that covers
    #[arg(long)]
    session: bool,
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let decision = if args.session { Decision::AcceptForSession } else { Decision::Accept };
    decide::agree(globals, &args.id, args.request.as_deref(), &decision).await
}
