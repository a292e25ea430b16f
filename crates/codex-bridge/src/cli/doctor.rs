//! `codex-bridge doctor`: looks at everything that is needed, and says of each what to do. Starts no daemon.

mod codex;
mod ours;
mod trust;
mod users;
mod ways;

use std::process::ExitCode;

use serde::Serialize;

use super::{Globals, output};
use crate::failure::Failure;
use crate::{codex as finding, config};

#[derive(clap::Args)]
pub struct Args {}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What was looked at.
    name: &'static str,
    /// How it is.
    verdict: Verdict,
    /// In a sentence.
    message: String,
    /// What to do about it.
    fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Ok,
    Warning,
    Problem,
}

impl Finding {
    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, message: message.into(), fix: None }
    }

    fn warning(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    fn problem(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Problem, message: message.into(), fix: Some(fix.into()) }
    }

    fn failed(name: &'static str, failure: Failure) -> Self {
        Self { name, verdict: Verdict::Problem, message: failure.message, fix: failure.hint }
    }

    fn line(&self) -> String {
        let mark = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Problem => "PROBLEM",
        };
        let fix = self.fix.as_ref().map(|fix| format!("\n{:18}→ {fix}", "")).unwrap_or_default();
        format!("{mark:8}{:10}{}{fix}", self.name, self.message)
    }
}

#[tokio::main(flavor = "current_thread")]
pub async fn run(globals: &Globals) -> Result<ExitCode, Failure> {
    let findings = look(globals).await?;
    if globals.json {
        output::json(&findings)?;
    } else {
        output::lines(&findings.iter().map(Finding::line).collect::<Vec<_>>())?;
    }
    let is_well = findings.iter().all(|finding| finding.verdict != Verdict::Problem);
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn look(globals: &Globals) -> Result<Vec<Finding>, Failure> {
    let paths = globals.paths()?;
    let (file, mut findings) = match config::load(&paths) {
        Ok(file) => {
            let about = ours::config_file(&paths, &file.hints());
            (file, vec![about])
        }
        Err(failure) => (config::File::default(), vec![Finding::failed("config", failure)]),
    };
    match &file.hosts.launcher {
        Some(socket) => findings.extend(users::two_users(socket, &paths).await),
        None => findings.extend(codex_here(&file).await),
    }
    findings.extend(trust::decisions(globals, &file).await?);
    findings.extend(ways::channels(&file));
    findings.push(ours::state_dir(&paths));
    findings.push(ours::store(&paths));
    findings.push(ours::disk(&paths));
    let about = ours::about(globals).await?;
    // Of another user's tools only that user can tell.
    let is_own = file.hosts.launcher.is_none();
    findings.extend(is_own.then(|| ours::tools(&file, about.as_ref().ok())));
    findings.push(ours::daemon(about));
    findings.extend(ours::alarms(globals).await?);
    findings.push(ours::log(&paths));
    findings.extend(is_own.then(|| ours::hosts(&paths)));
    Ok(findings)
}

/// What Codex needs under this user.
async fn codex_here(file: &config::File) -> Vec<Finding> {
    let home = codex::home(file);
    let mut findings = Vec::new();
    match finding::installed(file.codex_bin.clone()) {
        Ok(found) => {
            findings.push(codex::version(&found));
            findings.push(codex::login(&found, &home).await);
            findings.push(codex::sandbox(&found, &home).await);
        }
        Err(failure) => findings.push(Finding::failed("codex", failure)),
    }
    findings.push(codex::home_dir(&home));
    findings.push(users::one_user());
    findings
}
