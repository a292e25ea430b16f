//! Who may use the daemon's socket: the same user, and nobody that Codex has started.
//!
//! A command in Codex's sandbox that has network access can reach the socket (seen on codex 0.166), and one that was
//! let out of the sandbox can anyway: either would answer its own approvals. Whoever descends from a host, carries a
//! host's mark or lives in another pid namespace is refused; and while a host has lost its keeper, so that its orphans
//! cannot be told from others, whoever may be one. What each sign proves stands in [`codex_wire::host::origin`].
//!
//! A connection is judged once, when it is accepted, by the process that made it. `SO_PEERPIDFD` (Linux 6.5) gives a handle
//! on that very process: its number cannot have gone to somebody else while the handle says that it lives. Without it the
//! number and the start time have to be the same before and after; a number that went to somebody else between the
//! connect and the accept is not noticed then. Whoever the process gives the connection to speaks in its name.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use codex_wire::host::lineage;
use codex_wire::host::origin::{self, Origin, Suspect};
use codex_wire::host::proc::{self, Process, Stat};
use codex_wire::host::record::MARKER;
use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::failure::{Code, Failure};

pub use codex_wire::host::origin::Standing;

const STARTED_BY_CODEX: &str = "the calling process was started by Codex";

/// Where the process on the other side stands, as it was when it connected; or why it may not connect.
#[derive(Debug, Clone)]
pub struct Peer(Result<Standing, Failure>);

impl Peer {
    /// Who is at the other end of a connection, given by what the processes of the hosts are known now.
    pub fn of(stream: &UnixStream, origins: impl FnOnce() -> Vec<Origin>) -> Self {
        let judged = Caller::behind(stream).and_then(|caller| {
            let standing = caller.standing(origins)?;
            // What was read is about this caller only if it is still there.
            if caller.is_still_there() { Ok(standing) } else { Err(gone()) }
        });
        Self(judged)
    }

    /// Where it stands; or why it may not connect at all.
    pub fn standing(&self) -> Result<Standing, Failure> {
        self.0.clone()
    }
}

/// Why a peer below a host may not use the daemon.
pub fn started_by_codex() -> Failure {
    refused(STARTED_BY_CODEX)
}

/// Why a peer that may come from a host may not use the daemon.
pub fn of_unknown_origin() -> Failure {
    let why = "a host of Codex has lost its keeper, and the calling process may be left of it";
    Failure::new(Code::PeerRefused, format!("this caller may not use the daemon: {why}"))
        .hint("call from a shell that is older than that host; `codex-bridge doctor` tells more")
}

/// The process that has made a connection.
struct Caller {
    uid: u32,
    process: Process,
    /// None where the kernel has no such handles.
    handle: Option<OwnedFd>,
}

impl Caller {
    fn behind(stream: &UnixStream) -> Result<Self, Failure> {
        let cannot_be_told = || refused("the calling process cannot be told");
        let handle = match getsockopt(stream, sockopt::PeerPidfd) {
            Ok(handle) => Some(handle),
            Err(Errno::ENOPROTOOPT) => None,
            Err(_) => return Err(gone()),
        };
        let cred = stream.peer_cred().map_err(|_| cannot_be_told())?;
        let pid = cred.pid().and_then(|pid| u32::try_from(pid).ok()).ok_or_else(cannot_be_told)?;
        Self::with(cred.uid(), pid, handle)
    }

    fn with(uid: u32, pid: u32, handle: Option<OwnedFd>) -> Result<Self, Failure> {
        let process = Process::with_pid(pid).ok_or_else(gone)?;
        // An older kernel gives a handle on whoever has the number now.
        let handle = handle.or_else(|| process.handle().ok());
        Ok(Self { uid, process, handle })
    }

    fn standing(&self, origins: impl FnOnce() -> Vec<Origin>) -> Result<Standing, Failure> {
        if self.uid != geteuid().as_raw() {
            return Err(refused("the daemon belongs to another user"));
        }
        let pid = self.process.pid;
        let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        let theirs = namespace(&pid.to_string());
        if theirs.is_none() || theirs != namespace("self") {
            return Err(refused(
                "the calling process lives in another pid namespace, as in a sandbox or a container",
            ));
        }
        // Who is in doubt is refused. The order matters: first the family, then who of the hosts has a keeper.
        let lineage = lineage::of(pid).ok_or_else(started_by_codex)?;
        if lineage.iter().any(is_marked) {
            return Ok(Standing::BelowAHost);
        }
        let suspect = Suspect { lineage: &lineage, audit_session: proc::audit_session(pid) };
        match origin::standing(suspect, &origins()) {
            Standing::Unknown => Err(of_unknown_origin()),
            known => Ok(known),
        }
    }

    fn is_still_there(&self) -> bool {
        let by_handle =
            self.handle.as_ref().is_none_or(|handle| pid_behind(handle).ok() == Some(self.process.pid));
        by_handle && self.process.is_alive()
    }
}

/// The number of the process behind a handle; an error once it is nobody's.
fn pid_behind(handle: &OwnedFd) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Whether a process or anyone above it carries the mark of a host. Orphans of a host are adopted by its keeper, which
/// carries the mark too, so nobody gets out from under it while the keeper lives.
pub fn is_below_a_host(pid: u32) -> bool {
    lineage::of(pid).is_none_or(|lineage| lineage.iter().any(is_marked))
}

fn is_marked(stat: &Stat) -> bool {
    let environment = fs::read(format!("/proc/{}/environ", stat.process.pid)).unwrap_or_default();
    let names_mark =
        |entry: &[u8]| entry.strip_prefix(MARKER.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'='));
    environment.split(|byte| *byte == 0).any(names_mark)
}

fn gone() -> Failure {
    refused("the calling process has gone")
}

fn refused(why: &str) -> Failure {
    Failure::new(Code::PeerRefused, format!("this caller may not use the daemon: {why}"))
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
        let own = std::process::id();
        let standing = |uid, pid, origins: &[Origin]| {
            Caller::with(uid, pid, None).and_then(|caller| caller.standing(|| origins.to_vec()))
        };
        let uid = geteuid().as_raw();
        assert!(standing(uid + 1, own, &[]).is_err());
        assert!(standing(uid, u32::MAX / 2, &[]).is_err());
        assert_eq!(standing(uid, own, &[]), Ok(Standing::Outside));
        let parent = Process::with_pid(std::os::unix::process::parent_id()).unwrap();
        let booting = Origin::booting(parent, "/nowhere".into());
        assert_eq!(
            standing(uid, own, &[booting]),
            Ok(Standing::BelowAHost),
            "its parent is a host that boots"
        );
    }

    #[tokio::test]
    async fn the_caller_is_the_process_that_connected_and_nobody_once_it_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let listener = tokio::net::UnixListener::bind(dir.path().join("s")).unwrap();
        let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.connect(sys.argv[1])\ninput()";
        let mut child = Command::new("python3");
        child.args(["-c", script]).arg(dir.path().join("s")).stdin(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        let caller = Caller::behind(&stream).unwrap();
        assert_eq!(caller.process.pid, child.id());
        assert!(caller.is_still_there());
        assert_eq!(Peer::of(&stream, Vec::new).standing(), Ok(Standing::Outside));

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!caller.is_still_there());
        assert_eq!(Peer::of(&stream, Vec::new).standing(), Err(gone()));
        assert!(Caller::behind(&stream).is_err());
    }
}
