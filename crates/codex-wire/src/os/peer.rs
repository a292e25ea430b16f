//! The process at the other end of a unix socket.
//!
//! `SO_PEERPIDFD` (Linux 6.5) gives a handle on the very process that connected: its number cannot have gone to somebody else while
//! the handle says that it lives. Without it the number and the start time have to be the same before and after; a number that went
//! to somebody else between the connect and the accept is not noticed then.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{getsockopt, sockopt};
use tokio::net::UnixStream;

use super::process::Process;

/// The process that has made a connection.
#[derive(Debug)]
pub struct Peer {
    /// Its user.
    pub user: u32,
    /// The process itself.
    pub process: Process,
    /// None where the kernel has no such handles.
    handle: Option<OwnedFd>,
}

/// Why it is not known who has made a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has ended.
    #[error("the calling process has gone")]
    Gone,
    /// The kernel does not say.
    #[error("the calling process cannot be told")]
    Untold,
}

impl Peer {
    /// Who has made this connection.
    pub fn of(stream: &UnixStream) -> Result<Self, Error> {
        let handle = match getsockopt(stream, sockopt::PeerPidfd) {
            Ok(handle) => Some(handle),
            Err(Errno::ENOPROTOOPT) => None,
            Err(_) => return Err(Error::Gone),
        };
        let cred = stream.peer_cred().map_err(|_| Error::Untold)?;
        let pid = cred.pid().and_then(|pid| u32::try_from(pid).ok()).ok_or(Error::Untold)?;
        Self::with_pid(cred.uid(), pid, handle)
    }

    /// The process with this number, which a user's connection came from.
    pub fn with_pid(user: u32, pid: u32, handle: Option<OwnedFd>) -> Result<Self, Error> {
        let process = Process::with_pid(pid).ok_or(Error::Gone)?;
        // An older kernel gives a handle on whoever has the number now.
        let handle = handle.or_else(|| process.handle().ok());
        Ok(Self { user, process, handle })
    }

    /// Whether it lives: only then what was read about its number was about this process.
    pub fn is_still_there(&self) -> bool {
        let by_handle =
            self.handle.as_ref().is_none_or(|handle| pid_behind(handle).ok() == Some(self.process.pid));
        by_handle && self.process.is_alive()
    }

    /// Whether it sees the same processes as we do. Not so in a sandbox or a container.
    pub fn is_in_our_namespace(&self) -> bool {
        let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        let theirs = namespace(&self.process.pid.to_string());
        theirs.is_some() && theirs == namespace("self")
    }
}

/// The number of the process behind a handle; an error once it is nobody's.
fn pid_behind(handle: &OwnedFd) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| io::ErrorKind::NotFound.into())
}
