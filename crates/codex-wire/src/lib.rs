//! The Codex app-server protocol: the only crate that knows Codex's JSON.
//!
//! - [`envelope`], [`event`], [`item`], [`request`], [`answer`], [`call`], [`thread`]: messages.
//! - [`peer`]: one connection; [`connection`]: its handshake; [`transport`]: ways to reach a server.
//! - [`host`]: a Codex process that outlives the program.
//! - [`confinement`]: the bounds of a thread; [`codex_home`] and [`user_config`]: the user's own `config.toml` and
//!   login in a CODEX_HOME.
//! - [`escalation`]: whether a command asks to leave the sandbox, by the rollout of its thread.
//! - [`contract`]: what we rely on, compared with the schema of an installed Codex.
//!
//! It decides nothing about turns or approvals; `codex-session` does. An unknown method, field or value is kept and
//! passed on, never an error.

pub mod answer;
pub mod backing;
pub mod call;
pub mod codex_home;
pub mod confinement;
pub mod connection;
pub mod contract;
mod end_processes;
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

pub use codex_binary::reason;
pub use id::{Epoch, RequestId, ThreadId, TurnId};
