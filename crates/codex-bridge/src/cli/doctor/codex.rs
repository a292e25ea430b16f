//! Checks Codex: its version, login, sandbox and home.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use codex_binary::{Codex, Support, TESTED};
use codex_wire::reason;
use tokio::process::Command;
use tokio::time::timeout;

use super::Finding;
use crate::config::File;
use crate::daemon::codex_home;

/// How long a command of Codex may take.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);

/// The Codex home of the daemon's tasks.
pub fn home(file: &File) -> PathBuf {
    let default = || std::env::home_dir().unwrap_or_default().join(".codex");
    codex_home(file).unwrap_or_else(default)
}

pub fn version(codex: &Codex) -> Finding {
    let message = format!("{} at {}", codex.version, codex.executable.display());
    match codex.version.support() {
        Support::Newer => Finding::warning(
            "codex",
            format!("{message}, newer than the tested version ({TESTED})"),
            format!("if something fails, install the tested version: npm i -g @openai/codex@{TESTED}"),
        ),
        _ => Finding::ok("codex", message),
    }
}

pub async fn login(codex: &Codex, home: &Path) -> Finding {
    if let Some(provider) = other_provider(home) {
        return Finding::ok("login", format!("not needed: the configured provider is {provider}"));
    }
    match run(codex, home, &["login", "status"]).await {
        Ok(output) if output.status.success() => Finding::ok("login", last_line(&output)),
        Ok(_) => Finding::problem("login", "Codex is not logged in", "run `codex login`"),
        Err(problem) => Finding::problem("login", problem, "run `codex login status` to see more"),
    }
}

/// The model provider in Codex's configuration, if it is not OpenAI. It needs no OpenAI login.
fn other_provider(home: &Path) -> Option<String> {
    let text = std::fs::read_to_string(home.join("config.toml")).ok()?;
    let config: toml::Table = toml::from_str(&text).ok()?;
    let provider = config.get("model_provider")?.as_str()?;
    (provider != "openai").then(|| provider.to_owned())
}

/// Checks Codex's sandbox with a command that does nothing.
pub async fn sandbox(codex: &Codex, home: &Path) -> Finding {
    let fix = "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, or an AppArmor profile \
        for bwrap), or install bubblewrap";
    match run(codex, home, &["sandbox", "--", "true"]).await {
        Ok(output) if output.status.success() => Finding::ok("sandbox", "commands can be sandboxed"),
        Ok(output) => Finding::problem("sandbox", format!("no sandbox: {}", last_line(&output)), fix),
        Err(problem) => Finding::problem("sandbox", problem, fix),
    }
}

pub fn home_dir(home: &Path) -> Finding {
    match std::fs::metadata(home) {
        Ok(found) if found.is_dir() => Finding::ok("home", home.display().to_string()),
        Ok(_) => Finding::problem(
            "home",
            format!("{} is not a directory", home.display()),
            "set codex_home or CODEX_HOME",
        ),
        Err(_) => Finding::warning(
            "home",
            format!("{} does not exist yet", home.display()),
            "`codex login` creates it",
        ),
    }
}

async fn run(codex: &Codex, home: &Path, args: &[&str]) -> Result<Output, String> {
    let mut command = Command::new(&codex.executable);
    command.args(args).env("CODEX_HOME", home).stdin(Stdio::null()).kill_on_drop(true);
    match timeout(ANSWER_LIMIT, command.output()).await {
        Ok(Ok(output)) => Ok(output),
        Ok(Err(error)) => Err(format!("cannot run codex: {}", reason(&error))),
        Err(_) => Err(format!("codex did not answer within {} s", ANSWER_LIMIT.as_secs())),
    }
}

fn last_line(output: &Output) -> String {
    let text = [output.stdout.as_slice(), b"\n", output.stderr.as_slice()].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line =
        text.lines().rev().map(str::trim).find(|line| !line.is_empty() && !line.starts_with("WARNING"));
    line.unwrap_or("no output").to_owned()
}
