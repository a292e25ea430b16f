//! Processes on Linux: identity, ancestry, memory, and signals that cannot reach the wrong process.
//!
//! Knows `/proc` and nothing of Codex. Pids are reused, so a process is identified by its pid and its start time
//! ([`Process`]). Both are checked before every signal.

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

/// What is needed to see the processes of other users.
pub(crate) const SEEING_OTHERS: &str =
    "/proc must show the processes of other users (no hidepid), in the same pid namespace";

/// One process, unique in one boot of the machine: its pid and its start time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Process {
    /// The process id.
    pub pid: u32,
    /// Field 22 of `/proc/PID/stat`: the start time in clock ticks since boot.
    pub start_ticks: u64,
}

/// The fields of `/proc/PID/stat` that we use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// Pid and start time.
    pub process: Process,
    /// The parent's pid.
    pub parent: u32,
    /// The session id, which is the pid of the process that started the session.
    pub session: u32,
    /// One letter: `R`, `S`, `T`, `Z` …
    pub state: char,
    /// How many threads it has.
    pub threads: u32,
    /// Whether it is exiting (`PF_EXITING`). The kernel sets this before it reparents the children.
    pub is_exiting: bool,
}

/// The bit of field 9 of `/proc/PID/stat`; it has been the same since Linux 2.6.
const PF_EXITING: u64 = 0x4;

impl Stat {
    /// Whether it still runs. A zombie does not. A process whose main thread alone has ended also looks like a zombie,
    /// but it has other threads.
    pub fn is_running(&self) -> bool {
        !matches!(self.state, 'Z' | 'X' | 'x') || self.threads > 1
    }
}

impl Process {
    /// The running process with this pid, if there is one.
    pub fn with_pid(pid: u32) -> Option<Process> {
        stat(pid).filter(Stat::is_running).map(|stat| stat.process)
    }

    /// Whether this very process runs.
    pub fn is_alive(self) -> bool {
        Process::with_pid(self.pid) == Some(self)
    }

    /// Whether this process still has its children: it runs and is not exiting.
    pub fn keeps_its_children(self) -> bool {
        stat(self.pid).is_some_and(|stat| stat.process == self && stat.is_running() && !stat.is_exiting)
    }

    /// A handle on this very process; reading from it is possible once the process has ended.
    pub fn handle(self) -> io::Result<OwnedFd> {
        let gone = || io::Error::from(Errno::SRCH);
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).ok_or_else(gone)?;
        let handle = pidfd_open(pid, PidfdFlags::NONBLOCK)?;
        // The handle pins the process, so the pid cannot be reused between the check and the use.
        if self.is_alive() { Ok(handle) } else { Err(gone()) }
    }

    /// Sends a signal to this very process. Returns `false` if it has ended.
    pub fn signal(self, signal: Signal) -> io::Result<bool> {
        let Some(pid) = i32::try_from(self.pid).ok().and_then(Pid::from_raw) else { return Ok(false) };
        // The handle pins the process, so the pid cannot be reused between the check and the use.
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

/// The user ids after `Uid:` in the text of `/proc/PID/status`.
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

/// The descendants of `ancestors` in a snapshot of all processes, without the ancestors themselves.
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

/// Reads `/proc/PID/stat`.
pub fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&String::from_utf8_lossy(&fs::read(of(pid, "stat")).ok()?))
}

/// All processes that we can see.
pub fn all() -> Vec<Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(stat).collect()
}

/// The running descendants of a process.
pub fn descendants(pid: u32) -> BTreeSet<Process> {
    descendants_in(&all(), &BTreeSet::from([pid]))
}

/// Whether the process was started with `entry` (`NAME=value`) in its environment. `false` if we may not read it.
pub fn has_environment_entry(pid: u32, entry: &str) -> bool {
    fs::read(of(pid, "environ"))
        .is_ok_and(|text| text.split(|byte| *byte == 0).any(|one| one == entry.as_bytes()))
}

/// Whether the process was started with a variable of this name. `false` if we may not read it.
pub fn has_variable(pid: u32, name: &str) -> bool {
    let names_it =
        |entry: &[u8]| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
    fs::read(of(pid, "environ")).is_ok_and(|text| text.split(|byte| *byte == 0).any(names_it))
}

/// The files that a process has open; empty if we may not read them.
pub fn open_files(pid: u32) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(of(pid, "fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| fs::read_link(entry.path()).ok())
}

/// Makes this process the adopter of orphaned descendants from now on.
pub fn adopt_orphans() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// The command line, with the arguments separated by spaces.
pub fn command_line(pid: u32) -> Option<String> {
    let text = fs::read(of(pid, "cmdline")).ok()?;
    Some(String::from_utf8_lossy(&text).trim_end_matches('\0').replace('\0', " "))
}

/// Resident memory in bytes.
pub fn rss_bytes(pid: u32) -> Option<u64> {
    parse_rss_bytes(&fs::read_to_string(of(pid, "status")).ok()?)
}

/// The user ids of a process: real, effective, saved, file system. Also readable for an undumpable process, whose files
/// in `/proc` belong to root.
pub fn users(pid: u32) -> Option<Vec<u32>> {
    parse_users(&fs::read_to_string(of(pid, "status")).ok()?)
}

/// The login session of a process and its descendants, by the kernel's audit; `None` without one.
pub fn audit_session(pid: u32) -> Option<u32> {
    let text = fs::read_to_string(of(pid, "sessionid")).ok()?;
    // The highest number means that there is none.
    text.trim().parse().ok().filter(|session| *session != u32::MAX)
}

/// The id of this boot of the machine.
pub fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Milliseconds since boot, including suspend; not affected by changes of the clock.
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
