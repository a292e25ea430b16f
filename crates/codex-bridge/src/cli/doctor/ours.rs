//! What we need ourselves: a configuration that makes sense, a place for the state, a daemon, hosts.

use std::fs;
use std::os::unix::fs::MetadataExt;

use codex_bridge_core::id::short;
use codex_wire::host::{Found, find_all};
use jiff::{SignedDuration, Timestamp};
use redact::plain::plain;

use super::{Finding, Globals};
use crate::calls;
use crate::cli::store::inspect;
use crate::client::{Autostart, Client};
use crate::config::File;
use crate::daemon::host_config::path_of_commands;
use crate::failure::{Code, Failure};
use crate::log::file::older;
use crate::paths::Paths;
use crate::tool_path;
use crate::view::About;

/// Alarms that are older are history.
const ALARMS_OF: SignedDuration = SignedDuration::from_hours(7 * 24);

/// Tools that many tasks need.
const TOOLS: [&str; 8] = ["git", "python3", "node", "npm", "cargo", "go", "java", "make"];

/// With less than this, work may stop soon.
const LITTLE_BYTES: u64 = 1 << 30;
/// With less than this, work has stopped.
const TOO_LITTLE_BYTES: u64 = 50 << 20;

pub fn config_file(paths: &Paths, hints: &[String]) -> Finding {
    let file = paths.config_file.display();
    if !hints.is_empty() {
        return Finding::warning("config", format!("{file} holds, in old words"), hints.join("; "));
    }
    let message = if paths.config_file.exists() {
        format!("{file}")
    } else {
        format!("{file} is not there: the defaults hold")
    };
    Finding::ok("config", message)
}

pub fn state_dir(paths: &Paths) -> Finding {
    let dir = paths.state_dir.display();
    match fs::metadata(&paths.state_dir) {
        Err(_) => Finding::ok("state", format!("{dir} is made when it is needed")),
        Ok(found) if found.mode() & 0o077 != 0 => {
            Finding::warning("state", format!("{dir} is open to others"), format!("chmod 700 {dir}"))
        }
        Ok(_) => match tempfile::tempfile_in(&paths.state_dir) {
            Ok(_) => Finding::ok("state", dir.to_string()),
            Err(error) => {
                Finding::problem("state", format!("{dir} cannot be written: {error}"), "check who owns it")
            }
        },
    }
}

/// Whether the store can be worked with. While a daemon runs, it can.
pub fn store(paths: &Paths) -> Finding {
    let database = paths.database();
    if !database.exists() {
        return Finding::ok("store", format!("{} is made when it is needed", database.display()));
    }
    match inspect(&database) {
        Err(failure) => Finding::failed("store", failure),
        Ok(found) if found.sound => Finding::ok("store", format!("{} is sound", database.display())),
        Ok(found) => Finding::problem(
            "store",
            format!("{}: {}", database.display(), found.findings.join("; ")),
            "stop the daemon, put a backup (`codex-bridge store backup`) in its place, or move it away to begin anew",
        ),
    }
}

pub fn disk(paths: &Paths) -> Finding {
    let Some(dir) = paths.state_dir.ancestors().find(|dir| dir.is_dir()) else {
        return Finding::problem(
            "disk",
            "the state directory has no place to be",
            "choose another with --state-dir",
        );
    };
    match rustix::fs::statvfs(dir) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let message = format!("{} MB free for {}", free >> 20, paths.state_dir.display());
            match free {
                ..TOO_LITTLE_BYTES => Finding::problem("disk", message, "free some space"),
                TOO_LITTLE_BYTES..LITTLE_BYTES => Finding::warning("disk", message, "free some space"),
                _ => Finding::ok("disk", message),
            }
        }
        Err(error) => Finding::warning("disk", format!("free space cannot be told: {error}"), "look with df"),
    }
}

/// What the running daemon says about itself.
pub async fn about(globals: &Globals) -> Result<Result<About, Failure>, Failure> {
    Ok(Client::new(globals.paths()?, Autostart::No).about().await)
}

pub fn daemon(about: Result<About, Failure>) -> Finding {
    match about {
        Ok(about) => {
            let message =
                format!("{} runs as pid {}, with codex {}", about.version, about.pid, about.codex_version);
            if about.version == env!("CARGO_PKG_VERSION") {
                Finding::ok("daemon", message)
            } else {
                Finding::warning("daemon", message, "restart it: `codex-bridge stop`; running tasks go on")
            }
        }
        Err(failure) if failure.code == Code::DaemonNotRunning => {
            Finding::ok("daemon", "none runs; the next command starts it")
        }
        Err(failure) => Finding::failed("daemon", failure),
    }
}

/// Where the commands of tasks find their tools: on the PATH of the daemon that runs, else of the one that the next command
/// would start.
pub fn tools(file: &File, about: Option<&About>) -> Finding {
    let of_daemon = about.map(|about| about.path.clone()).filter(|path| !path.is_empty());
    let path = of_daemon.unwrap_or_else(|| path_of_commands(&file.env));
    let places: Vec<String> =
        TOOLS.iter().filter_map(|tool| Some(tool_path::find(tool, &path)?.display().to_string())).collect();
    let message = if places.is_empty() { "none of the usual ones".to_owned() } else { places.join(" ") };
    if tool_path::find("git", &path).is_none() {
        let fix = "install git, or name its directory in the configuration file: [env.set] PATH = \"…\"";
        return Finding::warning("tools", format!("{message}; PATH is {path}"), fix);
    }
    Finding::ok("tools", format!("{message}; PATH is {path}"))
}

/// Whether a thread has left its bounds lately. Only a daemon that runs can tell.
pub async fn alarms(globals: &Globals) -> Result<Option<Finding>, Failure> {
    let since = Timestamp::now().checked_sub(ALARMS_OF).map_err(Failure::internal)?;
    let which = calls::Audit {
        task: None,
        since: Some(crate::amount::rfc3339(since.as_millisecond())),
        limit: Some(1000),
    };
    let Ok(lines) = Client::new(globals.paths()?, Autostart::No).audit(&which).await else { return Ok(None) };
    let mut alarms = lines.iter().filter(|line| line.action == "alarm").rev();
    Ok(Some(match alarms.next() {
        None => Finding::ok("alarms", "none in the last week"),
        Some(last) => {
            let task = last.task_id.as_deref().map_or("-", short);
            let more = alarms.count();
            let message = format!(
                "{}: {} ({task}){}",
                last.at,
                plain(&last.detail),
                if more == 0 { String::new() } else { format!(", and {more} more in the last week") }
            );
            Finding::warning(
                "alarms",
                message,
                format!(
                    "look into what the task did: `codex-bridge logs {task}`, `codex-bridge audit --since 7d`"
                ),
            )
        }
    }))
}

/// Where a daemon that was started on the way says what it has to say; one in the foreground says it there.
pub fn log(paths: &Paths) -> Finding {
    let log = paths.log();
    let message = match fs::metadata(&log) {
        Err(_) => format!("{} is made when a command starts the daemon", log.display()),
        Ok(_) if older(&log).exists() => format!("{}, what came before in daemon.log.1", log.display()),
        Ok(_) => log.display().to_string(),
    };
    Finding::ok("log", message)
}

pub fn hosts(paths: &Paths) -> Finding {
    let found = find_all(&paths.hosts());
    let alive = found.iter().filter(|(_, host)| matches!(host, Ok(Found::Alive(_)))).count();
    let is_lost = |found: &Result<Found, _>| found.as_ref().is_ok_and(Found::has_lost_its_keeper);
    let lost: Vec<String> =
        found.iter().filter(|(_, host)| is_lost(host)).map(|(dir, _)| dir.display().to_string()).collect();
    if !lost.is_empty() {
        let message = format!(
            "{alive} run; {} lost their keeper, and processes of them may be left: what has lost its parents since they \
             began is refused",
            lost.len()
        );
        let hint = format!(
            "call from an older shell; once you know that nothing of them runs, remove {} and restart the daemon",
            lost.join(" ")
        );
        return Finding::warning("hosts", message, hint);
    }
    Finding::ok("hosts", format!("{alive} run"))
}
