//! Checks codex-bridge's own parts: configuration, state directory, store, disk, daemon, tools, alarms, log, hosts.

use std::fs;
use std::os::unix::fs::MetadataExt;

use codex_bridge_core::id::short;
use codex_wire::host::{Found, find_all};
use codex_wire::reason;
use jiff::{SignedDuration, Timestamp};
use redact::plain::plain;

use super::Finding;
use crate::calls;
use crate::cli::store::inspect;
use crate::client::Client;
use crate::config::File;
use crate::daemon::host_config::command_path;
use crate::failure::{Code, Failure};
use crate::log::file::rotated;
use crate::paths::Paths;
use crate::tool_path;
use crate::view::{About, AuditLine};

/// Older alarms are not reported.
const ALARM_PERIOD: SignedDuration = SignedDuration::from_hours(7 * 24);

const TOOLS: [&str; 8] = ["git", "python3", "node", "npm", "cargo", "go", "java", "make"];

/// With less free space, tasks may stop soon.
const LOW_SPACE_BYTES: u64 = 1 << 30;
/// With less free space, tasks have stopped.
const NO_SPACE_BYTES: u64 = 50 << 20;

pub fn config_file(paths: &Paths, hints: &[String]) -> Finding {
    let file = paths.config_file.display();
    if !hints.is_empty() {
        return Finding::warning("config", format!("{file} has old spellings"), hints.join("; "));
    }
    let message = if paths.config_file.exists() {
        format!("{file}")
    } else {
        format!("{file} does not exist: the defaults apply")
    };
    Finding::ok("config", message)
}

pub fn state_dir(paths: &Paths) -> Finding {
    let dir = paths.state_dir.display();
    match fs::metadata(&paths.state_dir) {
        Err(_) => Finding::ok("state", format!("{dir} is created when it is needed")),
        Ok(found) if found.mode() & 0o077 != 0 => {
            Finding::warning("state", format!("{dir} is open to other users"), format!("chmod 700 {dir}"))
        }
        Ok(_) => match tempfile::tempfile_in(&paths.state_dir) {
            Ok(_) => Finding::ok("state", dir.to_string()),
            Err(error) => Finding::problem(
                "state",
                format!("{dir} cannot be written: {}", reason(&error)),
                "check its owner",
            ),
        },
    }
}

/// Checks the store file.
pub fn store(paths: &Paths) -> Finding {
    let database = paths.database();
    if !database.exists() {
        return Finding::ok("store", format!("{} is created when it is needed", database.display()));
    }
    match inspect(&database) {
        Err(failure) => Finding::failed("store", failure),
        Ok(found) if found.sound => Finding::ok("store", format!("{} is sound", database.display())),
        Ok(found) => Finding::problem(
            "store",
            format!("{}: {}", database.display(), found.findings.join("; ")),
            "stop the daemon, then restore a backup (`codex-bridge store backup` makes them), or move the file away to start with an empty store",
        ),
    }
}

pub fn disk(paths: &Paths) -> Finding {
    let Some(dir) = paths.state_dir.ancestors().find(|dir| dir.is_dir()) else {
        return Finding::problem(
            "disk",
            "no directory above the state directory exists",
            "choose another state directory with --state-dir",
        );
    };
    match rustix::fs::statvfs(dir) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let message = format!("{} MB free for {}", free >> 20, paths.state_dir.display());
            match free {
                ..NO_SPACE_BYTES => Finding::problem("disk", message, "free some space"),
                NO_SPACE_BYTES..LOW_SPACE_BYTES => Finding::warning("disk", message, "free some space"),
                _ => Finding::ok("disk", message),
            }
        }
        Err(error) => Finding::warning(
            "disk",
            format!("cannot determine the free space: {}", reason(&error.into())),
            "check with `df`",
        ),
    }
}

pub fn daemon(about: Result<About, Failure>) -> Finding {
    match about {
        Ok(about) => {
            let message = format!(
                "{} is running as pid {}, with codex {}",
                about.version, about.pid, about.codex_version
            );
            if about.version == env!("CARGO_PKG_VERSION") {
                Finding::ok("daemon", message)
            } else {
                Finding::warning("daemon", message, "restart it: `codex-bridge stop`; running tasks continue")
            }
        }
        Err(failure) if failure.code == Code::DaemonNotRunning => {
            Finding::ok("daemon", "not running; the next command starts it")
        }
        Err(failure) => Finding::failed("daemon", failure),
    }
}

/// Checks that the tasks' commands find their tools, on the PATH of the running daemon, else of the daemon that the next
/// command would start.
pub fn tools(file: &File, about: Option<&About>) -> Finding {
    let daemon_path = about.map(|about| about.path.clone()).filter(|path| !path.is_empty());
    let path = daemon_path.unwrap_or_else(|| command_path(&file.env));
    let found: Vec<String> =
        TOOLS.iter().filter_map(|tool| Some(tool_path::find(tool, &path)?.display().to_string())).collect();
    let message = if found.is_empty() { "no common tools found".to_owned() } else { found.join(" ") };
    if tool_path::find("git", &path).is_none() {
        let fix =
            "install git, or add its directory to the PATH in the configuration file: [env.set] PATH = \"…\"";
        return Finding::warning("tools", format!("{message}; PATH is {path}"), fix);
    }
    Finding::ok("tools", format!("{message}; PATH is {path}"))
}

/// Reports recent alarms from the audit log. Needs a running daemon.
pub async fn alarms(client: &Client) -> Result<Option<Finding>, Failure> {
    let since = Timestamp::now().checked_sub(ALARM_PERIOD).map_err(Failure::internal)?;
    let filter = calls::Audit {
        task: None,
        since: Some(crate::amount::rfc3339(since.as_millisecond())),
        limit: Some(1000),
    };
    let Ok(lines) = client.get::<Vec<AuditLine>>(&["audit"], &filter).await else { return Ok(None) };
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
                    "examine what the task did: `codex-bridge logs {task}`, `codex-bridge audit --since 7d`"
                ),
            )
        }
    }))
}

/// Names the log file of a daemon in the background.
pub fn log(paths: &Paths) -> Finding {
    let log = paths.log();
    let message = match fs::metadata(&log) {
        Err(_) => format!("{} is created when a command starts the daemon", log.display()),
        Ok(_) if rotated(&log).exists() => format!("{}, older lines in daemon.log.1", log.display()),
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
            "{alive} running; {} lost their keeper and may have left processes behind: orphaned processes that are younger \
             than those hosts are refused",
            lost.len()
        );
        let hint = format!(
            "use a shell that is older than those hosts; once none of their processes is left, remove {} and restart the daemon",
            lost.join(" ")
        );
        return Finding::warning("hosts", message, hint);
    }
    Finding::ok("hosts", format!("{alive} running"))
}
