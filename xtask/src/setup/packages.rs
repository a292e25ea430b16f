//! Pinned packages of PyPI's and npm's, each in a folder of its own.

use std::path::Path;
use std::process::Command;

use super::quiet;

/// Installs a package of PyPI's into an environment of its own, unless it is there.
pub fn pip(dir: &Path, what: &str) -> Result<(), String> {
    once(dir, what, || {
        if !quiet("python3", &["-m", "venv", &dir.to_string_lossy()]) {
            return Err("a Python environment cannot be made: install python3-venv".to_owned());
        }
        succeeds(Command::new(dir.join("bin/pip")).args(["install", "--quiet", what]))
    })
}

/// Installs a package of npm's, unless it is there.
pub fn npm(dir: &Path, what: &str) -> Result<(), String> {
    once(dir, what, || {
        let mut npm = Command::new("npm");
        npm.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(dir).arg(what);
        succeeds(&mut npm)
    })
}

/// Installs something pinned into a folder, unless the folder says that it has it.
fn once(dir: &Path, what: &str, install: impl Fn() -> Result<(), String>) -> Result<(), String> {
    let mark = dir.join("installed");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == what) {
        return Ok(());
    }
    println!("installing {what} …");
    let failed = |error: std::io::Error| format!("{}: {error}", dir.display());
    std::fs::create_dir_all(dir).map_err(failed)?;
    install()?;
    std::fs::write(&mark, what).map_err(failed)
}

/// Runs a program on our terminal.
fn succeeds(command: &mut Command) -> Result<(), String> {
    let shown = format!("{command:?}");
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{shown}: {status}")),
        Err(error) => Err(format!("{shown}: {error}")),
    }
}
