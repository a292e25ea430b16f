//! The official MCP SDKs, whose clients the tests let talk to our server: pinned, and in `.tools` alone.

use std::path::Path;
use std::process::Command;

use super::quiet;
use crate::workspace;

const PYTHON: &str = "mcp==2.3.0";
const TYPESCRIPT: &str = "@modelcontextprotocol/sdk@1.32.2";

/// Installs what is not there.
pub fn install() -> Result<(), String> {
    let tools = workspace::root().join(".tools");
    once(&tools.join("mcp-python"), PYTHON, python)?;
    once(&tools.join("mcp-typescript"), TYPESCRIPT, typescript)
}

/// Installs something pinned into a folder, unless the folder says that it has it.
pub fn once(dir: &Path, what: &str, install: impl Fn(&Path) -> Result<(), String>) -> Result<(), String> {
    let mark = dir.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == what) {
        return Ok(());
    }
    println!("installing {what} …");
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(failed)?;
    install(dir)?;
    std::fs::write(&mark, what).map_err(failed)
}

fn python(dir: &Path) -> Result<(), String> {
    let dir = dir.to_string_lossy();
    let is_made = quiet("python3", &["-m", "venv", &dir]);
    if !is_made {
        return Err("a Python environment cannot be made: install python3-venv".to_owned());
    }
    succeeds(Command::new(format!("{dir}/bin/pip")).args(["install", "--quiet", PYTHON]))
}

fn typescript(dir: &Path) -> Result<(), String> {
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(dir).arg(TYPESCRIPT);
    succeeds(&mut npm)
}

/// Runs a program on our terminal.
pub fn succeeds(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}
