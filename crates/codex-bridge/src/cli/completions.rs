//! `codex-bridge completions`: prints shell completions.

use std::io::stdout;
use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use super::output;
use crate::failure::Failure;

#[derive(clap::Args)]
pub struct Args {
    /// The shell
    shell: Shell,
}

pub fn run(args: &Args, mut command: Command) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "codex-bridge", &mut script);
    std::io::Write::write_all(&mut stdout(), &script).map_err(output::write_failure)?;
    Ok(ExitCode::SUCCESS)
}
