//! Tasks that wait for an account's limit or login, and go on by themselves.

use std::time::Duration;

use codex_bridge_core::task::{Parked, Status};
use codex_bridge_core::{Bridge, TaskView};
use scripted_model::{Response, Scenario};

use crate::workbench::{PATIENCE, Workbench, at_rest};

/// Words of the prompt that a parked task goes on with.
const GO_ON: &str = "account limit or login";

async fn until(bridge: &Bridge, id: &str, status: Status) -> TaskView {
    let mut news = bridge.news();
    tokio::time::timeout(PATIENCE, async {
        loop {
            let view = bridge.show(id).await.unwrap();
            if view.task.status == status {
                return view;
            }
            let _ = news.recv().await;
        }
    })
    .await
    .expect("the status never came")
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
async fn a_dead_login_parks_the_task_until_somebody_logs_in() {
    let bench = Workbench::new().await;
    bench.model.script("work", Scenario::new().respond(Response::unauthorized()));
    bench.model.script_containing(GO_ON, Scenario::new().say("finished"));
    let bridge = bench.open().await;
    let task = bridge.start(bench.task("work")).await.unwrap().task;
    let parked = at_rest(&bridge, task.id.as_str()).await.task;
    assert_eq!(parked.status, Status::Paused, "{parked:?}");
    assert!(parked.reason.unwrap().contains("codex login"));
    std::fs::write(bench.home.codex_home().join("auth.json"), "{}").unwrap();
    let done = until(&bridge, task.id.as_str(), Status::Completed).await.task;
    assert_eq!(done.final_text.as_deref(), Some("finished"));
    bench.tidy(bridge).await;
}
