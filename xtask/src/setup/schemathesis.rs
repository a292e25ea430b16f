//! schemathesis, which tries the HTTP API against its own description: pinned, and in `.tools` alone.

use std::path::Path;
use std::process::Command;

use super::sdks::{once, succeeds};
use crate::workspace;

const WHAT: &str = "schemathesis==4.32.5";

/// Installs it, unless it is there.
pub fn install() -> Result<(), String> {
    once(&workspace::root().join(".tools/schemathesis"), WHAT, |dir: &Path| {
        succeeds(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
        succeeds(Command::new(dir.join("bin/pip")).args(["install", "--quiet", WHAT]))
    })
}
