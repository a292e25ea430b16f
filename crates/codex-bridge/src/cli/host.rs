//! `codex-bridge host`: the keeper of one Codex. It outlives whoever started it.

use std::path::PathBuf;

use codex_wire::host::keeper;

use super::Failed;

#[derive(clap::Args)]
pub struct Args {
    /// The plan that the launcher wrote.
    #[arg(long)]
    plan: PathBuf,
}

pub fn run(args: &Args) -> Result<(), Failed> {
    let plan = keeper::read_plan(&args.plan)?;
    keeper::run(&plan)?;
    Ok(())
}
