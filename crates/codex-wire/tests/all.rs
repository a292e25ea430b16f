//! The wire on the real Codex.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "all/connection_handshake.rs"]
mod connection_handshake;
#[path = "all/connection_real.rs"]
mod connection_real;
#[path = "all/contract.rs"]
mod contract;
#[path = "all/host_boot.rs"]
mod host_boot;
#[path = "all/host_killed.rs"]
mod host_killed;
#[path = "all/host_launcher.rs"]
mod host_launcher;
#[path = "all/host_lifecycle.rs"]
mod host_lifecycle;
#[path = "all/host_pool.rs"]
mod host_pool;
#[path = "all/host_rig.rs"]
mod host_rig;
#[path = "all/host_stderr.rs"]
mod host_stderr;
#[path = "all/messages_real.rs"]
mod messages_real;
#[path = "all/one_system.rs"]
mod one_system;
#[path = "all/peer_calls.rs"]
mod peer_calls;
#[path = "all/peer_end.rs"]
mod peer_end;
#[path = "all/peer_order.rs"]
mod peer_order;
#[path = "all/peer_rig.rs"]
mod peer_rig;
#[path = "all/peer_stray.rs"]
mod peer_stray;
#[path = "all/stdio_end.rs"]
mod stdio_end;
