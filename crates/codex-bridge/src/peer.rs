//! Who may use the daemon's socket: the same user, and nobody that Codex has started.
//!
//! A command in Codex's sandbox that has network access can reach the socket (seen on codex 0.166), and one that was
//! let out of the sandbox can anyway: either would answer its own approvals. Whoever descends from a host, carries a
//! host's mark or lives in another pid namespace is refused.

use std::fs;

use codex_wire::host::proc;
use codex_wire::host::record::MARKER;
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::failure::Failure;

/// More generations than this are not a family but a mistake.
const MAX_GENERATIONS: usize = 64;
const STARTED_BY_CODEX: &str = "the calling process was started by Codex";

/// The process on the other side and everyone above it, as they were when it connected; or why it may not connect.
#[derive(Debug, Clone)]
pub struct Peer(Result<Family, Failure>);

#[derive(Debug, Clone)]
struct Family {
    lineage: Vec<u32>,
    is_marked: bool,
}

/// Where a peer stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It has nothing to do with our hosts.
    Outside,
    /// A host has started it, or somebody below one.
    BelowAHost,
}

impl Peer {
    /// Who is at the other end of a connection.
    pub fn of(stream: &UnixStream) -> Self {
        let who =
            stream.peer_cred().ok().and_then(|peer| Some((peer.uid(), u32::try_from(peer.pid()?).ok()?)));
        Self(match who {
            Some((uid, pid)) => checked(uid, pid),
            None => Err(refused("the calling process cannot be told")),
        })
    }

    /// Where it stands, given the processes of the hosts; or why it may not connect at all. The mark alone would not do:
    /// the environment of a process that forbids others to look into it cannot be read.
    pub fn standing(&self, hosts: &[u32]) -> Result<Standing, Failure> {
        match &self.0 {
            Ok(family) if family.is_marked || family.lineage.iter().any(|pid| hosts.contains(pid)) => {
                Ok(Standing::BelowAHost)
            }
            Ok(_) => Ok(Standing::Outside),
            Err(failure) => Err(failure.clone()),
        }
    }
}

/// Why a peer below a host may not use the daemon.
pub fn started_by_codex() -> Failure {
    refused(STARTED_BY_CODEX)
}

fn checked(uid: u32, pid: u32) -> Result<Family, Failure> {
    if uid != geteuid().as_raw() {
        return Err(refused("the daemon belongs to another user"));
    }
    let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
    let theirs = namespace(&pid.to_string());
    if theirs.is_none() || theirs != namespace("self") {
        return Err(refused(
            "the calling process lives in another pid namespace, as in a sandbox or a container",
        ));
    }
    // Who is in doubt is refused.
    let lineage = lineage(pid).ok_or_else(started_by_codex)?;
    let is_marked = lineage.iter().any(|pid| is_marked(*pid));
    Ok(Family { lineage, is_marked })
}

/// Whether a process or anyone above it carries the mark of a host. Orphans of a host are adopted by its keeper, which
/// carries the mark too, so nobody gets out from under it.
pub fn is_below_a_host(pid: u32) -> bool {
    lineage(pid).is_none_or(|lineage| lineage.iter().any(|pid| is_marked(*pid)))
}

/// A process and everyone above it, the first process excepted. None if it has gone, or has no end.
fn lineage(pid: u32) -> Option<Vec<u32>> {
    let mut lineage = vec![pid];
    let mut parent = proc::stat(pid)?.parent;
    while parent > 1 {
        lineage.push(parent);
        if lineage.len() > MAX_GENERATIONS {
            return None;
        }
        // A parent that has just gone leaves its child to one that we know less well: who is in doubt is refused.
        parent = proc::stat(parent)?.parent;
    }
    Some(lineage)
}

fn is_marked(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let names_mark =
        |entry: &[u8]| entry.strip_prefix(MARKER.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
    environment.split(|byte| *byte == 0).any(names_mark)
}

fn refused(why: &str) -> Failure {
    Failure::new("peer_refused", format!("this caller may not use the daemon: {why}"))
        .hint("approvals and commands come from people outside: ask them")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// Whether a shell with this environment, and a child of it, are taken for Codex's.
    fn judged(mark: &str) -> (bool, bool) {
        let mut shell = Command::new("sh");
        shell.args(["-c", "sleep 60 & echo $!; wait"]).env_clear().env("PATH", "/usr/bin:/bin");
        shell.env("X", mark).stdout(Stdio::piped());
        if let Some((name, value)) = mark.split_once('=') {
            shell.env(name, value);
        }
        let mut shell = shell.spawn().unwrap();
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(shell.stdout.take().unwrap()), &mut line)
            .unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let found = (is_below_a_host(shell.id()), is_below_a_host(child));
        proc::Process::with_pid(child).unwrap().signal(rustix::process::Signal::KILL).unwrap();
        shell.wait().unwrap();
        found
    }

    #[test]
    fn what_a_host_started_is_told_by_its_mark() {
        assert_eq!(judged("CODEX_BRIDGE_HOST=1234"), (true, true));
        assert_eq!(judged("CODEX_BRIDGE_HOSTS"), (false, false));
    }

    #[test]
    fn other_users_and_unknown_processes_are_refused() {
        assert!(checked(geteuid().as_raw() + 1, std::process::id()).is_err());
        assert!(checked(geteuid().as_raw(), u32::MAX / 2).is_err());
        let own = Peer(checked(geteuid().as_raw(), std::process::id()));
        assert_eq!(own.standing(&[]), Ok(Standing::Outside));
        let below = own.standing(&[std::os::unix::process::parent_id()]);
        assert_eq!(below, Ok(Standing::BelowAHost), "its parent is a host");
    }
}
