//! `audit`: licences, sources and known holes of what we depend on, for those who have cargo-deny. It is not built
//! here: that takes minutes and is no part of testing a change.

use crate::program::Program;
use crate::steps::Steps;

/// Runs the command.
pub fn run() -> Result<(), String> {
    if !Program::cargo("deny --version").succeeds() {
        return Err("cargo-deny is not installed: get it with `cargo install --locked cargo-deny`, or as a binary from \
                    its releases page, and run `cargo xtask audit` again"
            .to_owned());
    }
    let mut steps = Steps::default();
    steps.program("licences and sources", &Program::cargo("deny check licenses bans sources"))?;
    steps.program("advisories", &Program::cargo("deny check advisories"))?;
    println!("\nall steps passed:\n{}", steps.summary());
    Ok(())
}
