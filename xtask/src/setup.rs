//! `setup`: what the tests need and cargo does not bring.

use codex_binary::Codex;
use codex_binary::pinned;

use crate::steps::Steps;
use crate::workspace;

/// How to run this alone.
pub const ALONE: &str = "cargo xtask setup";

/// Runs the command.
pub fn run() -> Result<(), String> {
    Steps::default().step("setup", ALONE, codex).map(drop)
}

/// Installs the pinned codex if it is not there, and says where it is.
pub fn codex() -> Result<Codex, String> {
    let codex =
        pinned::install(&workspace::codex(), &workspace::search_path()).map_err(|error| error.to_string())?;
    println!("codex {} is installed in {}", codex.version, workspace::codex().display());
    Ok(codex)
}
