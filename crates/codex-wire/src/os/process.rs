//! What Linux says about processes: identity, kinship, memory, and signals that cannot hit a stranger.
//!
//! Knows `/proc` and nothing of Codex. A pid alone names nobody, since numbers are used again; a process is a pid
//! together with its start time ([`Process`]), and every signal goes out only after both were checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal, set_child_subreaper,
};
use serde::{Deserialize, Serialize};

/// What it takes to see the processes of other users.
pub(crate) const SEEING_OTHERS: &str =
    "/proc must show the processes of other users (no hidepid), in the same pid namespace";

/// One process, for as long as the machine runs: the number and when it was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// The process number.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: clock ticks between the start of the machine and that of the process.
    pub start_ticks: u64,
}

/// The fields of `/proc/PID/stat` that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Number and start time.
    pub process: Process,
    /// The parent's number.
    pub parent: u32,
    /// The session's number, which is that of the process that began it.
    pub session: u32,
    /// One letter: `R`, `S`, `T`, `Z` …
    pub state: char,
    /// How many threads it has.
    pub threads: u32,
    /// It is on its way out (`PF_EXITING`), which the kernel notes before it gives the children to somebody else.
    pub is_exiting: bool,
}

/// The bit of field 9 of `/proc/PID/stat`; it has been the same since Linux 2.6.
const PF_EXITING: u64 = 0x4;

impl Stat {
    /// Whether it still runs. A zombie has ended and waits for its parent to notice; but a process whose first thread
    /// alone has ended looks like one too, and has other threads.
    pub fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x') || self.threads > 1
    }
}

impl Process {
    /// The process that has this number now, if any runs under it.
    pub fn with_pid(pid: u32) -> Option<Process> {
        stat(pid).filter(Stat::is_running).map(|stat| stat.process)
    }

    /// Whether this very process runs.
    pub fn is_alive(self) -> bool {
        Process::with_pid(self.pid) == Some(self)
    }

    /// Whether this very process still has the children that it had: it runs and has not begun to end.
    pub fn keeps_its_children(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.process == self && stat.is_running() && !stat.is_exiting)
    }

    /// A handle on this very process; reading from it is possible once the process has ended.
    pub fn handle(self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(Errno::SRCH);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // The handle pins the process behind the number, so the check that follows cannot be overtaken.
        if self.is_alive() { Ok(handle) } else { Err(gone()) }
    }

    /// Sends a signal to this very process. Says `false` when it has ended already.
    pub fn signal(self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        // The handle pins the process behind the number, so the check that follows cannot be overtaken.
        let sent = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(_) | Err(Errno::NOSYS) if !self.is_alive() => return Ok(false),
            Ok(handle) => pidfd_send_signal(&handle, signal),
            Err(Errno::NOSYS) => kill_process(pid, signal),
            Err(error) => Err(error),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads one line of `/proc/PID/stat`. The name in it is free text that may hold spaces and brackets.
pub fn parse_stat(line: &str) -> Option<Stat> {
    let (pid, _) = line.split_once(' ')?;
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    Some(Stat {
        process: Process { pid: pid.parse().ok()?, start_ticks: fields.get(19)?.parse().ok()? },
        state: fields.first()?.chars().next()?,
        parent: fields.get(1)?.parse().ok()?,
        session: fields.get(3)?.parse().ok()?,
        threads: fields.get(17)?.parse().ok()?,
        is_exiting: fields.get(6)?.parse::<u64>().ok()? & PF_EXITING != 0,
    })
}

/// The resident memory in the text of `/proc/PID/status`, in bytes.
pub fn parse_rss_bytes(status: &str) -> Option<u64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    kib.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The numbers behind `Uid:` in the text of `/proc/PID/status`.
pub fn parse_users(status: &str) -> Option<Vec<u32>> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    numbers.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// The seconds of `/proc/uptime` as milliseconds.
pub fn parse_uptime_ms(text: &str) -> Option<u64> {
    let (seconds, hundredths) = text.split_whitespace().next()?.split_once('.')?;
    let hundredths: u64 = hundredths.get(..2)?.parse().ok()?;
    seconds.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(hundredths * 10)
}

/// Everyone below `ancestors` in a picture of all processes; the ancestors themselves are not among them.
pub fn descendants_in(all: &[Stat], ancestors: &BTreeSet<u32>) -> BTreeSet<Process> {
    let mut children: BTreeMap<u32, Vec<&Stat>> = BTreeMap::new();
    for stat in all {
        children.entry(stat.parent).or_default().push(stat);
    }
    let mut open: Vec<u32> = ancestors.iter().copied().collect();
    let mut seen = ancestors.clone();
    let mut found = BTreeSet::new();
    while let Some(parent) = open.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if seen.insert(child.process.pid) {
                open.push(child.process.pid);
                if child.is_running() {
                    found.insert(child.process);
                }
            }
        }
    }
    found
}

/// What the machine says about the process with this number.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&String::from_utf8_lossy(&fs::read(of(pid, "stat")).ok()?))
}

/// All processes that we can see.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

/// Everyone that runs below one process.
pub fn descendants(pid: u32) -> BTreeSet<Process> {
    descendants_in(&all(), &BTreeSet::from([pid]))
}

/// Whether the process was started with `entry` (`NAME=value`) in its environment. `false` where we may not look.
pub fn has_environment_entry(pid: u32, entry: &str) -> bool {
    fs::read(of(pid, "environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|one| one == entry.as_bytes()))
}

/// Whether the process was started with a variable of this name. `false` where we may not look.
pub fn has_variable(pid: u32, name: &str) -> bool {
    let names_it =
        |entry: &[u8]| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
    fs::read(of(pid, "environ")).is_ok_and(|text| text.split(|byte| *byte == 0).any(names_it))
}

/// The files that a process has open, as far as we may look.
pub fn open_files(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(of(pid, "fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// From here on this process adopts whoever below it loses their parent.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The command line, arguments parted by spaces.
pub fn command_line(pid: u32) -> Option<String> {
    let text = fs::read(of(pid, "cmdline")).ok()?;
    Some(String::from_utf8_lossy(&text).trim_end_matches('\0').replace('\0', " "))
}

/// Resident memory in bytes.
pub fn rss_bytes(pid: u32) -> Option<u64> {
    parse_rss_bytes(&fs::read_to_string(of(pid, "status")).ok()?)
}

/// The users that a process acts for: real, effective, saved, of files. Readable also of a process that forbids others to
/// look into it, whose files in `/proc` belong to root.
pub fn users(pid: u32) -> Option<Vec<u32>> {
    parse_users(&fs::read_to_string(of(pid, "status")).ok()?)
}

/// The login session that the kernel's audit has given to a process and all below it. None where there is none.
pub fn audit_session(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(of(pid, "sessionid")).ok()?;
    // The highest number stands for none.
    text.trim().parse().ok().filter(|session| *session != u32::MAX)
}

/// The id of this run of the machine: a new one after every restart.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Milliseconds since the machine started, also counted while it slept; not moved by anyone who sets the clock.
pub fn uptime_ms() -> Option<u64> {
    parse_uptime_ms(&fs::read_to_string("/proc/uptime").ok()?)
}

/// A new random id, from the kernel.
pub fn random_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/uuid")?.trim().to_owned())
}

fn of(pid: u32, file: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{file}"))
}

#[cfg(test)]
mod tests;
