//! What the next bridge finds after a crash, and what it makes of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use codex_bridge_core::bridge::{DecisionOutcome, Error, RequestSelector};
use codex_bridge_core::event::Event;
use codex_bridge_core::request::{DecisionWord, RequestState};
use codex_bridge_core::store::{self, RequestFilter, Store, Write};
use codex_bridge_core::task::{Status, TaskId, TurnProgress};
use codex_bridge_core::{Bridge, OnHostLoss};
use codex_session::Decision;
use codex_session::ask::ShownQuestion;
use codex_wire::host::Stop;
use scripted_model::Scenario;

use crate::stubborn_store::Stubborn;
use crate::workbench::{PATIENCE, Workbench, asked, at_rest, decide, eventually, json};

const HOUR_MS: u64 = 60 * 60 * 1000;
/// Words of the prompt that a task goes on with after its host died.
const AFTER_A_LOSS: &str = "The process that ran you died";

async fn of_kind(bridge: &Bridge, id: &TaskId, kind: &str) -> Vec<Event> {
    let events = bridge.events(id, 0, 1000).await.unwrap();
    events.into_iter().filter(|event| event.line.kind() == kind).collect()
}

async fn end_hosts(bridge: &Bridge) {
    for host in bridge.hosts() {
        if host.is_alive() {
            host.stop(Stop::Now).await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_decision_that_was_not_kept_is_asked_again_after_a_crash() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("make x")).await.unwrap().task.id;
    asked(&bridge, id.as_str()).await;
    bridge.abandon().await;
    // As an answer to a secret question leaves it: decided, and nothing to give.
    let rows = bench.store().await;
    let mut request = rows.requests(&RequestFilter::default()).await.unwrap().remove(0);
    request.state = RequestState::Decided;
    request.decision = Some(DecisionWord::Answers);
    request.decided_by = Some("ada".to_owned());
    rows.commit(vec![Write::SaveRequest(Box::new(request.clone()))]).await.unwrap();
    drop(rows);

    let bridge = bench.open().await;
    let again = asked(&bridge, id.as_str()).await.open_requests.remove(0);
    assert_eq!(again.request_id, request.request_id);
    assert_eq!((again.decision, again.decided_by), (None, None));
    let told = of_kind(&bridge, &id, "request").await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(json(&told[1])["asked_again"], true, "{told:?}");
    let report = decide(&bridge, id.as_str(), Decision::Accept, "bob").await.unwrap();
    assert_eq!((report.outcome, report.decided_by.as_deref()), (DecisionOutcome::Resolved, Some("bob")));
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    bench.tidy(bridge).await;
}

/// What was recorded under the name of a request is not what Codex asks: the yes was to something else.
#[tokio::test]
async fn a_recorded_yes_does_not_go_to_another_request() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("not made"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.writing_task("make x")).await.unwrap().task.id;
    asked(&bridge, id.as_str()).await;
    bridge.abandon().await;
    let rows = bench.store().await;
    let mut request = rows.requests(&RequestFilter::default()).await.unwrap().remove(0);
    let digest = std::mem::replace(&mut request.digest, "what somebody was shown".to_owned());
    request.state = RequestState::Decided;
    request.decision = Some(DecisionWord::Accept);
    let yes = serde_json::to_vec(&Decision::Accept).unwrap();
    request.sealed_decision = Some(bench.key().seal(&yes, request.request_id.as_str()).unwrap());
    rows.commit(vec![Write::SaveRequest(Box::new(request.clone()))]).await.unwrap();
    drop(rows);

    let bridge = bench.open().await;
    let again = asked(&bridge, id.as_str()).await.open_requests.remove(0);
    assert_eq!((again.request_id.as_str(), again.digest), (request.request_id.as_str(), digest));
    assert_eq!((again.decision, again.sealed_decision), (None, None));
    decide(&bridge, id.as_str(), Decision::Decline, "bob").await.unwrap();
    at_rest(&bridge, id.as_str()).await;
    assert!(!bench.home.workspace().join("x.txt").exists(), "it ran");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_decision_that_is_made_while_its_request_is_put_again_keeps_its_words() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.writing_task("make x")).await.unwrap().task.id;
    asked(&bridge, id.as_str()).await;
    bridge.abandon().await;

    let store = Stubborn::new(&bench).await;
    store.holds_requests.send_replace(true);
    let bridge = store.bridge(&bench, bench.config()).await;
    let mut held = store.held_requests.subscribe();
    tokio::time::timeout(PATIENCE, held.wait_for(|held| *held == 1)).await.expect("it is put again").unwrap();
    // The runner knows it as open. The decision waits for the runner.
    let (deciding, of) = (bridge.clone(), id.clone());
    let decision = tokio::spawn(async move { decide(&deciding, of.as_str(), Decision::Accept, "ada").await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    let request = bridge.show(id.as_str()).await.unwrap().open_requests;
    assert_eq!(request.len(), 1, "nobody but the runner records a decision");
    store.holds_requests.send_replace(false);

    let report = decision.await.unwrap().unwrap();
    let said = (report.decision, report.decided_by.as_deref());
    assert_eq!(
        (report.outcome, said),
        (DecisionOutcome::Resolved, (Some(DecisionWord::Accept), Some("ada")))
    );
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
    let closed = of_kind(&bridge, &id, "request_closed").await;
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(json(&closed[0])["decided_by"], "ada", "{closed:?}");
    assert_eq!(of_kind(&bridge, &id, "request").await.len(), 1, "nobody is asked again");
    bench.tidy(bridge).await;
}

/// A bridge whose runner cannot take up the turn of a task, which waits for a person, since the store takes no task.
async fn failing(bench: &Workbench, is_secret: bool) -> (Bridge, Arc<Stubborn>, TaskId) {
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.writing_task("make x")).await.unwrap().task.id;
    let mut request = asked(&bridge, id.as_str()).await.open_requests.remove(0);
    bridge.abandon().await;
    let store = Stubborn::new(bench).await;
    if is_secret {
        request.ask.ask.questions = vec![ShownQuestion { is_secret, ..ShownQuestion::default() }];
        store.commit(vec![Write::SaveRequest(Box::new(request))]).await.unwrap();
    }
    store.curse(|write| matches!(write, Write::SaveTask(_)));
    let bridge = store.bridge(bench, bench.config()).await;
    eventually(async || store.refusals.load(Ordering::SeqCst), |refusals| *refusals > 0).await;
    (bridge, store, id)
}

#[tokio::test]
async fn a_decision_that_is_made_while_the_store_fails_reaches_codex_when_it_asks_again() {
    // What holds a secret is in no row.
    for is_secret in [false, true] {
        let bench = Workbench::new().await;
        let (bridge, store, id) = failing(&bench, is_secret).await;
        let (deciding, of) = (bridge.clone(), id.clone());
        let decision =
            tokio::spawn(async move { decide(&deciding, of.as_str(), Decision::Accept, "ada").await });
        let rows = async || bridge.requests(id.clone()).await.unwrap().remove(0);
        let row = eventually(rows, |row| row.state == RequestState::Decided).await;
        assert_eq!(row.sealed_decision.is_none(), is_secret);
        store.curse(|_| false);
        let report = decision.await.unwrap().unwrap();
        assert_eq!(
            (report.outcome, report.decided_by.as_deref()),
            (DecisionOutcome::Resolved, Some("ada")),
            "{is_secret}"
        );
        assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Completed);
        assert!(bench.home.workspace().join("x.txt").exists());
        assert_eq!(of_kind(&bridge, &id, "request").await.len(), 1, "nobody is asked again");
        bench.tidy(bridge).await;
    }
}

#[tokio::test]
async fn a_decision_that_the_store_does_not_take_is_refused_and_changes_nothing() {
    let bench = Workbench::new().await;
    let (bridge, store, id) = failing(&bench, false).await;
    store.is_read_only.store(true, Ordering::SeqCst);
    let refused = decide(&bridge, id.as_str(), Decision::Accept, "ada").await;
    assert!(matches!(refused, Err(Error::Store(store::Error::ReadOnly { .. }))), "{refused:?}");
    store.is_read_only.store(false, Ordering::SeqCst);
    store.curse(|_| false);
    let report = decide(&bridge, id.as_str(), Decision::Decline, "bob").await.unwrap();
    assert_eq!((report.outcome, report.decided_by.as_deref()), (DecisionOutcome::Resolved, Some("bob")));
    at_rest(&bridge, id.as_str()).await;
    assert!(!bench.home.workspace().join("x.txt").exists(), "it ran");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn an_interrupt_that_comes_while_the_store_fails_stops_the_turn() {
    let bench = Workbench::new().await;
    let (bridge, store, id) = failing(&bench, false).await;
    let (stopping, of) = (bridge.clone(), id.clone());
    let stop = tokio::spawn(async move { stopping.interrupt(of.as_str(), None).await });
    tokio::time::sleep(Duration::from_millis(200)).await;
    store.curse(|_| false);
    assert_eq!(stop.await.unwrap().unwrap().task.status, Status::Cancelled);
    let closed = of_kind(&bridge, &id, "request_closed").await;
    assert_eq!(json(&closed[0])["outcome"], "orphaned", "{closed:?}");
    // Codex has stopped too: another turn can begin.
    bench.model.script("say x", Scenario::new().say("x"));
    bridge.continue_task(id.as_str(), "say x").await.unwrap();
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.final_text.as_deref(), Some("x"));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn what_a_turn_asked_that_cannot_be_taken_up_again_is_closed_with_it() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("make x")).await.unwrap().task.id;
    let request = asked(&bridge, id.as_str()).await.open_requests.remove(0);
    bridge.abandon().await;
    let (workspace, moved) = (bench.home.workspace(), bench.home.dir().join("moved"));
    std::fs::rename(&workspace, &moved).unwrap();
    let bridge = bench.open().await;
    // A request that is open counts as rest for whoever waits.
    let closed = async || bridge.requests(id.clone()).await.unwrap().remove(0).state;
    eventually(closed, |state| *state == RequestState::Orphaned).await;
    assert_eq!(at_rest(&bridge, id.as_str()).await.task.status, Status::Failed);
    let which = RequestSelector::Named(request.request_id.as_str());
    let late = bridge.decide(id.as_str(), which, Decision::Decline, "ada").await.unwrap();
    assert_eq!(late.outcome, DecisionOutcome::Orphaned);
    std::fs::rename(moved, workspace).unwrap();
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_limit_on_work_counts_what_was_worked_before_a_crash_and_a_turn_is_told_to_begin_once() {
    let bench = Workbench::new().await;
    let story = Scenario::new().stall("first").exec("true").then().stall("never").say("x");
    bench.model.script("long", story);
    let mut config = bench.config();
    config.approvals.accept_commands = true;
    let bridge = bench.open_with(config.clone()).await;
    let mut new = bench.task("long");
    new.limits.work_ms = Some(HOUR_MS);
    let id = bridge.start(new).await.unwrap().task.id;
    bench.model.wait_for_stall("first").await;
    // Work takes time, and less than a second of it is not worth a write.
    tokio::time::sleep(Duration::from_millis(1_200)).await;
    bench.model.release("first");
    bench.model.wait_for_stall("never").await;
    let remembered = async || bridge.show(id.as_str()).await.unwrap().task.used.work_ms;
    eventually(remembered, |ms| (1_000..HOUR_MS).contains(ms)).await;
    bridge.abandon().await;
    let bridge = bench.open_with(config.clone()).await;
    bridge.abandon().await;

    let rows = bench.store().await;
    let mut task = rows.task(&id).await.unwrap().unwrap();
    assert!((1_000..HOUR_MS).contains(&task.used.work_ms), "{task:?}");
    // As if it had worked for most of its hour.
    task.used.work_ms = HOUR_MS - 500;
    rows.commit(vec![Write::SaveTask(Box::new(task))]).await.unwrap();
    drop(rows);
    let bridge = bench.open_with(config).await;
    // If it had all its time again, it would not be at rest within ours.
    let paused = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!(paused.status, Status::Paused, "{paused:?}");
    assert!(paused.used.work_ms >= HOUR_MS, "{paused:?}");
    assert_eq!(of_kind(&bridge, &id, "turn_started").await.len(), 1);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_whose_prompt_was_not_sent_is_queued_again_and_can_be_stopped() {
    let bench = Workbench::new().await;
    bench.model.script("blocker", Scenario::new().stall("gate").say("done"));
    let mut config = bench.config();
    config.max_running = 1;
    let bridge = bench.open_with(config.clone()).await;
    let blocker = bridge.start(bench.task("blocker")).await.unwrap().task.id;
    bench.model.wait_for_stall("gate").await;
    let id = bridge.start(bench.task("never sent")).await.unwrap().task.id;
    bridge.abandon().await;
    // As a crash between its begin and its thread's opening leaves it.
    let rows = bench.store().await;
    let mut task = rows.task(&id).await.unwrap().unwrap();
    task.status = Status::Starting;
    rows.commit(vec![Write::SaveTask(Box::new(task))]).await.unwrap();
    drop(rows);

    let bridge = bench.open_with(config).await;
    assert_eq!(bridge.show(id.as_str()).await.unwrap().task.status, Status::Queued);
    let stopped = bridge.interrupt(id.as_str(), None).await.unwrap().task;
    assert_eq!(stopped.status, Status::Cancelled, "{stopped:?}");
    bench.model.release("gate");
    at_rest(&bridge, blocker.as_str()).await;
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn after_a_restart_whoever_asked_for_a_turn_first_comes_first() {
    let bench = Workbench::new().await;
    for prompt in ["old", "new", "old again"] {
        bench.model.script(prompt, Scenario::new().say(prompt));
    }
    bench.model.script("blocker", Scenario::new().stall("gate").say("done"));
    let mut config = bench.config();
    config.max_running = 1;
    let bridge = bench.open_with(config.clone()).await;
    let old = bridge.start(bench.task("old")).await.unwrap().task.id;
    at_rest(&bridge, old.as_str()).await;
    bridge.start(bench.task("blocker")).await.unwrap();
    bench.model.wait_for_stall("gate").await;
    let new = bridge.start(bench.task("new")).await.unwrap().task.id;
    bridge.continue_task(old.as_str(), "old again").await.unwrap();
    bridge.abandon().await;
    let bridge = bench.open_with(config).await;
    bench.model.release("gate");
    at_rest(&bridge, new.as_str()).await;
    at_rest(&bridge, old.as_str()).await;
    let prompts: Vec<_> = bench.model.requests().iter().filter_map(|request| request.prompt()).collect();
    assert_eq!(prompts, ["old", "blocker", "new", "old again"]);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_request_whose_host_died_while_nobody_looked_is_told_to_be_closed() {
    let bench = Workbench::new().await;
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("made"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("make x")).await.unwrap().task.id;
    asked(&bridge, id.as_str()).await;
    let hosts = bridge.hosts();
    bridge.abandon().await;
    for host in hosts {
        host.stop(Stop::Now).await.unwrap();
    }
    let bridge = bench.open().await;
    at_rest(&bridge, id.as_str()).await;
    let closed = of_kind(&bridge, &id, "request_closed").await;
    assert_eq!(closed.len(), 1, "{closed:?}");
    assert_eq!(json(&closed[0])["outcome"], "orphaned", "{closed:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_that_saw_two_hosts_die_gets_one_of_its_own() {
    let bench = Workbench::new().await;
    for name in ["first", "second", "third"] {
        bench.model.script(name, Scenario::new().stall(name).say(name));
    }
    bench.model.script_containing(AFTER_A_LOSS, Scenario::new().stall("again").say("done"));
    let mut config = bench.config();
    config.on_host_loss = OnHostLoss::Resume;
    let bridge = bench.open_with(config).await;
    let id = bridge.start(bench.task("first")).await.unwrap().task.id;
    bench.model.wait_for_stall("first").await;
    for turn in 2..=3 {
        end_hosts(&bridge).await;
        until_accepted(&bridge, &id, turn).await;
    }
    let other = bridge.start(bench.task("second")).await.unwrap().task.id;
    bench.model.wait_for_stall("second").await;
    let host_of = |host: Option<String>, hosts: &[codex_wire::host::Host]| {
        let id = host.unwrap();
        hosts.iter().find(|host| host.id() == id).unwrap().record().identity.alone.clone()
    };
    let hosts = bridge.hosts();
    let (mine, others) =
        (bridge.find(id.as_str()).await.unwrap().host, bridge.find(other.as_str()).await.unwrap().host);
    assert_eq!(host_of(mine, &hosts), id.as_str());
    assert_eq!(host_of(others, &hosts), "");
    bench.model.release("again");
    bench.model.release("second");
    at_rest(&bridge, id.as_str()).await;
    at_rest(&bridge, other.as_str()).await;
    bench.tidy(bridge).await;
}

async fn until_accepted(bridge: &Bridge, id: &TaskId, number: usize) {
    let mut news = bridge.news();
    let accepted = async {
        loop {
            let turns = bridge.turns(id).await.unwrap();
            let taken = [TurnProgress::Accepted, TurnProgress::Ended];
            if turns.get(number - 1).is_some_and(|turn| taken.contains(&turn.progress)) {
                return;
            }
            let _ = news.recv().await;
        }
    };
    tokio::time::timeout(PATIENCE, accepted).await.expect("the turn never began");
}

#[tokio::test]
async fn tasks_that_lost_their_host_go_on_one_after_the_other() {
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().stall("never").say("x"));
    bench.model.script_containing(AFTER_A_LOSS, Scenario::new().say("done"));
    let mut config = bench.config();
    config.on_host_loss = OnHostLoss::Resume;
    let bridge = bench.open_with(config).await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bridge.start(bench.task("work")).await.unwrap().task.id);
    }
    tokio::time::timeout(PATIENCE, bench.model.wait_for_request(2)).await.unwrap();
    end_hosts(&bridge).await;
    let mut begun = Vec::new();
    for id in &ids {
        until_accepted(&bridge, id, 2).await;
        at_rest(&bridge, id.as_str()).await;
        let starts = of_kind(&bridge, id, "state").await;
        begun.push(starts.iter().rfind(|event| json(event)["status"] == "starting").unwrap().at);
    }
    begun.sort_unstable();
    assert!(begun.windows(2).all(|pair| pair[1] - pair[0] >= 1_900), "{begun:?}");
    bench.tidy(bridge).await;
}
