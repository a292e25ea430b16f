//! What the tests of all crates share: a scripted app-server for what the real Codex does not do on
//! demand, a rig that runs the real Codex in a home of its own, and a real browser for pages.
//!
//! It knows the wire of Codex and nothing of our own types, so that a mistake in ours cannot hide in it.
//!
//! ```no_run
//! use testkit::script::{self, Script};
//! use testkit::ScriptedServer;
//!
//! # async fn example() {
//! let server = ScriptedServer::new(Script::new().on(
//!     "turn/start",
//!     [script::reply_turn(), script::started(), script::message("hi"), script::completed()],
//! ));
//! let child = server.command().spawn();
//! server.wait_for_method("turn/start").await;
//! # drop(child);
//! # }
//! ```
// A broken expectation in here is a failed test, so it ends the test where it stands.
#![allow(clippy::expect_used, clippy::panic)]

pub mod browser;
pub mod log;
pub mod platform;
pub mod program;
pub mod rig;
pub mod schema;
pub mod script;
mod scripted_server;
mod wait;

pub use program::bin;
pub use scripted_server::{Listening, ScriptedServer};
pub use wait::wait_until;
