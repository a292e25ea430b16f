//! A hostile repository, and hostile commands, on the real Codex: what they try, and what they get.
//!
//! `cargo xtask test` runs these as root, where it is root, and as an ordinary user: the sandbox is not the same for both.

mod commands;
mod levels;
mod matrix;
mod places;
mod repository;
mod unbound;

use codex_bridge_core::task::{Status, Task};
use codex_bridge_core::trust::Trust;
use codex_bridge_core::{Bridge, NewTask};
use codex_session::{ApprovalMode, Decision, Escalations, Sandbox};

use crate::workbench::{PATIENCE, Workbench, decide};

/// All that the model was told.
fn told_to(bench: &Workbench) -> String {
    bench.model.requests().iter().map(|request| request.body.to_string()).collect()
}

/// Work in the directory of the bench, which asks for what leaves its sandbox.
fn new(bench: &Workbench, sandbox: Sandbox, trust: Trust) -> NewTask {
    let mut new = bench.task("go");
    new.settings.cwd = bench.home.workspace().canonicalize().unwrap();
    (new.settings.sandbox, new.settings.trust) = (sandbox, trust);
    new.settings.approval_policy = ApprovalMode::OnRequest;
    new.settings.escalations.of_origin = Escalations::Ask;
    new
}

/// Waits for a task to complete, with a yes to all that it asks.
async fn done(bridge: &Bridge, id: &str) -> Task {
    loop {
        let view = bridge.wait(id, PATIENCE).await.unwrap();
        if view.task.status.is_finished() {
            assert_eq!(view.task.status, Status::Completed, "{:?}", view.task);
            return view.task;
        }
        decide(bridge, id, Decision::Accept, "somebody careless").await.unwrap();
    }
}
