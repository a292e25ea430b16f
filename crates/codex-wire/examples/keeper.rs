//! The smallest program that can keep a host: `keeper --plan FILE`. Launchers name it, or their own hidden subcommand.

use std::path::PathBuf;
use std::process::ExitCode;

use codex_wire::host::keeper;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(flag), Some(plan)) = (arguments.next(), arguments.next()) else { return ExitCode::from(2) };
    if flag != "--plan" {
        return ExitCode::from(2);
    }
    let outcome = keeper::read_plan(&PathBuf::from(plan)).and_then(|plan| keeper::run(&plan));
    if outcome.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
