//! Notifies systemd of the daemon's state, in units with `Type=notify`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use codex_wire::os::socket::abstract_address;

/// Sends one line such as `READY=1`, if systemd listens.
pub fn systemd(state: &str) {
    if let Some(target) = std::env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&target, state)
    {
        tracing::warn!(%error, state, "systemd could not be notified");
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
