//! Where hosts run: under the daemon's own user, or under another one by a launcher. And the launcher's own, smaller file.

use std::path::PathBuf;

use serde::Deserialize;

use super::{Env, File, checked};
use crate::failure::Failure;
use crate::paths::Paths;

/// Where the daemon has its hosts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hosts {
    /// The socket of the launcher that runs hosts under another user.
    #[serde(deserialize_with = "checked::path")]
    pub launcher: Option<PathBuf>,
}

/// The launcher's file. Its keys mean what they mean in the daemon's.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostsFile {
    /// The codex to run: a path, or a name on the PATH.
    pub codex_bin: Option<PathBuf>,
    /// The CODEX_HOME of tasks; by default the launcher's own variable, else Codex's default.
    #[serde(deserialize_with = "checked::path")]
    pub codex_home: Option<PathBuf>,
    /// Other homes that callers may name.
    #[serde(deserialize_with = "codex_bridge_core::place::absolute_paths")]
    pub other_homes: Vec<PathBuf>,
    /// What Codex and its commands see of the environment, beyond the built-in list.
    pub env: Env,
    /// What the launcher logs, and how.
    pub log: crate::log::Settings,
}

/// Reads the launcher's file. One that was named must be there.
pub fn load(paths: &Paths) -> Result<HostsFile, Failure> {
    let text = super::read(paths)?;
    toml::from_str(&text).map_err(|error| super::wrong(&text, &paths.config_file, error))
}

/// With a launcher, what belongs to Codex is set there: a value that does nothing would deceive whoever reads it. Gives the key
/// and what is wrong with it.
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
            Err((key, "with a launcher of hosts, this belongs to the launcher's own file".to_owned()))
        }
        None => Ok(()),
    }
}
