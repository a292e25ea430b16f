//! `codex-bridge trust`: shows, sets and removes the trust levels of directories.

use std::io::{IsTerminal, stderr, stdin};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use codex_bridge_core::id::short;
use codex_bridge_core::trust::Trust;
use redact::plain::{path, plain};

use super::keyboard::{Keyboard, Line};
use super::render::width::{columns, pad};
use super::{Globals, output};
use crate::amount::counted;
use crate::calls;
use crate::client::Client;
use crate::failure::{Code, Failure};
use crate::view::{TrustChange, TrustEntry, TrustList, TrustOf};

#[derive(clap::Args)]
pub struct Args {
    /// The directory; its level also applies to directories below it that have no level of their own
    #[arg(required_unless_present = "list")]
    dir: Option<PathBuf>,
    /// The level to set: hostile (nothing in the directory configures Codex), instructions (only its AGENTS.md is read) or
    /// trusted (its .codex/ is in effect too). Without a level, the present one is shown
    #[arg(value_parser = str::parse::<Trust>, conflicts_with_all = ["list", "remove"])]
    level: Option<Trust>,
    /// List all directories that have a level
    #[arg(long, conflicts_with_all = ["dir", "remove"])]
    list: bool,
    /// Remove the directory's level; the level of a directory above applies again, or the default
    #[arg(long)]
    remove: bool,
    /// Set the level `trusted` without asking
    #[arg(long)]
    yes: bool,
}

pub async fn run(globals: &Globals, args: Args) -> Result<ExitCode, Failure> {
    let client = globals.client()?;
    // The daemon's current directory is another one, so relative paths are resolved here.
    let dir = args.dir.map(|dir| std::path::absolute(&dir).map_err(Failure::internal)).transpose()?;
    match (dir, args.level) {
        (None, _) => globals.print(&client.get(&["trust"], &()).await?, table),
        (Some(dir), None) if args.remove => {
            let changed = client.post(&["trust", "remove"], &calls::RemoveTrust { dir }).await?;
            globals.print(&changed, change_lines)
        }
        (Some(dir), None) => {
            globals.print(&trust_of(&client, &calls::TrustOf { dir, level: None }).await?, level_lines)
        }
        (Some(dir), Some(level)) => {
            if level == Trust::Trusted && !args.yes {
                confirm(globals, &client, &dir).await?;
            }
            let changed = client.post(&["trust"], &calls::SetTrust { dir, level }).await?;
            globals.print(&changed, change_lines)
        }
    }
}

async fn trust_of(client: &Client, call: &calls::TrustOf) -> Result<TrustOf, Failure> {
    client.get(&["trust", "directory"], call).await
}

fn table(listed: &TrustList) -> Vec<String> {
    let widest = listed.directories.iter().map(|entry| columns(&path(&entry.dir))).max().unwrap_or(0);
    let line = |entry: &TrustEntry| {
        let problem = entry.problem.as_ref().map(|problem| format!("  ({problem})")).unwrap_or_default();
        format!("{}  {}{problem}", pad(&path(&entry.dir), widest), pad(entry.trust.as_str(), 12))
            .trim_end()
            .to_owned()
    };
    let mut lines: Vec<String> = listed.directories.iter().map(line).collect();
    let scope = if lines.is_empty() { "everywhere" } else { "elsewhere" };
    lines.push(format!("{scope}: {}", listed.elsewhere));
    lines
}

/// The level of a directory, and why.
fn level_lines(found: &TrustOf) -> Vec<String> {
    let mut lines = vec![path(&found.dir).into_owned(), format!("  {}", found.trust.described())];
    lines.push(match &found.decided_by {
        Some(root) if *root == found.dir => "  set for this directory".to_owned(),
        Some(root) => format!("  set for {}", path(root)),
        None if found.trust == found.trust_for_others => "  the default".to_owned(),
        None => format!(
            "  the default for a person at the terminal; for agents and remote callers it is {}",
            found.trust_for_others
        ),
    });
    lines.extend(warnings(found));
    lines
}

fn warnings(found: &TrustOf) -> impl Iterator<Item = String> {
    found.warnings.iter().map(|warning| format!("  note: {}", plain(warning)))
}

fn change_lines(changed: &TrustChange) -> Vec<String> {
    let mut lines = level_lines(&changed.now);
    let before = changed.before.map(|before| format!("; the level was {before}")).unwrap_or_default();
    lines.insert(3, format!("  written to {}{before}", path(&changed.config_file)));
    let running = &changed.unchanged_tasks;
    if !running.is_empty() {
        let ids: Vec<&str> = running.iter().map(|id| short(id)).collect();
        let (count, ids) = (counted(running.len(), "task"), ids.join(", "));
        lines.push(format!("  note: the former level applies to {count} until the turn ends: {ids}"));
    }
    lines
}

/// Says what trusting a directory means, and asks. A directory that cannot be trusted is refused first.
async fn confirm(globals: &Globals, client: &Client, dir: &Path) -> Result<(), Failure> {
    let call = calls::TrustOf { dir: dir.to_owned(), level: Some(Trust::Trusted) };
    let found = trust_of(client, &call).await?;
    let not_confirmed = |message: String| {
        Failure::new(Code::NotConfirmed, message).hint(format!(
            "`codex-bridge trust {} trusted --yes` skips the question; its .codex/ then takes effect, with MCP servers that run outside the sandbox",
            path(&found.dir)
        ))
    };
    let can_ask = !globals.json && stdin().is_terminal() && stderr().is_terminal();
    let Some(mut keyboard) = can_ask.then(Keyboard::open).flatten() else {
        return Err(not_confirmed(format!(
            "{} was not trusted: there is no terminal to ask on",
            path(&found.dir)
        )));
    };
    for line in meaning(&found) {
        output::note(line);
    }
    eprint!("Type yes to trust it: ");
    keyboard.question_shown();
    match keyboard.line().await {
        Line::Typed(answer) if answer.trim().eq_ignore_ascii_case("yes") => Ok(()),
        Line::Typed(_) => Err(Failure::new(Code::NotConfirmed, "nothing was changed")),
        Line::End => {
            output::note("");
            Err(Failure::new(Code::NotConfirmed, "nothing was changed"))
        }
    }
}

fn meaning(found: &TrustOf) -> Vec<String> {
    let mut lines = vec![
        format!("If you trust {} and everything below it:", path(&found.dir)),
        "  - every task starts the MCP servers in its .codex/, outside the sandbox and as your user"
            .to_owned(),
        "  - commands that its .codex/ rules allow run without approval".to_owned(),
        "  - everyone who can write there can change these servers and rules, including tasks".to_owned(),
    ];
    lines.extend(warnings(found));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(dir: &str, trust: Trust, decided_by: Option<&str>) -> TrustOf {
        TrustOf {
            dir: dir.into(),
            trust,
            meaning: trust.meaning().into(),
            trust_for_others: if decided_by.is_some() { trust } else { Trust::Hostile },
            decided_by: decided_by.map(str::to_owned),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn what_holds_is_told_with_the_reason() {
        let mut by_default = found("/home/ana/app", Trust::Instructions, None);
        by_default.warnings.push("/l is a link to /home/ana/app, which is what counts".into());
        let lines = [
            level_lines(&by_default),
            level_lines(&found("/srv/app", Trust::Trusted, Some("/srv/app"))),
            level_lines(&found("/srv/app/x", Trust::Hostile, Some("/srv/app"))),
            level_lines(&found("/srv/\u{1b}[2Jx", Trust::Hostile, None)),
        ];
        insta::assert_snapshot!(lines.concat().join("\n"), @r"
        /home/ana/app
          instructions: its AGENTS.md is read, nothing else of it configures Codex
          the default for a person at the terminal; for agents and remote callers it is hostile
          note: /l is a link to /home/ana/app, which is what counts
        /srv/app
          trusted: its .codex/ is in effect: its MCP servers run outside the sandbox, its rules let commands run unasked
          set for this directory
        /srv/app/x
          hostile: nothing of the directory configures Codex
          set for /srv/app
        /srv/⟨U+001B⟩[2Jx
          hostile: nothing of the directory configures Codex
          the default
        ");
    }

    #[test]
    fn decisions_are_listed_with_what_is_odd_about_them() {
        let entry = |dir: &str, trust: Trust, problem: Option<&str>| TrustEntry {
            dir: dir.into(),
            trust,
            meaning: trust.meaning().into(),
            problem: problem.map(str::to_owned),
        };
        let mut listed = TrustList {
            directories: vec![
                entry("/home/ana/app", Trust::Trusted, None),
                entry("/srv", Trust::Hostile, Some("it does not exist")),
            ],
            elsewhere: "the default".into(),
            config_file: "/c".into(),
        };
        insta::assert_snapshot!(table(&listed).join("\n"), @r"
        /home/ana/app  trusted
        /srv           hostile       (it does not exist)
        elsewhere: the default
        ");
        listed.directories.clear();
        assert_eq!(table(&listed), ["everywhere: the default"]);
    }
}
