//! `plant`: puts old faults of this project back, one at a time, and shows that the simulation finds each.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::workspace;

/// How this step is done alone.
pub const ALONE: &str = "cargo xtask plant";
/// The faults, as patches. Each begins with a sentence about what is wrong.
const FAULTS: &str = "crates/codex-bridge-core/tests/planted";
/// The test that has to find them.
const SIMULATION: &str = "simulation::whatever_fails_no_promise_is_broken";
/// How many seeds each fault is looked for in. Some faults need an order of events that is rarer than the seeds of `test`.
const SEEDS: &str = "10000";
/// How it says that it did.
const FOUND: &str = "breaks a promise";

/// Runs the command.
pub fn run() -> Result<(), String> {
    let copy = Copy::of_head()?;
    for fault in faults()? {
        let name = fault.file_stem().unwrap_or_default().display().to_string();
        copy.plant(&fault)?;
        match copy.broken_promise()? {
            Some(seed) => println!("{name}: {seed}"),
            None => return Err(format!("the simulation does not find {name}")),
        }
        copy.git(&["checkout", "--quiet", "."])?;
    }
    Ok(())
}

fn faults() -> Result<Vec<PathBuf>, String> {
    let mut faults: Vec<PathBuf> = fs::read_dir(workspace::root().join(FAULTS))
        .map_err(|error| format!("{FAULTS}: {error}"))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    faults.sort();
    Ok(faults)
}

/// A work tree of its own, at the commit that is checked out.
struct Copy {
    dir: PathBuf,
}

impl Copy {
    fn of_head() -> Result<Self, String> {
        let target = workspace::passed_tests();
        let dir = target.with_file_name("planted");
        let copy = Self { dir };
        copy.remove();
        let path = copy.dir.display().to_string();
        succeeded(git(&workspace::root(), &["worktree", "add", "--quiet", "--detach", &path]))?;
        Ok(copy)
    }

    fn plant(&self, fault: &Path) -> Result<(), String> {
        self.git(&["apply", &fault.display().to_string()])
    }

    fn git(&self, arguments: &[&str]) -> Result<(), String> {
        succeeded(git(&self.dir, arguments)).map(drop)
    }

    /// The line with the seed that shows the fault; none if no seed does.
    fn broken_promise(&self) -> Result<Option<String>, String> {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo.args(["test", "--release", "-p", "codex-bridge-core", "--test", "all", SIMULATION]);
        cargo.current_dir(&self.dir).env("CARGO_TARGET_DIR", self.dir.with_file_name("planted-target"));
        cargo.env("CODEX_BRIDGE_TEST_SEEDS", SEEDS);
        let output = cargo.output().map_err(|error| format!("cargo: {error}"))?;
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        match told.lines().find(|line| line.contains(FOUND)) {
            Some(line) => Ok(Some(line.trim().to_owned())),
            None if output.status.success() => Ok(None),
            None => Err(format!("the simulation did not run:\n{told}")),
        }
    }

    fn remove(&self) {
        let path = self.dir.display().to_string();
        // It is not there, most of the time.
        let _ = git(&workspace::root(), &["worktree", "remove", "--force", &path]).output();
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        self.remove();
    }
}

fn git(dir: &Path, arguments: &[&str]) -> Command {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(dir);
    git
}

fn succeeded(mut command: Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        Ok(output)
    } else {
        Err(format!("git failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_can_be_put_into_the_present_sources() {
        let faults = faults().unwrap();
        assert!(faults.len() >= 5, "{faults:?}");
        for fault in faults {
            let checked =
                git(&workspace::root(), &["apply", "--check", &fault.display().to_string()]).output();
            let checked = checked.unwrap();
            assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
        }
    }
}
