//! Tells systemd how the daemon stands, if it was started by one that wants to know (`Type=notify`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use codex_wire::os::socket::abstract_address;

/// Sends one line such as `READY=1`. Where nobody listens, nothing happens.
pub fn tell(state: &str) {
    if let Some(target) = std::env::var_os("NOTIFY_SOCKET") {
        // A manager that has gone is told nothing.
        if let Err(error) = send(&target, state) {
            tracing::warn!(%error, state, "systemd was not told how the daemon stands");
        }
    }
}

fn send(target: &OsStr, state: &str) -> std::io::Result<()> {
    let address = match target.as_bytes().strip_prefix(b"@") {
        Some(name) => abstract_address(name)?,
        None => SocketAddr::from_pathname(target)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}
