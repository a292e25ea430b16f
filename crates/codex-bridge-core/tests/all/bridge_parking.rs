//! Tasks that wait for an account's limit or login, and go on by themselves.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use codex_bridge_core::store::{Store, Write};
use codex_bridge_core::task::{Parked, Status, TaskId};
use codex_bridge_core::{Bridge, TaskView};
use codex_session::Decision;
use scripted_model::{Response, Scenario, Step};

use crate::workbench::{PATIENCE, Workbench, at_rest, decide, json};

/// Words of the prompt that a parked task goes on with.
const GO_ON: &str = "account limit or login";

async fn until(bridge: &Bridge, id: &str, status: Status) -> TaskView {
    let is_so = |view: &TaskView| view.task.status == status;
    let view = bridge.wait_until(id, PATIENCE, is_so).await.unwrap();
    assert_eq!(view.task.status, status, "{view:#?}");
    view
}

#[tokio::test]
async fn a_usage_limit_parks_the_task_until_it_is_renewed() {
    let bench = Workbench::new().await;
    let limit = Response::usage_limit_reached(Duration::from_secs(2));
    bench.model.script("work", Scenario::new().respond(limit));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("work")).await.unwrap().task;
    let parked = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(parked.status, Status::Paused, "{parked:?}");
    assert!(matches!(parked.parked, Some(Parked::UsageLimit { is_known: true, .. })), "{parked:?}");
    let done = until(&bridge, task.id.as_str(), Status::Completed).await.task;
    assert_eq!((done.final_text.as_deref(), done.used.turns), (Some("finished"), 2));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_parked_task_that_is_interrupted_does_not_go_on() {
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().respond(Response::unauthorized()));
    bench.model.script("other", Scenario::new().respond(Response::unauthorized()));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("work")).await.unwrap().task.id;
    let other = bridge.start(bench.task("other")).await.unwrap().task.id;
    for id in [&id, &other] {
        assert!(at_rest(&bridge, id.as_str()).await.task.parked.is_some());
    }
    let stopped = bridge.interrupt(id.as_str(), None).await.unwrap().task;
    assert_eq!((stopped.status, stopped.parked), (Status::Cancelled, None));
    bench.log_in("{}");
    until(&bridge, other.as_str(), Status::Completed).await;
    assert_eq!(bridge.show(id.as_str()).await.unwrap().task.status, Status::Cancelled);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_dead_login_parks_the_task_until_somebody_logs_in() {
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().respond(Response::unauthorized()));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("work")).await.unwrap().task;
    let parked = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(parked.status, Status::Paused, "{parked:?}");
    assert!(parked.reason.unwrap().contains("codex login"));
    bench.log_in("{}");
    let done = until(&bridge, task.id.as_str(), Status::Completed).await.task;
    assert_eq!(done.final_text.as_deref(), Some("finished"));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_login_that_comes_while_the_turn_still_fails_is_noticed() {
    let bench = Workbench::new().await;
    let mut refusal = Response::unauthorized();
    refusal.steps.insert(0, Step::Stall { name: "asked".to_owned() });
    bench.model.script("work", Scenario::new().respond(refusal));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("work")).await.unwrap().task;
    bench.model.wait_for_stall("asked").await;
    bench.log_in("{}");
    bench.model.release("asked");
    let done = until(&bridge, task.id.as_str(), Status::Completed).await.task;
    assert_eq!(done.final_text.as_deref(), Some("finished"));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn tasks_that_wait_for_one_login_share_one_notice() {
    const TASKS: usize = 4;
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().respond(Response::unauthorized()));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let mut parked = Vec::new();
    for _ in 0..TASKS {
        parked.push(bridge.start(bench.task("work")).await.unwrap().task.id);
    }
    let mut carriers = Vec::new();
    for id in &parked {
        let task = at_rest(&bridge, id.as_str()).await.task;
        assert_eq!(task.status, Status::Paused, "{task:?}");
        let events = bridge.events(id, 0, 1000).await.unwrap();
        let notices: Vec<_> = events.iter().filter(|event| event.line.kind() == "notice").collect();
        if let [notice] = notices[..] {
            let message = json(notice)["message"].as_str().unwrap().to_owned();
            assert!(message.contains("codex login"), "{message}");
            assert!(message.contains(bench.home.codex_home().to_str().unwrap()), "{message}");
            carriers.push(id.clone());
        }
    }
    let [carrier] = &carriers[..] else { panic!("{carriers:?} carry a notice") };
    for id in parked.iter().filter(|id| *id != carrier) {
        let reason = bridge.show(id.as_str()).await.unwrap().task.reason.unwrap();
        assert_eq!(reason, format!("waits for Codex to be logged in, as {carrier} says"));
    }
    bench.log_in("{}");
    for id in &parked {
        until(&bridge, id.as_str(), Status::Completed).await;
    }
    bench.tidy(bridge).await;
}

/// What Codex says of a turn that runs while its login is written.
fn network_withheld() -> Response {
    Response::failed("invalid_prompt", "application network permission was revoked")
}

#[tokio::test]
async fn a_task_from_which_codex_withholds_the_network_goes_on_by_itself_and_the_turn_does_not_count() {
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().respond(network_withheld()));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let mut new = bench.task("work");
    new.limits.turns = Some(1);
    let id = bridge.start(new).await.unwrap().task.id;
    let done = until(&bridge, id.as_str(), Status::Completed).await.task;
    assert_eq!(done.final_text.as_deref(), Some("finished"));
    assert_eq!((done.used.turns, done.used.withheld), (2, 0), "{done:?}");
    assert!(!done.has_turn_left(), "{done:?}");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_from_which_the_network_is_withheld_for_ever_fails_at_the_third_time() {
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().respond(network_withheld()));
    bench.model.script_containing(GO_ON, Scenario::new().respond(network_withheld()));
    let bridge = bench.open().await;
    let id = bridge.start(bench.task("work")).await.unwrap().task.id;
    let failed = until(&bridge, id.as_str(), Status::Failed).await.task;
    assert_eq!((failed.used.turns, failed.used.withheld), (3, 2), "{failed:?}");
    assert_eq!(failed.error.unwrap().kind, "network_withheld");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_parked_task_without_a_turn_left_stays_paused_and_one_more_is_given_by_continuing_it() {
    let bench = Workbench::new().await;
    bench
        .model
        .script("work", Scenario::new().respond(Response::usage_limit_reached(Duration::from_secs(1))));
    bench.model.script("go on", Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let mut new = bench.task("work");
    new.limits.turns = Some(1);
    let id = bridge.start(new).await.unwrap().task.id;
    let mut news = bridge.news();
    let paused = tokio::time::timeout(PATIENCE, async {
        loop {
            let task = bridge.show(id.as_str()).await.unwrap().task;
            if task.status == Status::Paused && task.parked.is_none() {
                return task;
            }
            let _ = news.recv().await;
        }
    });
    let paused = paused.await.expect("it never stopped waiting for the limit");
    assert!(paused.reason.unwrap().contains("used all its turns"));
    assert_eq!(paused.used.turns, 1);
    bridge.continue_task(id.as_str(), "go on").await.unwrap();
    let done = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!(
        (done.status, done.used.turns, done.limits.turns),
        (Status::Completed, 2, Some(1)),
        "{done:?}"
    );
    assert!(!done.has_turn_left(), "one more, and no more");
    bench.tidy(bridge).await;
}

/// Three tasks that wait for a limit of which nobody knows the end, as they were remembered long ago.
async fn parked_for_long(bench: &Workbench) -> Vec<TaskId> {
    bench.model.script("work", Scenario::new().respond(Response::insufficient_quota()));
    let bridge = bench.open().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(bridge.start(bench.task("work")).await.unwrap().task.id);
    }
    for id in &ids {
        let task = at_rest(&bridge, id.as_str()).await.task;
        assert!(matches!(task.parked, Some(Parked::UsageLimit { is_known: false, .. })), "{task:?}");
    }
    bridge.abandon().await;
    let store = bench.store().await;
    for id in &ids {
        let mut task = store.task(id).await.unwrap().unwrap();
        task.updated_at -= 600_000;
        task.parked = Some(Parked::UsageLimit { resume_at: task.updated_at + 300_000, is_known: false });
        store.commit(vec![Write::SaveTask(Box::new(task))]).await.unwrap();
    }
    ids
}

fn tries(bench: &Workbench) -> usize {
    let is_one = |prompt: String| prompt.contains(GO_ON);
    bench
        .model
        .requests()
        .iter()
        .filter_map(|request| request.prompt())
        .filter(|prompt| is_one(prompt.clone()))
        .count()
}

async fn resume_times(bridge: &Bridge, ids: &[TaskId]) -> Vec<i64> {
    let mut times = Vec::new();
    for id in ids {
        let task = bridge.find(id.as_str()).await.unwrap();
        match task.parked {
            Some(Parked::UsageLimit { resume_at, .. }) => times.push(resume_at),
            _ => times.push(0),
        }
    }
    times
}

#[tokio::test]
async fn one_task_probes_for_all_of_a_home_and_its_failure_moves_them_all() {
    let bench = Workbench::new().await;
    let ids = parked_for_long(&bench).await;
    bench.model.script_containing(GO_ON, Scenario::new().respond(Response::insufficient_quota()));
    let before = now_ms();
    let bridge = bench.open().await;
    let mut news = bridge.news();
    let moved = async {
        loop {
            let times = resume_times(&bridge, &ids).await;
            if times.iter().all(|time| *time > before) {
                return times;
            }
            let _ = news.recv().await;
        }
    };
    let times = tokio::time::timeout(PATIENCE, moved).await.expect("they never moved");
    assert!(times.iter().all(|time| *time == times[0]), "{times:?}");
    assert!(times[0] > before + 9 * 60_000, "the pause has doubled: {}", times[0] - before);
    assert_eq!(tries(&bench), 1);
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_probe_that_waits_for_an_approval_has_got_through_and_the_others_follow_one_by_one() {
    let bench = Workbench::new().await;
    let ids = parked_for_long(&bench).await;
    bench.model.script_containing(GO_ON, Scenario::new().exec("touch x.txt").then_say("done"));
    bench.model.script("late", Scenario::new().say("late"));
    let bridge = bench.open().await;
    for id in &ids {
        let mut news = bridge.news();
        let waits = async {
            while bridge.show(id.as_str()).await.unwrap().open_requests.is_empty() {
                let _ = news.recv().await;
            }
        };
        tokio::time::timeout(PATIENCE, waits).await.expect("it never went on");
    }
    let late = bridge.start(bench.task("late")).await.unwrap().task.id;
    assert_eq!(at_rest(&bridge, late.as_str()).await.task.status, Status::Completed);
    let mut begun = Vec::new();
    for id in &ids {
        begun.push(bridge.turns(id).await.unwrap().pop().unwrap().created_at);
    }
    begun.sort_unstable();
    assert!(begun.windows(2).all(|pair| pair[1] - pair[0] >= 1_900), "{begun:?}");
    for id in &ids {
        decide(&bridge, id.as_str(), Decision::Decline, "ada").await.unwrap();
        at_rest(&bridge, id.as_str()).await;
    }
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_task_of_a_home_that_is_limited_waits_instead_of_meeting_the_limit_itself() {
    let bench = Workbench::new().await;
    bench
        .model
        .script("work", Scenario::new().respond(Response::usage_limit_reached(Duration::from_secs(6))));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    bench.model.script("later", Scenario::new().say("later"));
    let bridge = bench.open().await;
    let first = bridge.start(bench.task("work")).await.unwrap().task.id;
    assert_eq!(at_rest(&bridge, first.as_str()).await.task.status, Status::Paused);
    let later = bridge.start(bench.task("later")).await.unwrap().task;
    assert_eq!(later.status, Status::Queued);
    assert!(later.reason.as_deref().unwrap().contains("usage limit"), "{later:?}");
    let done = at_rest(&bridge, later.id.as_str()).await.task;
    assert_eq!((done.status, done.reason, done.parked), (Status::Completed, None, None));
    until(&bridge, first.as_str(), Status::Completed).await;
    let prompts: Vec<_> = bench.model.requests().iter().filter_map(|request| request.prompt()).collect();
    assert_eq!(prompts.iter().filter(|prompt| *prompt == "later").count(), 1);
    assert_eq!(prompts[0], "work");
    assert!(prompts[1].contains(GO_ON), "{prompts:?}");
    bench.tidy(bridge).await;
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since_1970.as_millis()).unwrap()
}
