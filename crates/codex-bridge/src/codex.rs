//! Which codex to run: the user's own if its version is supported, else the pinned one, which is installed once.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use codex_binary::{Codex, Search, Support, find, pinned};

use crate::failure::{Code, Failure};
use crate::output;
use crate::paths::path_variable;
use crate::tool_path;

/// A supported codex, run from a linked copy, so that an update cannot replace it under a running host.
pub fn usable(explicit: Option<PathBuf>, data_dir: &Path) -> Result<Codex, Box<dyn std::error::Error>> {
    let path = search_path();
    let codex = match explicit {
        Some(explicit) => find(&Search { explicit: Some(explicit), ..Search::default() })?,
        None => supported_on(&path).map_or_else(|| install(data_dir, &path), Ok)?,
    };
    Ok(codex.linked_copy(&data_dir.join("codex"))?)
}

fn supported_on(path: &OsString) -> Option<Codex> {
    let codex = find(&Search { path: Some(path.clone()), ..Search::default() }).ok()?;
    (codex.version.support() == Support::Supported).then_some(codex)
}

fn install(data_dir: &Path, path: &OsString) -> Result<Codex, pinned::Error> {
    let into = data_dir.join("pinned");
    if let Some(codex) = pinned::installed(&into) {
        return Ok(codex);
    }
    output::note(format!("installing codex {} from npm into {} …", pinned::PINNED_VERSION, into.display()));
    pinned::install(&into, path)
}

/// The PATH on which codex is searched, without directories that a command could write in.
fn search_path() -> OsString {
    let path = std::env::var("PATH").unwrap_or_default();
    tool_path::for_hosts(&path, std::env::home_dir().as_deref()).into()
}

/// The data directory: `$XDG_DATA_HOME/codex-bridge`, or `~/.local/share/codex-bridge`.
pub fn data_dir() -> Result<PathBuf, Failure> {
    let default = || std::env::home_dir().map(|home| home.join(".local/share"));
    let base = path_variable("XDG_DATA_HOME").or_else(default);
    let missing = || Failure::new(Code::NoHome, "HOME is not set: set it, or XDG_DATA_HOME");
    Ok(base.ok_or_else(missing)?.join("codex-bridge"))
}

/// The daemon's codex, as a linked copy.
pub fn for_daemon(explicit: Option<PathBuf>) -> Result<Codex, Failure> {
    let copies = data_dir()?.join("codex");
    let codex = installed(explicit)?;
    codex.linked_copy(&copies).map_err(|error| Failure::new(Code::CodexCopy, error.to_string()))
}

/// The configured codex, else the first on the PATH, else the pinned one if it is installed.
pub fn installed(explicit: Option<PathBuf>) -> Result<Codex, Failure> {
    let pinned = pinned::installed(&data_dir()?.join("pinned"));
    let search = Search {
        explicit,
        path: Some(search_path()),
        fallbacks: pinned.into_iter().map(|codex| codex.executable).collect(),
    };
    find(&search).map_err(|error| missing(&error))
}

/// The failure of a search for codex. The error's own message says what to do.
fn missing(error: &codex_binary::Error) -> Failure {
    use codex_binary::Error;
    let code = match error {
        Error::NotFound | Error::ExplicitNotFound { .. } => Code::CodexMissing,
        Error::TooOld { .. } => Code::CodexTooOld,
        _ => Code::CodexBroken,
    };
    Failure::new(code, error.to_string())
}
