//! The tests of what other tests stand on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod client;
mod discord_library;
mod faults;
mod likeness;
mod programs;
mod real_codex;
mod shapes;
mod slack_library;
mod socket;
mod telegram_library;
mod turns;
