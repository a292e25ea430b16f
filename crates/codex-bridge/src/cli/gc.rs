//! `codex-bridge gc`: forget now what is older than the configuration says.

use std::process::ExitCode;

use super::{Globals, output};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals) -> Result<ExitCode, Failure> {
    let forgotten = globals.client()?.gc().await?;
    if globals.json {
        output::json(&forgotten)?;
    } else {
        output::lines(&[format!("forgotten tasks: {}", forgotten.tasks)])?;
    }
    Ok(ExitCode::SUCCESS)
}
