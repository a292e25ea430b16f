//! `codex-bridge approve`: approves a request.

use std::process::ExitCode;

use codex_session::Decision;

use super::{Globals, decide};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// The request's id, or a unique beginning of it. Without an id, the only pending request is shown, and you are asked
    request: Option<String>,
    /// Also approve repetitions in this task, as far as the request lists them under `Session`
    #[arg(long)]
    session: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let decision = if args.session { Decision::AcceptForSession } else { Decision::Accept };
    decide::approve(globals, &args.id, args.request.as_deref(), &decision).await
}
