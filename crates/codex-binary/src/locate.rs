//! The search for a working codex: the places, their order, and the errors.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use crate::package::{self, Platform};
use crate::{Codex, MINIMUM, Support, Version, probe, reason};

/// `codex --version` takes 10 ms natively; a machine that needs a thousand times that has another problem.
const VERSION_LIMIT: Duration = Duration::from_secs(10);

/// Where to look for codex.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// The configured codex: a path, or a name to be found on `path`. When it is set nothing else is tried, so that a
    /// mistake in the configuration is seen.
    pub explicit: Option<PathBuf>,
    /// The value of `PATH`.
    pub path: Option<OsString>,
    /// Executables to try after `path`, in this order.
    pub fallbacks: Vec<PathBuf>,
}

/// Why there is no codex to work with, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Neither on the `PATH` nor in any other place.
    #[error(
        "codex was not found: install it with `npm i -g @openai/codex`, or set the path of codex in the configuration"
    )]
    NotFound,
    /// The configured path leads to no executable file.
    #[error(
        "the configured codex {} is not an executable file: correct the path, or remove it and install codex with \
         `npm i -g @openai/codex`",
        path.display()
    )]
    ExplicitNotFound {
        /// The path as it was configured.
        path: PathBuf,
    },
    /// The Node shim is there, the package with the native binary is not.
    #[error(
        "codex at {} lacks its native package {package}: install it again with `npm i -g @openai/codex` (without \
         `--omit=optional`), or set the path of a native codex",
        path.display()
    )]
    NativeMissing {
        /// The shim.
        path: PathBuf,
        /// The npm package that should hold the native binary.
        package: &'static str,
    },
    /// No native codex exists for this machine.
    #[error(
        "codex at {} is a Node program and no native codex is known for {} {}: set the path of a native codex",
        path.display(), env::consts::OS, env::consts::ARCH
    )]
    UnknownPlatform {
        /// The shim.
        path: PathBuf,
    },
    /// The file is there but cannot be read or started.
    #[error(
        "codex at {} could not be run ({}): install it again with `npm i -g @openai/codex`, or set the path of another one",
        path.display(), reason(source)
    )]
    NotRunnable {
        /// The executable.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No answer within the limit.
    #[error(
        "`{} --version` did not answer within {} s: install codex again with `npm i -g @openai/codex`, or set the path of another one",
        path.display(), limit.as_secs_f32()
    )]
    TimedOut {
        /// The executable.
        path: PathBuf,
        /// The limit that was reached.
        limit: Duration,
    },
    /// It ran and failed.
    #[error(
        "`{} --version` failed ({status}{}): install codex again with `npm i -g @openai/codex`, or set the path of another one",
        path.display(), last_line(stderr)
    )]
    Failed {
        /// The executable.
        path: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it wrote to its standard error.
        stderr: String,
    },
    /// It ran, but what it printed holds no version.
    #[error(
        "`{} --version` printed no version{}: is it really codex? install it with `npm i -g @openai/codex`, or set the path of codex",
        path.display(), last_line(stdout)
    )]
    Unparsable {
        /// The executable.
        path: PathBuf,
        /// What it printed.
        stdout: String,
    },
    /// Older than what we can work with.
    #[error(
        "codex at {} is {found}, but {MINIMUM} or newer is needed: update it with `npm i -g @openai/codex`, or set the path of a newer one",
        path.display()
    )]
    TooOld {
        /// The executable.
        path: PathBuf,
        /// Its version.
        found: Version,
    },
}

/// Finds the first codex that runs and is not too old. If there is none, the error is that of the first one found:
/// it is the one that the user knows of.
pub fn find(search: &Search) -> Result<Codex, Error> {
    find_within(search, VERSION_LIMIT)
}

fn find_within(search: &Search, limit: Duration) -> Result<Codex, Error> {
    if let Some(explicit) = &search.explicit {
        let found = explicit_candidate(search, explicit);
        return check(&found.ok_or_else(|| Error::ExplicitNotFound { path: explicit.clone() })?, limit);
    }
    let candidates = on_path(search, Path::new("codex")).chain(search.fallbacks.iter().cloned());
    let mut first_error = None;
    for candidate in candidates.filter(|path| is_executable(path)) {
        match check(&candidate, limit) {
            Ok(codex) => return Ok(codex),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    Err(first_error.unwrap_or(Error::NotFound))
}

/// As a shell does it: a bare name is looked for on the `PATH`, anything with a slash is a file.
fn explicit_candidate(search: &Search, explicit: &Path) -> Option<PathBuf> {
    let is_bare_name = explicit.components().count() == 1 && explicit.file_name().is_some();
    let named = is_bare_name.then(|| on_path(search, explicit).find(|path| is_executable(path))).flatten();
    named.or_else(|| Some(explicit.to_path_buf()).filter(|path| is_executable(path)))
}

fn on_path<'a>(search: &'a Search, name: &'a Path) -> impl Iterator<Item = PathBuf> + 'a {
    search.path.iter().flat_map(env::split_paths).map(move |folder| folder.join(name))
}

pub(crate) fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

fn check(candidate: &Path, limit: Duration) -> Result<Codex, Error> {
    let native =
        package::resolve(candidate, Platform::this()).map_err(|failure| unresolved(candidate, failure))?;
    let version = probe::version(&native.executable, limit)
        .map_err(|failure| unanswered(&native.executable, limit, failure))?;
    if version.support() == Support::Older {
        return Err(Error::TooOld { path: candidate.to_path_buf(), found: version });
    }
    Ok(Codex { executable: native.executable, package_root: native.package_root, version })
}

fn unresolved(candidate: &Path, failure: package::Failure) -> Error {
    let path = candidate.to_path_buf();
    match failure {
        package::Failure::Unreadable(source) => Error::NotRunnable { path, source },
        package::Failure::UnknownPlatform => Error::UnknownPlatform { path },
        package::Failure::PlatformPackageMissing { package } => Error::NativeMissing { path, package },
    }
}

fn unanswered(executable: &Path, limit: Duration, failure: probe::Failure) -> Error {
    let path = executable.to_path_buf();
    match failure {
        probe::Failure::NotRunnable(source) => Error::NotRunnable { path, source },
        probe::Failure::TimedOut => Error::TimedOut { path, limit },
        probe::Failure::Exited { status, stderr } => Error::Failed { path, status, stderr },
        probe::Failure::Unparsable { stdout } => Error::Unparsable { path, stdout },
    }
}

/// The last line that says something, as the tail of a sentence.
fn last_line(text: &str) -> String {
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty());
    line.map(|line| format!(", {:?}", line.chars().take(200).collect::<String>())).unwrap_or_default()
}

#[cfg(test)]
mod tests;
