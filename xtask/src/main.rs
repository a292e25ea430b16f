//! The project's own commands: set-up, tests, benches, proofs, audits. Plain Rust, so that no script rots beside it.
//! Each verb has a file; this one only picks it. Nothing here is part of the product.

mod audit;
mod bench;
mod measure;
mod ordinary_user;
mod plant;
mod program;
mod promises;
mod prove;
mod runner;
mod schema;
mod setup;
mod steps;
mod test;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
usage: cargo xtask COMMAND

  setup          install the pinned codex from npm into .tools/codex, and tmux (quick when they are there)
  test           setup, then format, clippy, all tests, doc tests, docs and promises
  ordinary-user  where this is root: run the tests that depend on the user as a user who is not
  promises       check docs/promises.md against the tests marked in the source and the last test run
  bench NAME     run a benchmark, further arguments go to it; without a name: list them
  prove          run all tests at full length (hours, not minutes)
  measure        lines, module cycles, crates: figures to compare from one change to the next
  plant          put old faults back, one at a time, and show that the simulation finds each
  audit          check licences, sources and advisories with cargo-deny
  schema         write crates/codex-wire/schema/ anew from the pinned codex and say what changed
  help           print this";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(sentence) => {
            eprintln!("xtask: {sentence}");
            ExitCode::FAILURE
        }
    }
}

/// Every error is one sentence for a person.
fn dispatch(arguments: &[String]) -> Result<(), String> {
    let (command, rest) =
        arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    if command != "bench"
        && let Some(extra) = rest.first()
    {
        return Err(format!("`{command}` takes no arguments, but got `{extra}`"));
    }
    match command {
        "setup" => setup::run(),
        "test" => test::run(),
        "ordinary-user" => ordinary_user::run(),
        "promises" => promises::run(),
        "bench" => bench::run(rest),
        "prove" => prove::run(),
        "measure" => measure::run(),
        "plant" => plant::run(),
        "audit" => audit::run(),
        "schema" => schema::run(),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            Ok(())
        }
        other => Err(format!("there is no command `{other}`; `cargo xtask help` lists them")),
    }
}
