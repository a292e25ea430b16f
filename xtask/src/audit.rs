//! `audit`: licences, sources and known holes of what we depend on, for those who have cargo-deny. It is not built
//! here: that takes minutes. Where it is, `cargo xtask test` checks what needs no network.

use crate::program::Program;
use crate::steps::Steps;

/// What can be told from the lock file alone.
const OFFLINE: &str = "deny --offline check licenses bans sources";

fn is_installed() -> bool {
    Program::cargo("deny --version").succeeds()
}

/// What needs no network, as a step of other commands; nothing where cargo-deny is not installed.
pub fn where_installed(steps: &mut Steps) -> Result<(), String> {
    if is_installed() {
        return steps.program("licences and sources", &Program::cargo(OFFLINE));
    }
    println!("cargo-deny is not installed: licences and sources are not checked");
    Ok(())
}

/// Runs the command.
pub fn run() -> Result<(), String> {
    if !is_installed() {
        return Err("cargo-deny is not installed: get it with `cargo install --locked cargo-deny`, or as a binary from \
                    its releases page, and run `cargo xtask audit` again"
            .to_owned());
    }
    let mut steps = Steps::default();
    steps.program("licences and sources", &Program::cargo(OFFLINE))?;
    // Fetches the advisory database, so it says what is known today.
    steps.program("advisories", &Program::cargo("deny check advisories"))?;
    println!("\nall steps passed:\n{}", steps.summary());
    Ok(())
}
