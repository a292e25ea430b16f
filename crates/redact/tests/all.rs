//! What the crate promises, seen from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "all/agreement.rs"]
mod agreement;
#[path = "all/approved.rs"]
mod approved;
#[path = "all/peer.rs"]
mod peer;
#[path = "all/planted.rs"]
mod planted;
#[path = "all/unchanged.rs"]
mod unchanged;
