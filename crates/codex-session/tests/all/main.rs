//! The session library against the real Codex and against the scripted app-server.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod real_changes;
mod real_commands;
mod real_crashes;
mod real_escalations;
mod real_failures;
mod real_interrupts;
mod real_parts;
mod real_questions;
mod real_reconnects;
mod real_sent_once;
mod real_settings;
mod real_steering;
mod real_threads;
mod real_turns;
mod scripted_abort_marker;
mod scripted_approvals;
mod scripted_breaches;
mod scripted_compaction;
mod scripted_decisions;
mod scripted_events;
mod scripted_faults;
mod scripted_hosts;
mod scripted_interrupts;
mod scripted_lifecycle;
mod scripted_limits;
mod scripted_startup;
mod scripted_turns;
mod workbench;
