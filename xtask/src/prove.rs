//! `prove`: the tests that are seeded and short in `test`, at full length.

use crate::plant;
use crate::runner::Runner;
use crate::setup;
use crate::steps::Steps;

/// Tests look for this variable to decide how long they go on.
const PROVE: &str = "CODEX_BRIDGE_PROVE";
/// Some forty times as many cases as proptest tries by itself.
const PROPTEST_CASES: &str = "10000";

/// Runs the command.
pub fn run() -> Result<(), String> {
    let mut steps = Steps::default();
    steps.step("setup", setup::ALONE, setup::all)?;
    steps.step("setup of schemathesis", "cargo xtask prove", setup::schemathesis::install)?;
    let tests = Runner::installed().proof().env(PROVE, "1").env("PROPTEST_CASES", PROPTEST_CASES);
    let passed = steps.step("full-length tests", &tests.to_string(), || tests.run())?;
    steps.step("planted faults", plant::ALONE, plant::run)?;
    println!("\nall steps passed:\n{}{} tests passed at full length", steps.summary(), passed.len());
    Ok(())
}
