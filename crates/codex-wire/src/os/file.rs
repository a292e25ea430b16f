//! Handles on files that give no access to what is in them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Opens a name and not what is behind it: nothing is read, and a device or a pipe does nothing.
pub const NAME_ONLY: OFlags = OFlags::PATH;

/// A handle on a socket in the file system; no link on the way's last step is followed.
pub fn socket_handle(socket: &Path) -> io::Result<OwnedFd> {
    let flags = NAME_ONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(socket, flags, Mode::empty())?)
}

/// A path that leads to what is behind a handle, for as long as it is open, wherever its own path leads by then.
pub fn path_of(handle: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}
