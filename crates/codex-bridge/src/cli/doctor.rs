//! `codex-bridge doctor`: checks everything that codex-bridge needs, and says what to do. Starts no daemon.

mod bridge;
mod channels;
mod codex;
mod trust;
mod users;

use std::process::ExitCode;

use serde::Serialize;

use super::Globals;
use crate::failure::Failure;
use crate::{codex as program, config};

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The check.
    name: &'static str,
    /// The result.
    verdict: Verdict,
    /// The result in a sentence.
    message: String,
    /// What to do.
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

pub async fn run(globals: &Globals) -> Result<ExitCode, Failure> {
    let findings = check(globals).await?;
    let printed = globals.print(&findings, |findings| findings.iter().map(Finding::line).collect())?;
    let is_usable = findings.iter().all(|finding| finding.verdict != Verdict::Problem);
    Ok(if is_usable { printed } else { ExitCode::FAILURE })
}

async fn check(globals: &Globals) -> Result<Vec<Finding>, Failure> {
    let paths = globals.paths()?;
    let (file, mut findings) = match config::load(&paths) {
        Ok(file) => {
            let finding = bridge::config_file(&paths, &file.hints());
            (file, vec![finding])
        }
        Err(failure) => (config::File::default(), vec![Finding::failed("config", failure)]),
    };
    match &file.hosts.launcher {
        Some(socket) => findings.extend(users::two_users(socket, &paths).await),
        None => findings.extend(codex_here(&file).await),
    }
    let client = globals.client_of_running()?;
    findings.extend(trust::decisions(&client, &file).await);
    findings.extend(channels::channels(&file));
    findings.extend(channels::failing(&client).await);
    findings.push(bridge::state_dir(&paths));
    findings.push(bridge::store(&paths));
    findings.push(bridge::disk(&paths));
    let about = client.get(&["about"], &()).await;
    // With a launcher, tools and hosts belong to another user and cannot be checked here.
    let is_own = file.hosts.launcher.is_none();
    findings.extend(is_own.then(|| bridge::tools(&file, about.as_ref().ok())));
    findings.push(bridge::daemon(about));
    findings.extend(bridge::alarms(&client).await?);
    findings.push(bridge::log(&paths));
    findings.extend(is_own.then(|| bridge::hosts(&paths)));
    Ok(findings)
}

/// Checks Codex, if it runs as this user.
async fn codex_here(file: &config::File) -> Vec<Finding> {
    let home = codex::home(file);
    let mut findings = Vec::new();
    match program::installed(file.codex_bin.clone()) {
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
