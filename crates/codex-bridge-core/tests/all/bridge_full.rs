//! Tasks on a disk without space, or on a store that fails: what the log could not take is in it once it can, and
//! whatever is said meanwhile reaches the turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use codex_bridge_core::NewTask;
use codex_bridge_core::bridge::Error;
use codex_bridge_core::event::Event;
use codex_bridge_core::outbox::{DeliveryState, Outcome};
use codex_bridge_core::store::{self, Write};
use codex_bridge_core::task::Status;
use codex_session::SteerOutcome;
use futures_util::FutureExt;
use scripted_model::Scenario;
use tempfile::NamedTempFile;
use tokio::sync::oneshot;

use crate::outbox::{Stage, config, deliveries, until};
use crate::stubborn_store::Stubborn;
use crate::workbench::{Workbench, at_rest, eventually, json};

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
        let messages = events.iter().filter(|event| event.line.kind() == "message");
        messages.map(|event| json(event)["text"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(texts(&bridge.events(&id, 0, 100).await.unwrap()), [""; 0], "there was no space");
    store.is_full.store(false, Ordering::SeqCst);
    bench.model.release("space");
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    let events = bridge.events(&id, 0, 100).await.unwrap();
    assert_eq!(texts(&events), ["one", "two"]);
    let kinds: Vec<&str> = events.iter().map(|event| event.line.kind()).collect();
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
        matches!(write, Write::Append { events, .. } if events.iter().any(|event| event.line.kind() == "tool_started"))
    });
    bench.model.release("begin");
    eventually(async || store.refusals.load(Ordering::SeqCst), |refusals| *refusals > 0).await;
    // The runner leaves the store alone for a while. The turn goes on.
    let (steering, of) = (bridge.clone(), id.clone());
    let steer =
        tokio::spawn(async move { steering.steer(of.as_str(), "and mind", &"ada".into(), None).await });
    store.curse(|_| false);
    assert_eq!(steer.await.unwrap().unwrap(), SteerOutcome::Accepted);
    bench.model.release("fault");
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    let mut steered = bridge.events(&id, 0, 100).await.unwrap();
    steered.retain(|event| event.line.kind() == "steered");
    assert_eq!(steered.len(), 1, "{steered:?}");
    assert_eq!(json(&steered[0])["by"], "ada", "{steered:?}");
    bench.tidy(bridge).await;
}

/// What is logged, of this thread, while what comes back is kept.
fn logged() -> (NamedTempFile, tracing::subscriber::DefaultGuard) {
    let file = NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt().with_writer(Arc::new(file.reopen().unwrap())).finish();
    (file, tracing::subscriber::set_default(subscriber))
}

#[tokio::test]
async fn a_store_that_fails_is_told_with_the_task_that_it_concerns() {
    let (file, _guard) = logged();
    let bench = Workbench::new().await;
    bench.model.script("talk", Scenario::new().stall("begin").say("one").stall("end"));
    let (bridge, store) = Stubborn::open(&bench, bench.config()).await;
    let id = bridge.start(bench.task("talk")).await.unwrap().task.id;
    bench.model.wait_for_stall("begin").await;
    store.is_read_only.store(true, Ordering::SeqCst);
    bench.model.release("begin");
    let log = || std::fs::read_to_string(file.path()).unwrap();
    until(|| log().contains("the store failed")).await;
    store.is_read_only.store(false, Ordering::SeqCst);
    bench.model.release("end");
    at_rest(&bridge, id.as_str()).await;
    until(|| log().contains("the turn ended")).await;
    let log = log();
    let lines = |level: &str, words: &str| {
        log.lines().any(|line| line.contains(level) && line.contains(words) && line.contains(id.as_str()))
    };
    assert!(lines("ERROR", "the store failed") && lines("ERROR", "read-only"), "{log}");
    assert!(lines("INFO", "recovered=true") && lines("INFO", "status=completed"), "{log}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_on_a_file_system_that_turns_read_only_goes_on_and_nothing_of_it_is_lost() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    bench.model.script("talk", Scenario::new().stall("begin").say("one").say("two").stall("end"));
    let (bridge, store) = Stubborn::open(&bench, config(&bench, &stage)).await;
    let new = NewTask { notify_target: Some("stage:a".to_owned()), ..bench.task("talk") };
    let id = bridge.start(new).await.unwrap().task.id;
    bench.model.wait_for_stall("begin").await;
    store.is_read_only.store(true, Ordering::SeqCst);
    bench.model.release("begin");
    // The turn goes on without us.
    bench.model.wait_for_stall("end").await;
    until(|| store.refusals.load(Ordering::SeqCst) > 0).await;
    let refused = bridge.start(bench.task("more [play] say More.")).await.unwrap_err();
    assert!(matches!(&refused, Error::Store(store::Error::ReadOnly { .. })), "{refused:?}");
    assert!(refused.to_string().contains("read-only"), "{refused}");
    assert_eq!(bridge.show(id.as_str()).await.unwrap().task.status, Status::Working);
    bench.model.release("end");
    store.is_read_only.store(false, Ordering::SeqCst);
    let done = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!((done.status, done.final_text.as_deref()), (Status::Completed, Some("two")), "{done:?}");
    let events = bridge.events(&id, 0, 100).await.unwrap();
    for (kind, times) in [("turn_started", 1), ("message", 2), ("turn_ended", 1)] {
        assert_eq!(
            events.iter().filter(|event| event.line.kind() == kind).count(),
            times,
            "{kind}: {events:#?}"
        );
    }
    assert_eq!(bench.model.requests().len(), 1, "the prompt was sent once");
    deliveries(&bridge, |all| all.len() == 1 && all[0].state == DeliveryState::Delivered).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn what_was_sent_while_the_file_system_was_read_only_is_not_sent_again_and_what_was_not_is() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let (bridge, store) = Stubborn::open(&bench, config(&bench, &stage)).await;
    let (land, landing) = oneshot::channel::<()>();
    stage.play(|| {
        let landed = landing.map(|_| Outcome::delivered(None));
        landed.boxed()
    });
    let to = |target: &str| {
        let notify_target = Some(target.to_owned());
        NewTask { notify_target, ..bench.task("hello [play] say Hello.") }
    };
    // Two for one target: the second is due as soon as the first is out.
    for target in ["stage:a", "stage:a"] {
        let id = bridge.start(to(target)).await.unwrap().task.id;
        at_rest(&bridge, id.as_str()).await;
    }
    until(|| stage.attempts().len() == 1).await;
    store.is_read_only.store(true, Ordering::SeqCst);
    land.send(()).unwrap();
    until(|| store.refusals.load(Ordering::SeqCst) > 0).await;
    store.is_read_only.store(false, Ordering::SeqCst);
    let all = deliveries(&bridge, |all| all.iter().all(|one| one.state == DeliveryState::Delivered)).await;
    assert_eq!((all.len(), stage.attempts().len()), (2, 2), "each is sent once: {all:#?}");
    assert!(stage.attempts().iter().all(|attempt| !attempt.may_be_duplicate));
    bench.tidy(bridge).await;
}
