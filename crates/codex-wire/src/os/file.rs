//! Handles on files that give no access to what is in them.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// Opens a path without access to its content: nothing is read, and a device or a pipe is not touched.
pub const NAME_ONLY: OFlags = OFlags::PATH;

/// A handle on a socket in the file system. The last component of the path is not followed if it is a link.
pub fn socket_handle(socket: &Path) -> io::Result<OwnedFd> {
    let flags = NAME_ONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::open(socket, flags, Mode::empty())?)
}

/// A path to the file behind an open handle, even if the file was moved or replaced.
pub fn path_of(handle: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}
