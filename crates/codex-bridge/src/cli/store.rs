//! `codex-bridge store`: look for damage, make a copy.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use codex_bridge_core::store::sqlite;

use super::{Globals, output};
use crate::failure::Failure;
use crate::view::StoreCheck;

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
    let found = match globals.client()?.check_store().await {
        // No daemon works on such a store: it is looked at without one.
        Err(failure) if failure.code.as_str().starts_with("store_") => inspect(&globals.paths()?.database())?,
        found => found?,
    };
    if globals.json {
        output::json(&found)?;
    } else if found.sound {
        output::lines(&[format!("{} is sound", globals.paths()?.database().display())])?;
    } else {
        output::lines(&found.findings)?;
    }
    Ok(if found.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a look at the file itself finds.
pub fn inspect(database: &Path) -> Result<StoreCheck, Failure> {
    let findings = sqlite::inspect(database)?;
    Ok(StoreCheck { sound: findings.is_empty(), findings })
}

async fn back_up(globals: &Globals, file: PathBuf) -> Result<ExitCode, Failure> {
    let file = std::path::absolute(file).map_err(Failure::internal)?;
    let made = globals.client()?.back_up_store(file).await?;
    if globals.json {
        output::json(&made)?;
    } else {
        let key = globals.paths()?.seal_key();
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
