//! `codex-bridge decline`: declines a request.

use std::process::ExitCode;

use codex_bridge_core::bridge::RequestSelector;
use codex_session::Decision;

use super::{Globals, decide};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The task's id, or a unique beginning of it
    id: String,
    /// The request's id, or a unique beginning of it; not needed if only one request is pending
    request: Option<String>,
    /// Also end the turn
    #[arg(long)]
    cancel: bool,
}

pub async fn run(globals: &Globals, args: &Args) -> Result<ExitCode, Failure> {
    let decision = if args.cancel { Decision::Cancel } else { Decision::Decline };
    let selector = args.request.as_deref().map_or(RequestSelector::Only, RequestSelector::Named);
    decide::decide(globals, &args.id, selector, &decision).await
}
