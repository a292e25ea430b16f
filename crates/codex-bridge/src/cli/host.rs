//! `codex-bridge host`: the keeper of one Codex process. The keeper outlives the daemon that started it.

use std::path::PathBuf;

use codex_wire::host::keeper;

use super::AnyError;

#[derive(clap::Args)]
pub struct Args {
    /// The plan file, written by the daemon or the launcher
    #[arg(long)]
    plan: PathBuf,
}

pub fn run(args: &Args) -> Result<(), AnyError> {
    let plan = keeper::read_plan(&args.plan)?;
    keeper::run(&plan)?;
    Ok(())
}
