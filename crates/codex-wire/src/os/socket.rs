//! What Linux adds to sockets.

use std::io;
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::time::Duration;

use rustix::net::{RecvFlags, SendFlags};

/// A closed peer gives an error instead of a signal.
pub const SEND: SendFlags = SendFlags::NOSIGNAL;
/// Does not wait. Received descriptors are not inherited by child processes.
pub const RECEIVE: RecvFlags = RecvFlags::CMSG_CLOEXEC.union(RecvFlags::DONTWAIT);

/// The address of an abstract socket.
pub fn abstract_address(name: &[u8]) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

/// Has the kernel close a TCP connection whose peer acknowledges nothing for this long.
pub fn close_unread(stream: impl AsFd, limit: Duration) -> io::Result<()> {
    let limit = u32::try_from(limit.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, limit)?)
}
