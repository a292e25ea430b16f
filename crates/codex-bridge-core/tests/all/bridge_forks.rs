//! Branches of tasks on the real Codex.

use std::time::Duration;

use codex_bridge_core::bridge::{DecisionOutcome, Error, NewBranch};
use codex_bridge_core::store::{TaskFilter, Write};
use codex_bridge_core::task::Status;
use codex_session::Decision;
use codex_wire::host::Stop;
use scripted_model::{Scenario, Usage};

use crate::stubborn_store::Stubborn;
use crate::workbench::{PATIENCE, Workbench, asked, at_rest, decide};

/// Tokens as the model counts them for one answer.
fn cost(input: u64) -> Usage {
    Usage { input, cached: 0, output: 10, reasoning: 0 }
}

#[tokio::test]
async fn the_tokens_of_a_branch_are_those_of_its_whole_thread() {
    let bench = Workbench::new().await;
    bench.model.script("root", Scenario::new().say("root").usage(cost(5000)));
    bench.model.script("leaf", Scenario::new().say("leaf").usage(cost(300)));
    let bridge = bench.open().await;
    let trunk = bridge.start(bench.task("root")).await.unwrap().task.id;
    let trunk = at_rest(&bridge, trunk.as_str()).await.task;
    assert_eq!(trunk.usage.unwrap().total.total, 5010, "{trunk:?}");
    let branch = bridge.fork(trunk.id.as_str(), NewBranch::default()).await.unwrap().task;
    assert_eq!((branch.usage, branch.used.turns), (trunk.usage, 0), "what the trunk had used by then");
    bridge.continue_task(branch.id.as_str(), "leaf").await.unwrap();
    let branch = at_rest(&bridge, branch.id.as_str()).await.task;
    // codex 0.166 goes on counting where the trunk was.
    assert_eq!(branch.usage.unwrap().total.total, 5010 + 310, "{branch:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_branch_that_waits_for_a_host_keeps_nobody_waiting_but_its_trunk() {
    let bench = Workbench::new().await;
    bench.model.script("root", Scenario::new().say("root"));
    bench.model.script("ask", Scenario::new().exec("true").then().stall("gate").say("done"));
    bench.model.script("more", Scenario::new().say("more"));
    // One host with one thread: what does not fit waits.
    let login = r#"{"auth_mode": "chatgpt", "tokens": {"refresh_token": "r"}}"#;
    bench.log_in(login);
    let mut config = bench.config();
    config.host_limits.max_threads = 1;
    let bridge = bench.open_with(config).await;
    let trunk = bridge.start(bench.task("root")).await.unwrap().task.id.to_string();
    at_rest(&bridge, &trunk).await;
    for host in bridge.hosts() {
        host.stop(Stop::Now).await.unwrap();
    }
    let other = bridge.start(bench.task("ask")).await.unwrap().task.id.to_string();
    asked(&bridge, &other).await;
    let (branching, of) = (bridge.clone(), trunk.clone());
    let mut branch = tokio::spawn(async move { branching.fork(&of, NewBranch::default()).await });
    let early = tokio::time::timeout(Duration::from_secs(1), &mut branch).await;
    assert!(early.is_err(), "there was room: {early:?}");

    let decided = decide(&bridge, &other, Decision::Accept, "ada");
    let decided = tokio::time::timeout(PATIENCE, decided).await.expect("the branch holds it up").unwrap();
    assert_eq!(decided.outcome, DecisionOutcome::Resolved);
    let continued = tokio::time::timeout(PATIENCE, bridge.continue_task(&trunk, "more")).await;
    assert_eq!(continued.unwrap().unwrap().task.status, Status::Queued, "its thread is in use");
    bench.model.wait_for_stall("gate").await;
    bench.model.release("gate");
    at_rest(&bridge, &other).await;
    let branch = tokio::time::timeout(PATIENCE, branch).await.unwrap().unwrap().unwrap().task;
    assert_eq!(branch.status, Status::Paused, "{branch:?}");
    let more = at_rest(&bridge, &trunk).await.task;
    assert_eq!(more.final_text.as_deref(), Some("more"), "{more:?}");
    bench.tidy(bridge).await;
}

fn named(name: &str, prompt: Option<&str>) -> NewBranch {
    NewBranch {
        prompt: prompt.map(str::to_owned),
        client_request_id: Some(name.to_owned()),
        ..NewBranch::default()
    }
}

#[tokio::test]
async fn a_branch_of_one_name_is_made_once() {
    let bench = Workbench::new().await;
    bench.model.script("root", Scenario::new().say("root"));
    bench.model.script("leaf", Scenario::new().say("leaf"));
    let bridge = bench.open().await;
    let trunk = bridge.start(bench.task("root")).await.unwrap().task.id.to_string();
    at_rest(&bridge, &trunk).await;
    // Both at once: whoever is second finds the branch of the first.
    let leaf = || bridge.fork(&trunk, named("mine", Some("leaf")));
    let (one, other) = tokio::join!(leaf(), leaf());
    let branch = one.unwrap().task.id;
    assert_eq!(other.unwrap().task.id, branch);
    let done = at_rest(&bridge, branch.as_str()).await.task;
    assert_eq!((done.final_text.as_deref(), done.used.turns), (Some("leaf"), 1), "{done:?}");
    // One without a prompt is another thing, also once it was given one.
    let bare = bridge.fork(&trunk, named("bare", None)).await.unwrap().task;
    bridge.continue_task(bare.id.as_str(), "leaf").await.unwrap();
    at_rest(&bridge, bare.id.as_str()).await;
    bridge.abandon().await;

    // The next daemon knows.
    let bridge = bench.open().await;
    let again = bridge.fork(&trunk, named("mine", Some("leaf"))).await.unwrap().task;
    assert_eq!((&again.id, again.used.turns), (&branch, 1));
    assert_eq!(bridge.fork(&trunk, named("bare", None)).await.unwrap().task.id, bare.id);
    for other in [named("mine", Some("other")), named("mine", None)] {
        assert_eq!(bridge.fork(&trunk, other).await, Err(Error::KeyReused(branch.clone())));
    }
    let refused = bridge.fork(&trunk, named("bare", Some("leaf"))).await;
    assert_eq!(refused, Err(Error::KeyReused(bare.id)));
    assert_eq!(bridge.list(&TaskFilter::default()).await.unwrap().len(), 3);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn there_is_no_branch_without_its_first_turn() {
    let bench = Workbench::new().await;
    bench.model.script("root", Scenario::new().say("root"));
    let (bridge, store) = Stubborn::open(&bench, bench.config()).await;
    let trunk = bridge.start(bench.task("root")).await.unwrap().task.id.to_string();
    at_rest(&bridge, &trunk).await;
    store.curse(|write| matches!(write, Write::SaveTurn(_)));
    bridge.fork(&trunk, named("mine", Some("leaf"))).await.unwrap_err();
    assert_eq!(bridge.list(&TaskFilter::default()).await.unwrap().len(), 1, "half a branch");
    bench.tidy(bridge).await;
}
