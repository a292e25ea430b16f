//! Who may use the daemon's socket: the same user, and nobody that Codex has started.
//!
//! A command in Codex's sandbox that has network access can reach the socket (seen on codex 0.166), and one that was
//! let out of the sandbox can anyway: either would answer its own approvals. Whoever descends from a host, carries a
//! host's mark or lives in another pid namespace is refused; and while a host has lost its keeper, so that its orphans
//! cannot be told from others, whoever may be one. What each sign proves stands in [`codex_wire::host::origin`].
//!
//! A connection is judged once, when it is accepted, by the process that made it, which [`codex_wire::os::peer`] tells.
//! Whoever the process gives the connection to speaks in its name.

use codex_wire::host::lineage;
use codex_wire::host::origin::{self, Origin, Suspect};
use codex_wire::host::record::MARKER;
use codex_wire::os::peer as os;
use codex_wire::os::process::{self, Stat};
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::failure::{Code, Failure};

pub use codex_wire::host::origin::Provenance;

const STARTED_BY_CODEX: &str = "the calling process was started by Codex";

/// Where the process on the other side stands, as it was when it connected; or why it may not connect.
#[derive(Debug, Clone)]
pub struct Peer(Result<Provenance, Failure>);

impl Peer {
    /// Who is at the other end of a connection, given by what the processes of the hosts are known now.
    pub fn of(stream: &UnixStream, origins: impl FnOnce() -> Vec<Origin>) -> Self {
        let judged = os::Peer::of(stream).map_err(unknown).and_then(|peer| {
            let standing = standing(&peer, origins)?;
            // What was read is about this caller only if it is still there.
            if peer.is_still_there() { Ok(standing) } else { Err(unknown(os::Error::Gone)) }
        });
        Self(judged)
    }

    /// Where it stands; or why it may not connect at all.
    pub fn standing(&self) -> Result<Provenance, Failure> {
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

fn standing(peer: &os::Peer, origins: impl FnOnce() -> Vec<Origin>) -> Result<Provenance, Failure> {
    if peer.user != geteuid().as_raw() {
        return Err(refused("the daemon belongs to another user"));
    }
    if !peer.is_in_our_namespace() {
        return Err(refused(
            "the calling process lives in another pid namespace, as in a sandbox or a container",
        ));
    }
    let pid = peer.process.pid;
    // Who is in doubt is refused. The order matters: first the family, then who of the hosts has a keeper.
    let lineage = lineage::of(pid).ok_or_else(started_by_codex)?;
    if lineage.iter().any(is_marked) {
        return Ok(Provenance::FromHost);
    }
    let suspect = Suspect { lineage: &lineage, audit_session: process::audit_session(pid) };
    match origin::provenance(suspect, &origins()) {
        Provenance::Unknown => Err(of_unknown_origin()),
        known => Ok(known),
    }
}

/// Whether a process or anyone above it carries the mark of a host. Orphans of a host are adopted by its keeper, which
/// carries the mark too, so nobody gets out from under it while the keeper lives.
pub fn is_below_a_host(pid: u32) -> bool {
    lineage::of(pid).is_none_or(|lineage| lineage.iter().any(is_marked))
}

fn is_marked(stat: &Stat) -> bool {
    process::has_variable(stat.process.pid, MARKER)
}

fn unknown(error: os::Error) -> Failure {
    refused(&error.to_string())
}

fn refused(why: &str) -> Failure {
    Failure::new(Code::PeerRefused, format!("this caller may not use the daemon: {why}"))
        .hint("approvals and commands come from people outside: ask them")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use codex_wire::os::process::Process;

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
        Process::with_pid(child).unwrap().signal(rustix::process::Signal::KILL).unwrap();
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
            let peer = os::Peer::with_pid(uid, pid, None).map_err(unknown)?;
            super::standing(&peer, || origins.to_vec())
        };
        let uid = geteuid().as_raw();
        assert!(standing(uid + 1, own, &[]).is_err());
        assert!(standing(uid, u32::MAX / 2, &[]).is_err());
        assert_eq!(standing(uid, own, &[]), Ok(Provenance::Outside));
        let parent = Process::with_pid(std::os::unix::process::parent_id()).unwrap();
        let booting = Origin::booting(parent, "/nowhere".into());
        assert_eq!(
            standing(uid, own, &[booting]),
            Ok(Provenance::FromHost),
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
        let caller = os::Peer::of(&stream).unwrap();
        assert_eq!(caller.process.pid, child.id());
        assert!(caller.is_still_there());
        assert_eq!(Peer::of(&stream, Vec::new).standing(), Ok(Provenance::Outside));

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!caller.is_still_there());
        assert_eq!(Peer::of(&stream, Vec::new).standing(), Err(unknown(os::Error::Gone)));
        assert!(os::Peer::of(&stream).is_err());
    }
}
