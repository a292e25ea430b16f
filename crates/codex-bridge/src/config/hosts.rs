//! `[hosts]`: hosts run as the daemon's own user, or as another user by a launcher. Also the launcher's own, smaller file.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Env, File, checked};
use crate::failure::Failure;
use crate::paths::Paths;

/// Where hosts run.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosts {
    /// The socket of the launcher that runs hosts as another user.
    #[serde(deserialize_with = "checked::path")]
    pub launcher: Option<PathBuf>,
}

/// The launcher's file. Its keys mean the same as in the daemon's file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostsFile {
    /// The codex to run: a path, or a name on the PATH.
    pub codex_bin: Option<PathBuf>,
    /// The CODEX_HOME of tasks; by default the launcher's own CODEX_HOME, else Codex's default.
    #[serde(deserialize_with = "checked::path")]
    pub codex_home: Option<PathBuf>,
    /// Other homes that callers may name.
    #[serde(deserialize_with = "codex_bridge_core::place::absolute_paths")]
    pub other_homes: Vec<PathBuf>,
    /// Environment variables for Codex and its commands, besides the built-in list.
    pub env: Env,
    /// What the launcher logs, and how.
    pub log: crate::log::Settings,
}

/// Reads the launcher's file. A file that was named by flag or variable must exist.
pub fn load(paths: &Paths) -> Result<HostsFile, Failure> {
    let text = super::read(paths)?;
    toml::from_str(&text).map_err(|error| super::config_failure(&text, &paths.config_file, error))
}

/// Refuses Codex's settings in the daemon's file if there is a launcher, since they would have no effect. The error is the
/// key and what is wrong with it.
pub(super) fn check(file: &File) -> Result<(), (&'static str, String)> {
    if file.hosts.launcher.is_none() {
        return Ok(());
    }
    let set_here = [
        ("codex_bin", file.codex_bin.is_some()),
        ("codex_home", file.codex_home.is_some()),
        ("other_homes", !file.other_homes.is_empty()),
        ("[env]", !file.env.pass.is_empty() || !file.env.set.is_empty()),
    ];
    match set_here.iter().find(|(_, is_set)| *is_set) {
        Some((key, _)) => {
            Err((key, "with a launcher, this setting belongs into the launcher's file".to_owned()))
        }
        None => Ok(()),
    }
}
