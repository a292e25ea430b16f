//! Durable tasks on the real Codex, and the store.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod abandoned_calls;
mod bridge_forks;
mod bridge_full;
mod bridge_parking;
mod bridge_recovery;
mod bridge_tasks;
mod escalations;
mod hostile;
mod inbox;
mod inbox_deciding;
mod inbox_files;
mod inbox_order;
mod memory_store;
mod outbox;
mod quotas;
mod request_names;
mod simulation;
mod store_backup;
mod store_conformance;
mod store_crash;
mod store_damage;
mod store_full;
mod store_load;
mod store_model;
mod store_open;
mod store_prune;
mod store_rig;
mod store_versions;
mod stubborn_store;
mod workbench;
