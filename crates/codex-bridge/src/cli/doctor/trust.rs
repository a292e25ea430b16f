//! Reports the trust levels of directories, and those that look outdated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex_bridge_core::trust::Trust;

use super::{Finding, Globals};
use crate::client::{Autostart, Client};
use crate::config::File;
use crate::config::trust::{DEFAULT_LEVELS, problem_with};
use crate::failure::Failure;

/// The default level, each directory that has its own level, and whether the running daemon uses other levels.
pub async fn decisions(globals: &Globals, file: &File) -> Result<Vec<Finding>, Failure> {
    let levels = file.trusted_roots();
    let scope = if levels.is_empty() { "everywhere" } else { "elsewhere" };
    let mut findings: Vec<Finding> = levels.iter().map(|(dir, level)| decision(dir, *level)).collect();
    findings.insert(0, Finding::ok("trust", format!("{scope}: {DEFAULT_LEVELS}")));
    if differs_in_daemon(globals, &levels).await? {
        findings.push(Finding::warning(
            "trust",
            "the running daemon uses the configuration from when it was started",
            "restart it: `codex-bridge stop`; running tasks continue",
        ));
    }
    Ok(findings)
}

fn decision(dir: &Path, level: Trust) -> Finding {
    let shown = dir.display();
    match problem_with(dir) {
        // A hostile directory may belong to anybody.
        Some(problem) if level > Trust::Hostile || !dir.exists() => Finding::warning(
            "trust",
            format!("{shown} ({level}): {problem}"),
            format!("`codex-bridge trust --remove {shown}` removes the level"),
        ),
        _ => Finding::ok("trust", format!("{shown}  {}", level.described())),
    }
}

async fn differs_in_daemon(globals: &Globals, levels: &BTreeMap<PathBuf, Trust>) -> Result<bool, Failure> {
    let client = Client::new(globals.paths()?, Autostart::No);
    // Another check reports the daemon's own problems.
    let Ok(listed) = client.trust_list().await else { return Ok(false) };
    let daemon_levels: BTreeMap<PathBuf, Trust> =
        listed.directories.into_iter().map(|entry| (entry.dir.into(), entry.trust)).collect();
    Ok(daemon_levels != *levels)
}
