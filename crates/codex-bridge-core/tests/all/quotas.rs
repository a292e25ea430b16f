//! What a token may hand over, and how long anything may be that is handed over, on the real Codex.

use std::time::Duration;

use codex_bridge_core::bridge::{Author, Error, NewBranch};
use codex_bridge_core::store::{self, TaskFilter};
use codex_bridge_core::task::{AuthorKind, Status};
use codex_bridge_core::token::{self, NewQuota, Role, Used};
use codex_bridge_core::{Bridge, Config, NewTask};
use codex_session::SteerOutcome;
use scripted_model::Scenario;

use crate::workbench::{Workbench, at_rest};

/// What everything counts for at least.
const LEAST: u64 = 1024;

async fn token(bridge: &Bridge, open_tasks: u32, bytes: u64) -> Author {
    let quota = NewQuota { open_tasks: Some(open_tasks), bytes: Some(bytes) };
    bridge.create_token("ci", Role::Operator, quota, "ada").await.unwrap();
    Author { name: "token ci".to_owned(), token: Some("ci".to_owned()), kind: AuthorKind::Other }
}

fn by(author: &Author, new: NewTask) -> NewTask {
    NewTask { by: author.clone(), ..new }
}

fn is_full<T>(outcome: &Result<T, Error>, limit: u32) -> bool {
    matches!(outcome, Err(Error::Token(token::Error::TooManyOpen { limit: told, .. })) if *told == limit)
}

fn is_too_much<T>(outcome: &Result<T, Error>) -> bool {
    matches!(outcome, Err(Error::Token(token::Error::TooManyBytes { .. })))
}

#[tokio::test]
async fn a_token_has_no_more_tasks_under_way_than_its_quota() {
    let bench = Workbench::new().await;
    for prompt in ["one", "two", "three"] {
        bench.model.script(prompt, Scenario::new().stall(prompt).say("done"));
    }
    bench.model.script("root", Scenario::new().say("root"));
    let bridge = bench.open().await;
    let ci = token(&bridge, 1, 1 << 20).await;
    let root = bridge.start(by(&ci, bench.task("root"))).await.unwrap().task.id;
    let root = at_rest(&bridge, root.as_str()).await.task.id;

    // However many come at once.
    let [first, second] = [by(&ci, bench.task("one")), by(&ci, bench.task("two"))];
    let (first, second) = tokio::join!(bridge.start(first), bridge.start(second));
    let (begun, refused) = if first.is_ok() { (first, second) } else { (second, first) };
    let begun = begun.unwrap().task;
    assert!(is_full(&refused, 1));
    assert!(is_full(&bridge.continue_once(root.as_str(), "three", None, &ci).await, 1));
    let branch = NewBranch { prompt: Some("three".into()), by: ci.clone(), ..NewBranch::default() };
    assert!(is_full(&bridge.fork(root.as_str(), branch).await, 1));
    assert_eq!(bridge.store().tasks(&TaskFilter::default()).await.unwrap().len(), 2, "nothing of it is kept");
    // Others are not held up, and what they go on with is not the token's.
    bridge.continue_task(root.as_str(), "three").await.unwrap();
    assert_eq!(bridge.store().used_by("ci").await.unwrap().open_tasks, 1);

    bench.model.wait_for_stall(if begun.prompt_summary == "one" { "one" } else { "two" }).await;
    bridge.interrupt(begun.id.as_str(), None).await.unwrap();
    assert_eq!(bridge.store().used_by("ci").await.unwrap().open_tasks, 0);
    bridge.start(by(&ci, bench.task("root"))).await.unwrap();
    bench.model.release("three");
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn what_a_token_hands_over_counts_until_it_is_forgotten() {
    let bench = Workbench::new().await;
    let long = "x".repeat(3000);
    bench
        .model
        .script(&long, Scenario::new().delta("begun ").stall("long").delta("done").then_say("and that"));
    bench.model.script("root", Scenario::new().say("root"));
    let config = Config { keep_tasks: Duration::from_millis(1), ..bench.config() };
    let bridge = bench.open_with(config).await;
    let ci = token(&bridge, 5, 3000 + 2 * LEAST).await;
    let id = bridge.start(by(&ci, bench.task(&long))).await.unwrap().task.id;
    bench.model.wait_for_stall("long").await;
    assert_eq!(bridge.steer(id.as_str(), "and that", &ci, None).await.unwrap(), SteerOutcome::Accepted);
    assert_eq!(bridge.store().used_by("ci").await.unwrap(), Used { open_tasks: 1, bytes: 3000 + LEAST });
    assert!(is_too_much(&bridge.steer(id.as_str(), &long, &ci, None).await));
    assert!(is_too_much(&bridge.start(by(&ci, bench.task(&long))).await));
    bench.model.release("long");
    let ended = at_rest(&bridge, id.as_str()).await.task;
    assert_eq!(ended.status, Status::Completed, "{ended:?}");

    // The operator can give it more, and what is forgotten counts no longer.
    let more = NewQuota { bytes: Some(3000 + 3 * LEAST), ..NewQuota::default() };
    bridge.change_quota("ci", more, "ada").await.unwrap();
    let bare = NewBranch { by: ci.clone(), ..NewBranch::default() };
    let branch = bridge.fork(id.as_str(), bare).await.unwrap().task;
    assert_eq!(bridge.store().used_by("ci").await.unwrap(), Used { open_tasks: 0, bytes: 3000 + 2 * LEAST });
    let again = bridge.continue_once(branch.id.as_str(), &long, None, &ci).await;
    assert!(is_too_much(&again));
    let is_forgotten = async || {
        bridge.forget_old().await.unwrap();
        bridge.store().used_by("ci").await.unwrap() == Used::default()
    };
    let began = std::time::Instant::now();
    while !is_forgotten().await {
        assert!(began.elapsed() < crate::workbench::PATIENCE);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bridge.start(by(&ci, bench.task("root"))).await.unwrap();
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_token_that_was_revoked_hands_over_nothing() {
    let bench = Workbench::new().await;
    let bridge = bench.open().await;
    let ci = token(&bridge, 1, 1 << 20).await;
    bridge.revoke_token("ci", "ada").await.unwrap();
    let refused = bridge.start(by(&ci, bench.task("root"))).await;
    assert_eq!(refused, Err(token::Error::Unknown("ci".to_owned()).into()));
    bench.tidy(bridge).await;
}

#[tokio::test]
async fn a_prompt_that_is_too_long_is_refused_with_both_numbers() {
    let bench = Workbench::new().await;
    bench.model.script("root", Scenario::new().say("root"));
    bench.model.script("long work", Scenario::new().stall("long").say("done"));
    let bridge = bench.open_with(Config { prompt_limit_bytes: 20, ..bench.config() }).await;
    let fits = "root";
    let long = "ä".repeat(11);
    let refused = || Error::PromptTooLong { bytes: 22, limit: 20 };
    assert_eq!(bridge.start(bench.task(&long)).await, Err(refused()));
    assert!(refused().to_string().contains("22") && refused().to_string().contains("20"));
    let root = bridge.start(bench.task(fits)).await.unwrap().task.id;
    at_rest(&bridge, root.as_str()).await;
    assert_eq!(bridge.continue_task(root.as_str(), &long).await, Err(refused()));
    let branch = NewBranch { prompt: Some(long.clone()), ..NewBranch::default() };
    assert_eq!(bridge.fork(root.as_str(), branch).await, Err(refused()));
    let running = bridge.start(bench.task("long work")).await.unwrap().task.id;
    bench.model.wait_for_stall("long").await;
    assert_eq!(bridge.steer(running.as_str(), &long, &"ada".into(), None).await, Err(refused()));
    bench.model.release("long");
    at_rest(&bridge, running.as_str()).await;
    let kept = bridge.store().tasks(&TaskFilter::default()).await;
    assert_eq!(kept.map(|tasks| tasks.len()), Ok::<_, store::Error>(2));
    bench.tidy(bridge).await;
}
