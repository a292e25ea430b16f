//! How far directories are trusted, and which of those decisions look forgotten.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use codex_bridge_core::trust::Trust;

use super::{Finding, Globals};
use crate::client::{Autostart, Client};
use crate::config::File;
use crate::config::trust::{ELSEWHERE, oddity};
use crate::failure::Failure;

/// The default, then each directory that has a level; and whether a daemon that runs goes by something else.
pub async fn decisions(globals: &Globals, file: &File) -> Result<Vec<Finding>, Failure> {
    let decided = file.trusted_roots();
    let rest = if decided.is_empty() { "everywhere" } else { "elsewhere" };
    let mut findings: Vec<Finding> = decided.iter().map(|(dir, level)| decision(dir, *level)).collect();
    findings.insert(0, Finding::ok("trust", format!("{rest}: {ELSEWHERE}")));
    if is_other_in_daemon(globals, &decided).await? {
        findings.push(Finding::warning(
            "trust",
            "the daemon that runs goes by what the configuration said when it was started",
            "restart it: `codex-bridge stop`; running tasks go on",
        ));
    }
    Ok(findings)
}

fn decision(dir: &Path, level: Trust) -> Finding {
    let shown = dir.display();
    match oddity(dir) {
        // A directory that nothing is taken from may be anybody's.
        Some(oddity) if level > Trust::Hostile || !dir.exists() => Finding::warning(
            "trust",
            format!("{shown} ({level}): {oddity}"),
            format!("`codex-bridge trust --remove {shown}` forgets it"),
        ),
        _ => Finding::ok("trust", format!("{shown}  {}", level.described())),
    }
}

async fn is_other_in_daemon(globals: &Globals, decided: &BTreeMap<PathBuf, Trust>) -> Result<bool, Failure> {
    let client = Client::new(globals.paths()?, Autostart::No);
    // Whether one runs, and how it is, is said elsewhere.
    let Ok(listed) = client.trust_list().await else { return Ok(false) };
    let of_daemon: BTreeMap<PathBuf, Trust> =
        listed.directories.into_iter().map(|entry| (entry.dir.into(), entry.trust)).collect();
    Ok(of_daemon != *decided)
}
