//! The Codex app-server protocol: the only crate that knows Codex's JSON.
//!
//! - [`envelope`], [`event`], [`item`], [`request`], [`answer`], [`call`], [`thread`]: messages.
//! - [`peer`]: one connection; [`connection`]: one that has shaken hands; [`transport`]: ways to reach a server.
//! - [`host`]: a Codex process that outlives us.
//! - [`confinement`]: what keeps a thread within bounds; [`codex_home`] and [`user_config`]: what a home of
//!   Codex and the user's own `config.toml` in it say.
//! - [`escalation`]: whether a command asks to leave the sandbox, by the rollout of its thread.
//! - [`contract`]: what we rely on, compared with the schema of an installed Codex.
//!
//! It decides nothing about turns or approvals: that is `codex-session`. An unknown method, field or value is
//! kept and passed on, never an error.

pub mod answer;
pub mod backing;
pub mod call;
pub mod codex_home;
pub mod confinement;
pub mod connection;
pub mod contract;
pub mod envelope;
pub mod escalation;
pub mod event;
pub mod host;
mod id;
pub mod item;
pub mod os;
pub mod peer;
pub mod request;
pub mod thread;
pub mod transport;
pub mod user_config;

pub use id::{Epoch, RequestId, ThreadId, TurnId};
