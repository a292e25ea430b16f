//! The codex that this project is tested with, installed from npm by a lock file into a folder of ours.
//! Knows npm's files and its way of failing; it must not touch any other installation of the user.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::locate::{self, Search, find, is_executable};
use crate::{Codex, Version, lock, reason};

/// The version that [`install`] installs: the one named in `pinned/package.json`.
pub const PINNED_VERSION: Version = crate::TESTED;

const PACKAGE: &str = include_str!("../pinned/package.json");
const PACKAGE_LOCK: &str = include_str!("../pinned/package-lock.json");
/// Holds the lock file's text once npm is through, so that a half-done or outdated install is not taken for a good one.
const STAMP: &str = ".installed";

/// Why the pinned codex is not installed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No `npm` on the `PATH`.
    #[error("npm was not found: install Node.js 18 or newer, which brings it")]
    NpmNotFound,
    /// `npm ci` failed; mostly the registry cannot be reached.
    #[error(
        "npm could not install codex {PINNED_VERSION} ({said}): check the network and npm's registry setting"
    )]
    NpmFailed {
        /// The line of npm's output that says most.
        said: String,
    },
    /// npm reported success, but codex does not run.
    #[error("npm installed codex {PINNED_VERSION} into {}, but {source}", into.display())]
    Unusable {
        /// Where it was installed.
        into: PathBuf,
        /// What is wrong with it.
        source: locate::Error,
    },
    /// A file could not be read or written.
    #[error("{} could not be prepared for codex: {}", into.display(), reason(source))]
    Folder {
        /// Where it was to be installed.
        into: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Installs the pinned codex into `into`, with the `npm` found on `path` (the value of `PATH`). Where it is installed
/// already, no npm is run. Any number of processes may call this at once.
pub fn install(into: &Path, path: &OsStr) -> Result<Codex, Error> {
    let folder = |source| Error::Folder { into: into.to_path_buf(), source };
    let _held = lock::hold(into).map_err(folder)?;
    if let Some(codex) = installed(into) {
        return Ok(codex);
    }
    let npm = env::split_paths(path).map(|place| place.join("npm")).find(|npm| is_executable(npm));
    let npm = npm.ok_or(Error::NpmNotFound)?;
    prepare(into).map_err(folder)?;
    run_npm(&npm, into, path)?;
    let codex = find_in(into).map_err(|source| Error::Unusable { into: into.to_path_buf(), source })?;
    fs::write(into.join(STAMP), PACKAGE_LOCK).map_err(folder)?;
    Ok(codex)
}

/// The pinned codex in `into`, if [`install`] has put it there and it still runs.
pub fn installed(into: &Path) -> Option<Codex> {
    let stamp = fs::read_to_string(into.join(STAMP)).ok()?;
    if stamp != PACKAGE_LOCK {
        return None;
    }
    find_in(into).ok().filter(|codex| codex.version == PINNED_VERSION)
}

fn find_in(into: &Path) -> Result<Codex, locate::Error> {
    find(&Search { explicit: Some(into.join("node_modules/.bin/codex")), ..Search::default() })
}

fn prepare(into: &Path) -> io::Result<()> {
    match fs::remove_file(into.join(STAMP)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::write(into.join("package.json"), PACKAGE)?;
    fs::write(into.join("package-lock.json"), PACKAGE_LOCK)
}

/// No limit of our own: npm ends a fetch that hangs by itself, and a slow line must be allowed its time.
fn run_npm(npm: &Path, into: &Path, path: &OsStr) -> Result<(), Error> {
    let output = Command::new(npm)
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
        // The native binary is an optional dependency, and a user's settings may leave those out.
        .arg("--include=optional")
        // npm 11: with its own waits between tries a registry that is down takes 70 s to be reported.
        .arg("--fetch-retry-maxtimeout=10000")
        .current_dir(into)
        .env("PATH", path)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| Error::NpmFailed { said: reason(&error) })?;
    if output.status.success() {
        return Ok(());
    }
    let said =
        telling_line(&String::from_utf8_lossy(&output.stderr)).unwrap_or_else(|| output.status.to_string());
    Err(Error::NpmFailed { said })
}

/// npm's report begins with codes, has one line for people, and goes on with a stack, advice and its log file. Without
/// a report (no node for npm to run on) the last line is what the system said.
fn telling_line(stderr: &str) -> Option<String> {
    let mut report = stderr.lines().filter_map(|line| {
        let line = line.strip_prefix("npm error ").or_else(|| line.strip_prefix("npm ERR! "))?;
        let is_code = ["code ", "errno ", "syscall "].iter().any(|start| line.starts_with(start));
        (!is_code).then_some(line)
    });
    let last = || stderr.lines().rfind(|line| !line.trim().is_empty());
    report.next().or_else(last).map(|line| line.trim().to_owned())
}

#[cfg(test)]
mod tests;
