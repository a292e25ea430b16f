//! `test`: everything that must hold before a change goes in.

use crate::audit;
use crate::ordinary_user;
use crate::program::Program;
use crate::promises;
use crate::runner::Runner;
use crate::setup;
use crate::steps::Steps;

/// Runs the command.
pub fn run() -> Result<(), String> {
    let mut steps = Steps::default();
    steps.step("setup", setup::ALONE, setup::all)?;
    steps.program("format", &Program::cargo("fmt --all --check"))?;
    steps.program("clippy", &Program::cargo("clippy --workspace --all-targets -- -D warnings"))?;
    audit::where_installed(&mut steps)?;
    let tests = Runner::installed().tests();
    let passed = steps.step("tests", &tests.to_string(), || tests.run())?;
    steps.step("tests as an ordinary user", ordinary_user::ALONE, ordinary_user::run)?;
    steps.program("doc tests", &Program::cargo("test --workspace --doc"))?;
    let docs = Program::cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings");
    steps.program("docs", &docs)?;
    let kept = steps.step("promises", promises::ALONE, || promises::check(&passed))?;
    println!("\nall steps passed:\n{}{} tests passed, {kept} promises kept", steps.summary(), passed.len());
    Ok(())
}
