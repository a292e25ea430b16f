//! Which home of Codex a task uses.

use std::path::{Path, PathBuf};

use crate::config::Config;

/// The home that a task uses: its own, else the operator's, else the one that Codex chooses by itself.
pub(crate) fn home(config: &Config, own: Option<&PathBuf>) -> PathBuf {
    let default = || config.parent_env.get("HOME").map(|home| Path::new(home).join(".codex"));
    own.or(config.codex_home.as_ref()).cloned().or_else(default).unwrap_or_default()
}
