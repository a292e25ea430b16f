//! `prove`: the tests that are seeded and short in `test`, at full length.

use crate::plant;
use crate::program::Program;
use crate::runner::Runner;
use crate::setup;
use crate::steps::Steps;

/// Tests look for this variable to decide how long they go on.
const PROVE: &str = "CODEX_BRIDGE_PROVE";
/// Some forty times as many cases as proptest tries by itself.
const PROPTEST_CASES: &str = "10000";
/// Optimised, since a hundred thousand runs take half an hour so, and four hours otherwise.
const SIMULATION: &str = "test --release -p codex-bridge-core --test all simulation:: -- --nocapture";
/// How many seeds the simulation runs.
const SEEDS: &str = "100000";

/// Runs the command.
pub fn run() -> Result<(), String> {
    let mut steps = Steps::default();
    steps.step("setup", setup::ALONE, setup::all)?;
    steps.step("setup of schemathesis", "cargo xtask prove", setup::schemathesis::install)?;
    let tests = Runner::installed().proof().env(PROVE, "1").env("PROPTEST_CASES", PROPTEST_CASES);
    let passed = steps.step("full-length tests", &tests.to_string(), || tests.run())?;
    let simulation = Program::cargo(SIMULATION).env("CODEX_BRIDGE_TEST_SEEDS", SEEDS);
    steps.step("simulation", &simulation.to_string(), || simulation.run())?;
    steps.step("planted faults", plant::ALONE, plant::run)?;
    println!("\nall steps passed:\n{}{} tests passed at full length", steps.summary(), passed.len());
    Ok(())
}
