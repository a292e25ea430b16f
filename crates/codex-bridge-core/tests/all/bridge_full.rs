//! Tasks on a disk without space, or on a store that fails: what the log could not take is in it once it can, and
//! whatever is said meanwhile reaches the turn.

use std::sync::atomic::Ordering;

use codex_bridge_core::event::Event;
use codex_bridge_core::store::Write;
use codex_bridge_core::task::Status;
use codex_session::SteerOutcome;
use scripted_model::Scenario;

use crate::stubborn_store::Stubborn;
use crate::workbench::{Workbench, at_rest, eventually};

#[tokio::test]
async fn lines_that_found_no_space_are_in_the_log_once_when_there_is_some() {
    let bench = Workbench::new().await;
    let scenario = Scenario::new().stall("begin").say("one").exec("true").then().stall("space").say("two");
    bench.model.script("talk", scenario);
    let mut config = bench.config();
    config.approvals.accept_commands = true;
    let (bridge, store) = Stubborn::open(&bench, config).await;
    let id = bridge.start(bench.task("talk")).await.unwrap().task.id;
    bench.model.wait_for_stall("begin").await;
    store.is_full.store(true, Ordering::SeqCst);
    bench.model.release("begin");
    bench.model.wait_for_stall("space").await;
    let texts = |events: &[Event]| -> Vec<String> {
        let messages = events.iter().filter(|event| event.kind == "message");
        messages.map(|event| event.body["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&bridge.events(&id, 0, 100).await.unwrap()), [""; 0], "there was no space");
    store.is_full.store(false, Ordering::SeqCst);
    bench.model.release("space");
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    let events = bridge.events(&id, 0, 100).await.unwrap();
    assert_eq!(texts(&events), ["one", "two"]);
    let kinds: Vec<&str> = events.iter().map(|event| event.kind.as_str()).collect();
    for kind in ["tool_started", "tool_completed"] {
        assert_eq!(kinds.iter().filter(|known| **known == kind).count(), 1, "{kinds:?}");
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn what_is_added_while_the_store_fails_reaches_the_turn_when_it_is_taken_up() {
    let bench = Workbench::new().await;
    let scenario =
        Scenario::new().stall("begin").exec("true").then().delta("so ").stall("fault").delta("far");
    bench.model.script("talk", scenario.then_say("with that too"));
    let mut config = bench.config();
    config.approvals.accept_commands = true;
    let (bridge, store) = Stubborn::open(&bench, config).await;
    let id = bridge.start(bench.task("talk")).await.unwrap().task.id;
    bench.model.wait_for_stall("begin").await;
    store.curse(|write| {
        matches!(write, Write::Append { events, .. } if events.iter().any(|event| event.kind == "tool_started"))
    });
    bench.model.release("begin");
    eventually(async || store.refusals.load(Ordering::SeqCst), |refusals| *refusals > 0).await;
    // The runner leaves the store alone for a while. The turn goes on.
    let (steering, of) = (bridge.clone(), id.clone());
    let steer = tokio::spawn(async move { steering.steer(of.as_str(), "and mind", "ada").await });
    store.curse(|_| false);
    assert_eq!(steer.await.unwrap().unwrap(), SteerOutcome::Accepted);
    bench.model.release("fault");
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    let mut steered = bridge.events(&id, 0, 100).await.unwrap();
    steered.retain(|event| event.kind == "steered");
    assert_eq!(steered.len(), 1, "{steered:?}");
    assert_eq!(steered[0].body["by"], "ada", "{steered:?}");
    bench.tidy(bridge).await;
}
