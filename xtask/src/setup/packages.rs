//! Packages of PyPI's and npm's that tests need, each in a folder of its own, with everything that it brings.
//!
//! Which versions they are stands in `xtask/locks`, with the hash of every file: what comes is what was looked at when the
//! lock was made, whoever controls the registry meanwhile. Nothing of a package runs while it is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::quiet;
use crate::workspace;

/// Where the locks are: a folder for each that is in `.tools`.
fn locks() -> PathBuf {
    workspace::root().join("xtask/locks")
}

/// Installs packages of PyPI's into an environment of their own, unless they are there.
pub fn pip(name: &str) -> Result<(), String> {
    let lock = locks().join(name).join("requirements.txt");
    once(name, &lock, |dir| {
        if !quiet("python3", &["-m", "venv", &dir.to_string_lossy()]) {
            return Err("a Python environment cannot be made: install python3-venv".to_owned());
        }
        // A wheel is unpacked; what is built from its sources would run its own build, with tools that nobody has pinned.
        let options = ["install", "--quiet", "--require-hashes", "--only-binary=:all:", "--requirement"];
        succeeds(Command::new(dir.join("bin/pip")).args(options).arg(&lock))
    })
}

/// Installs packages of npm's, unless they are there.
pub fn npm(name: &str) -> Result<(), String> {
    let locks = locks().join(name);
    once(name, &locks.join("package-lock.json"), |dir| {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(locks.join(file), dir.join(file)).map_err(|error| format!("{file}: {error}"))?;
        }
        let options = ["ci", "--ignore-scripts", "--silent", "--no-audit", "--no-fund"];
        succeeds(Command::new("npm").args(options).current_dir(dir))
    })
}

/// Installs what a lock names into a folder of `.tools`, unless the folder says that it has that very lock. One that has
/// another is made anew, so that nothing of it stays.
fn once(name: &str, lock: &Path, install: impl Fn(&Path) -> Result<(), String>) -> Result<(), String> {
    let dir = workspace::root().join(".tools").join(name);
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let wanted = fs::read_to_string(lock).map_err(|error| failed(lock, error))?;
    let mark = dir.join("installed");
    if fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    println!("installing {name} …");
    if dir.exists() {
        fs::remove_dir_all(&dir).map_err(|error| failed(&dir, error))?;
    }
    fs::create_dir_all(&dir).map_err(|error| failed(&dir, error))?;
    install(&dir)?;
    fs::write(&mark, wanted).map_err(|error| failed(&mark, error))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn all(file: &str) -> Vec<(PathBuf, String)> {
        let folders = fs::read_dir(locks()).unwrap().map(|entry| entry.unwrap().path());
        let files: Vec<_> = folders.map(|folder| folder.join(file)).filter(|path| path.exists()).collect();
        files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
    }

    #[test]
    fn every_package_of_pypi_has_one_version_and_its_hashes() {
        let locks = all("requirements.txt");
        assert_eq!(locks.len(), 7);
        for (path, text) in locks {
            let joined = text.replace("\\\n", " ");
            for line in joined.lines() {
                assert!(line.contains("==") && line.contains("--hash=sha256:"), "{}: {line}", path.display());
                assert!(!line.contains("://") && !line.contains(" @ "), "{}: {line}", path.display());
            }
            let wanted = fs::read_to_string(path.with_extension("in")).unwrap();
            let pin = wanted.trim().replace("[mcp]", "");
            assert!(joined.lines().any(|line| line.replace("[mcp]", "").starts_with(&pin)), "{pin}");
        }
    }

    #[test]
    fn every_package_of_npm_has_its_hash_and_no_registry() {
        let locks = all("package-lock.json");
        assert_eq!(locks.len(), 2);
        for (path, text) in locks {
            let packages = text.matches("\n    \"node_modules/").count();
            assert!(
                packages > 0 && text.matches("\"integrity\": \"sha512-").count() == packages,
                "{}",
                path.display()
            );
            assert!(!text.contains("\"resolved\""), "{} names a registry", path.display());
        }
    }
}
