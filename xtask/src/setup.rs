//! `setup`: what the tests need and cargo does not bring.

mod discord;
mod packages;
pub mod schemathesis;
mod sdks;
mod slack;
mod telegram;
mod webhooks;

use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};

use codex_binary::Codex;
use codex_binary::pinned;

use crate::steps::Steps;
use crate::workspace;

/// How to run this alone.
pub const ALONE: &str = "cargo xtask setup";

/// Runs the command.
pub fn run() -> Result<(), String> {
    Steps::default().step("setup", ALONE, all)
}

/// All that the tests need.
pub fn all() -> Result<(), String> {
    // The terminal of the tests, and their browser.
    debian_package("tmux", &["-V"])?;
    debian_package("chromium", &["--version"])?;
    sdks::install()?;
    slack::install()?;
    telegram::install()?;
    discord::install()?;
    webhooks::install()?;
    codex().map(drop)
}

/// Installs a program of Debian's if it is not there and we may; its package has its name.
fn debian_package(name: &str, version: &[&str]) -> Result<(), String> {
    let is_there = || quiet(name, version);
    if is_there() {
        return Ok(());
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|this| this.uid() == 0);
    if is_root {
        println!("installing {name} …");
        let _ = quiet("apt-get", &["update"]);
        let _ = quiet("apt-get", &["install", "--yes", "--no-install-recommends", name]);
    }
    if is_there() {
        Ok(())
    } else {
        Err(format!("{name} is missing: install it, with `apt-get install {name}` on Debian"))
    }
}

/// Whether a program runs and succeeds; nothing is shown.
fn quiet(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Installs the pinned codex if it is not there, and says where it is.
pub fn codex() -> Result<Codex, String> {
    let codex =
        pinned::install(&workspace::codex(), &workspace::search_path()).map_err(|error| error.to_string())?;
    println!("codex {} is installed in {}", codex.version, workspace::codex().display());
    Ok(codex)
}
