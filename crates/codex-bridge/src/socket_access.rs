//! Who may use the daemon's socket: processes of the same user that Codex has not started.
//!
//! A command in Codex's sandbox with network access can reach the socket (seen on codex 0.166), and so can a command
//! outside the sandbox. Either could approve its own requests. So a process is refused if it descends from a host,
//! carries a host's mark or lives in another pid namespace. While a host has lost its keeper, every process that may be
//! an orphan of that host is refused too. [`codex_wire::host::origin`] says what each sign proves.
//!
//! A connection is checked once, when it is accepted. The check is about the process that connected
//! ([`codex_wire::os::peer`]). A process that inherits the connection has the same rights.

use codex_wire::host::lineage;
use codex_wire::host::origin::{self, Origin, Suspect};
use codex_wire::host::record::MARKER;
use codex_wire::os::peer;
use codex_wire::os::process::{self, Stat};
use rustix::process::geteuid;
use tokio::net::UnixStream;

use crate::failure::{Code, Failure};

pub use codex_wire::host::origin::Provenance;

/// The provenance of the process that connected, or why it may not use the socket.
#[derive(Debug, Clone)]
pub struct SocketCaller(Result<Provenance, Failure>);

impl SocketCaller {
    /// Checks the process at the other end of a connection. `origins` lists the hosts that are known now.
    pub fn of(stream: &UnixStream, origins: impl FnOnce() -> Vec<Origin>) -> Self {
        let checked = peer::Peer::of(stream).map_err(unidentified).and_then(|peer| {
            let provenance = provenance(&peer, origins)?;
            // The pid may have been reused while `/proc` was read, unless the process still runs.
            if peer.is_still_there() { Ok(provenance) } else { Err(unidentified(peer::Error::Gone)) }
        });
        Self(checked)
    }

    /// Where the process comes from, or why it may not use the socket at all.
    pub fn provenance(&self) -> Result<Provenance, Failure> {
        self.0.clone()
    }
}

/// Why a process below a host may not use the daemon.
pub fn started_by_codex() -> Failure {
    refused("the calling process was started by Codex")
}

/// Why a process that may come from a host may not use the daemon.
pub fn of_unknown_origin() -> Failure {
    let why = "a Codex host has lost its keeper, and the calling process may have been started by that host";
    Failure::new(Code::PeerRefused, format!("this caller may not use the daemon: {why}"))
        .hint("call from a shell that is older than that host; `codex-bridge doctor` tells more")
}

fn provenance(peer: &peer::Peer, origins: impl FnOnce() -> Vec<Origin>) -> Result<Provenance, Failure> {
    if peer.user != geteuid().as_raw() {
        return Err(refused("the daemon belongs to another user"));
    }
    if !peer.is_in_our_namespace() {
        return Err(refused(
            "the calling process lives in another pid namespace, as in a sandbox or a container",
        ));
    }
    let pid = peer.process.pid;
    // A process in doubt is refused. The lineage is read before the keepers are checked: in the other order, a keeper
    // that dies in between would go unnoticed.
    let lineage = lineage::of(pid).ok_or_else(started_by_codex)?;
    if lineage.iter().any(is_marked) {
        return Ok(Provenance::FromHost);
    }
    let suspect = Suspect { lineage: &lineage, audit_session: process::audit_session(pid) };
    Ok(origin::provenance(suspect, &origins()))
}

/// Whether a process or one of its ancestors carries a host's mark. The keeper carries the mark too and adopts its
/// host's orphans, so no process escapes while the keeper lives.
pub fn is_below_a_host(pid: u32) -> bool {
    lineage::of(pid).is_none_or(|lineage| lineage.iter().any(is_marked))
}

fn is_marked(stat: &Stat) -> bool {
    process::has_variable(stat.process.pid, MARKER)
}

fn unidentified(error: peer::Error) -> Failure {
    refused(&error.to_string())
}

fn refused(why: &str) -> Failure {
    Failure::new(Code::PeerRefused, format!("this caller may not use the daemon: {why}"))
        .hint("commands of Codex cannot approve or start anything: ask a person to do it in their own shell")
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use codex_wire::os::process::Process;

    use super::*;

    /// Whether a shell with this environment, and a child of the shell, are found to be below a host.
    fn found_below_host(mark: &str) -> (bool, bool) {
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
        assert_eq!(found_below_host("CODEX_BRIDGE_HOST=1234"), (true, true));
        assert_eq!(found_below_host("CODEX_BRIDGE_HOSTS"), (false, false));
    }

    #[test]
    fn other_users_and_unknown_processes_are_refused() {
        let own = std::process::id();
        let provenance = |uid, pid, origins: &[Origin]| {
            let peer = peer::Peer::with_pid(uid, pid, None).map_err(unidentified)?;
            super::provenance(&peer, || origins.to_vec())
        };
        let uid = geteuid().as_raw();
        assert!(provenance(uid + 1, own, &[]).is_err());
        assert!(provenance(uid, u32::MAX / 2, &[]).is_err());
        assert_eq!(provenance(uid, own, &[]), Ok(Provenance::Outside));
        let parent = Process::with_pid(std::os::unix::process::parent_id()).unwrap();
        let booting = Origin::booting(parent, "/nowhere".into());
        assert_eq!(
            provenance(uid, own, &[booting]),
            Ok(Provenance::FromHost),
            "the parent is a host that boots"
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
        let caller = peer::Peer::of(&stream).unwrap();
        assert_eq!(caller.process.pid, child.id());
        assert!(caller.is_still_there());
        assert_eq!(SocketCaller::of(&stream, Vec::new).provenance(), Ok(Provenance::Outside));

        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!caller.is_still_there());
        assert_eq!(SocketCaller::of(&stream, Vec::new).provenance(), Err(unidentified(peer::Error::Gone)));
        assert!(peer::Peer::of(&stream).is_err());
    }
}
