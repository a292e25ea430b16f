//! A keeper for the tests of this crate: `core_keeper --plan FILE`.

use std::path::PathBuf;
use std::process::ExitCode;

use codex_wire::host::keeper;

fn main() -> ExitCode {
    let plan = std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_default();
    let outcome = keeper::read_plan(&plan).and_then(|plan| keeper::run(&plan));
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
