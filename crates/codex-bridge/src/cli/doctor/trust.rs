//! Reports the trust levels of directories, and those that look outdated.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex_bridge_core::trust::Trust;

use super::Finding;
use crate::client::Client;
use crate::config::File;
use crate::config::trust::{DEFAULT_LEVELS, problem_with};
use crate::view::TrustList;

/// The default level, each directory that has its own level, and whether the running daemon uses other levels.
pub async fn decisions(client: &Client, file: &File) -> Vec<Finding> {
    let levels = file.trusted_roots();
    let scope = if levels.is_empty() { "everywhere" } else { "elsewhere" };
    let mut findings: Vec<Finding> = levels.iter().map(|(dir, level)| decision(dir, *level)).collect();
    findings.insert(0, Finding::ok("trust", format!("{scope}: {DEFAULT_LEVELS}")));
    if differs_in_daemon(client, &levels).await {
        findings.push(Finding::warning(
            "trust",
            "the running daemon uses the configuration from when it was started",
            "restart it: `codex-bridge stop`; running tasks continue",
        ));
    }
    findings
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

async fn differs_in_daemon(client: &Client, levels: &BTreeMap<PathBuf, Trust>) -> bool {
    // Another check reports the daemon's own problems.
    let Ok(listed) = client.get::<TrustList>(&["trust"], &()).await else { return false };
    let daemon_levels: BTreeMap<PathBuf, Trust> =
        listed.directories.into_iter().map(|entry| (entry.dir.into(), entry.trust)).collect();
    daemon_levels != *levels
}
