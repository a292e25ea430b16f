//! The reference library of Standard Webhooks, by which the tests check our signatures: pinned, and in `.tools` alone.

use std::path::Path;
use std::process::Command;

use super::quiet;
use super::sdks::{once, succeeds};
use crate::workspace;

const PYTHON: &str = "standardwebhooks==1.1.0";

/// Installs it if it is not there.
pub fn install() -> Result<(), String> {
    once(&workspace::root().join(".tools/standardwebhooks"), PYTHON, python)
}

fn python(dir: &Path) -> Result<(), String> {
    let dir = dir.to_string_lossy();
    if !quiet("python3", &["-m", "venv", &dir]) {
        return Err("a Python environment cannot be made: install python3-venv".to_owned());
    }
    succeeds(Command::new(format!("{dir}/bin/pip")).args(["install", "--quiet", PYTHON]))
}
