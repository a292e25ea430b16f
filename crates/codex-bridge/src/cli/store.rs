//! `codex-bridge store`: checks the store for damage, or backs it up.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use codex_bridge_core::store::sqlite;

use super::Globals;
use crate::calls::Backup;
use crate::failure::Failure;
use crate::view::StoreCheck;

#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Check the store for damage
    Check,
    /// Copy the store to a new file; tasks continue meanwhile
    Backup {
        /// The file; it must not exist yet
        file: PathBuf,
    },
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    match args.action {
        Action::Check => check(globals).await,
        Action::Backup { file } => back_up(globals, file).await,
    }
}

async fn check(globals: &Globals) -> Result<ExitCode, Failure> {
    let found = match globals.client()?.post(&["store", "check"], &()).await {
        // No daemon can open such a store, so it is checked without one.
        Err(failure) if failure.code.as_str().starts_with("store_") => inspect(&globals.paths()?.database())?,
        found => found?,
    };
    let database = globals.paths()?.database();
    let sound = || vec![format!("{} is sound", database.display())];
    let printed = globals.print(
        &found,
        |found: &StoreCheck| {
            if found.sound { sound() } else { found.findings.clone() }
        },
    )?;
    Ok(if found.sound { printed } else { ExitCode::FAILURE })
}

/// Checks a database file without a daemon.
pub fn inspect(database: &Path) -> Result<StoreCheck, Failure> {
    let findings = sqlite::inspect(database)?;
    Ok(StoreCheck { sound: findings.is_empty(), findings })
}

async fn back_up(globals: &Globals, file: PathBuf) -> Result<ExitCode, Failure> {
    let file = std::path::absolute(file).map_err(Failure::internal)?;
    let backup: Backup = globals.client()?.post(&["store", "backup"], &Backup { file }).await?;
    let key = globals.paths()?.seal_key();
    globals.print(&backup, |backup| {
        vec![
            format!("copied to {}", backup.file.display()),
            format!(
                "back up {} too: without this key, prompts that were not sent yet cannot be read",
                key.display()
            ),
        ]
    })
}
