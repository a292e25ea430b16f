//! The Codex app-server protocol: the only crate that knows Codex's JSON.
//!
//! - [`envelope`], [`event`], [`item`], [`request`], [`answer`], [`call`], [`thread`]: messages.
//! - [`peer`]: one connection; [`connection`]: one that has shaken hands; [`transport`]: ways to reach a server.
//! - [`host`]: a Codex process that outlives us.
//! - [`confinement`]: what keeps a thread within bounds; [`user_config`]: what the user's own `config.toml` says.
//! - [`contract`]: what we rely on, compared with the schema of an installed Codex.
//!
//! It decides nothing about turns or approvals: that is `codex-session`. An unknown method, field or value is
//! kept and passed on, never an error.

pub mod answer;
pub mod backing;
pub mod call;
pub mod confinement;
pub mod connection;
pub mod contract;
pub mod envelope;
pub mod event;
pub mod host;
mod id;
pub mod item;
pub mod peer;
pub mod request;
pub mod thread;
pub mod transport;
pub mod user_config;

pub use id::{Epoch, RequestId, ThreadId, TurnId};
