//! `codex-bridge man`: prints or writes the manual pages.

use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use super::output;
use crate::failure::Failure;
use crate::paths::cannot;

#[derive(clap::Args)]
pub struct Args {
    /// Write a page per command to this directory, instead of the main page to stdout
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn run(args: &Args, command: Command) -> Result<ExitCode, Failure> {
    match &args.dir {
        Some(dir) => write_all(command, dir)?,
        None => stdout().write_all(&page(command)?).map_err(output::write_failure)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn write_all(command: Command, dir: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(dir).map_err(|error| cannot("make", dir, &error))?;
    clap_mangen::generate_to(command, dir).map_err(|error| cannot("write to", dir, &error))
}

fn page(command: Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page).map_err(Failure::internal)?;
    Ok(page)
}
