//! Tells systemd how the daemon stands, if it was started by one that wants to know (`Type=notify`).

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends one line such as `READY=1`. Where nobody listens, nothing happens.
pub fn tell(state: &str) {
    if let Some(target) = std::env::var_os("NOTIFY_SOCKET") {
        // A manager that has gone is told nothing.
        let _ = send(&target, state);
    }
}

fn send(target: &OsStr, state: &str) -> std::io::Result<()> {
    let address = match target.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(target)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
