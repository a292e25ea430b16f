//! Durable Codex tasks: the stored tasks, the queue of turns, and recovery after a crash.
//!
//! This crate reads no environment variable, no home directory and no terminal. The program passes those in.

mod accounts;
pub mod bridge;
pub mod chats;
pub mod clock;
pub mod config;
mod decision;
pub mod desk;
pub mod diff;
pub mod event;
pub mod failpoint;
mod host_rules;
pub mod hosts;
pub mod id;
pub mod inbox;
pub mod outbox;
pub mod place;
mod queue;
pub mod random;
pub mod refusal;
pub mod request;
pub mod seal;
pub mod skills;
pub mod store;
pub mod task;
pub mod telemetry;
pub mod token;
pub mod trust;

pub use bridge::{Bridge, NewTask, News, TaskView};
pub use chats::Chats;
pub use config::{Config, OnHostLoss};
pub use desk::{Caller, Desk};
