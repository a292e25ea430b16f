//! The process at the other end of a unix socket.
//!
//! `SO_PEERPIDFD` (Linux 6.5) gives a handle on the process that connected: while the handle is alive, its pid cannot
//! have been reused. On older kernels the pid and the start time must be the same before and after a check; a pid that
//! was reused between connect and accept is not noticed.

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
    /// The user id.
    pub user: u32,
    /// The process itself.
    pub process: Process,
    /// `None` if the kernel has no such handles.
    handle: Option<OwnedFd>,
}

/// Why the process that made a connection is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It has ended.
    #[error("the calling process has ended")]
    Gone,
    /// The kernel does not report the process.
    #[error("the calling process cannot be identified")]
    Untold,
}

impl Peer {
    /// The process that made this connection.
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

    /// The process with this pid, whose connection came from `user`.
    pub fn with_pid(user: u32, pid: u32, handle: Option<OwnedFd>) -> Result<Self, Error> {
        let process = Process::with_pid(pid).ok_or(Error::Gone)?;
        // On an older kernel: a handle on the process that has the pid now.
        let handle = handle.or_else(|| process.handle().ok());
        Ok(Self { user, process, handle })
    }

    /// Whether the process lives. Only then did data that was read by its pid belong to it.
    pub fn is_still_there(&self) -> bool {
        let by_handle =
            self.handle.as_ref().is_none_or(|handle| pid_behind(handle).ok() == Some(self.process.pid));
        by_handle && self.process.is_alive()
    }

    /// Whether it is in our pid namespace. A process in a sandbox or a container is not.
    pub fn is_in_our_namespace(&self) -> bool {
        let namespace = |of: &str| fs::read_link(format!("/proc/{of}/ns/pid")).ok();
        let theirs = namespace(&self.process.pid.to_string());
        theirs.is_some() && theirs == namespace("self")
    }
}

/// The pid of the process behind a handle; an error once the process was reaped.
fn pid_behind(handle: &OwnedFd) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/proc/self/fdinfo/{}", handle.as_raw_fd()))?;
    let number = text.lines().find_map(|line| line.strip_prefix("Pid:"));
    number.and_then(|number| number.trim().parse().ok()).ok_or_else(|| io::ErrorKind::NotFound.into())
}
