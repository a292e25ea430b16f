//! `codex-bridge gc`: deletes tasks that are older than `keep_days`.

use std::process::ExitCode;

use super::{Globals, output};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals) -> Result<ExitCode, Failure> {
    let deleted = globals.client()?.gc().await?;
    if globals.json {
        output::json(&deleted)?;
    } else {
        output::lines(&[format!("deleted tasks: {}", deleted.tasks)])?;
    }
    Ok(ExitCode::SUCCESS)
}
