//! `codex-bridge store`: look for damage, make a copy.

use std::path::PathBuf;
use std::process::ExitCode;

use super::{Globals, output};
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Look for damage
    Check,
    /// Copy the store to a new file while everything goes on
    Backup {
        /// The file; it must not be there yet
        file: PathBuf,
    },
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.what {
        What::Check => check(globals).await,
        What::Backup { file } => back_up(globals, file).await,
    }
}

async fn check(globals: &Globals) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    let found = client.check_store().await?;
    if globals.json {
        output::json(&found)?;
    } else if found.sound {
        output::lines(&[format!("{} is sound", client.paths().database().display())])?;
    } else {
        output::lines(&found.findings)?;
    }
    Ok(if found.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn back_up(globals: &Globals, file: PathBuf) -> Result<ExitCode, Failure> {
    let file = std::path::absolute(file).map_err(Failure::internal)?;
    let client = globals.client()?;
    let made = client.back_up_store(file).await?;
    if globals.json {
        output::json(&made)?;
    } else {
        let key = client.paths().seal_key();
        output::lines(&[
            format!("copied to {}", made.file.display()),
            format!(
                "prompts that were not sent yet can be read only with {}: keep a copy of it too",
                key.display()
            ),
        ])?;
    }
    Ok(ExitCode::SUCCESS)
}
