//! Decisions in words: a yes counts only for what was shown whole, where it is said, before it was said.

use std::sync::Arc;

use codex_bridge_core::id;
use codex_bridge_core::inbox::{Arrival, Rules};
use codex_bridge_core::outbox::{Delivery, DeliveryState, Outcome};
use codex_session::Sandbox;
use futures_util::FutureExt;
use scripted_model::Scenario;

use crate::inbox::{from, messages, receive, rules, text};
use crate::outbox::{Stage, config, deliveries};
use crate::workbench::{Serving, Workbench};

/// Codex asks Ada whether it may make a file.
pub async fn asking(bench: &Workbench, stage: &Arc<Stage>) -> Serving {
    bench.model.script("make x", Scenario::new().exec("touch x.txt").then_say("Finished."));
    let bridge = Serving::on(bench.open_with(config(bench, stage)).await);
    // Where a yes is enough: what a sandbox stops all the same is not always repeated without it.
    let rules = Rules { sandbox: Sandbox::WorkspaceWrite, ..rules(bench) };
    bridge.chats.open_channel(rules).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "make x")]).await;
    bridge
}

/// Waits until the notice of what is asked is so; gives the name of the request.
pub async fn notice(bridge: &Serving, state: DeliveryState) -> String {
    let is_so = |one: &Delivery| one.state == state && one.notice.requests().len() == 1;
    let all = deliveries(bridge, |all| all.iter().any(is_so)).await;
    all.into_iter().find(is_so).unwrap().notice.requests()[0].request_id.0.clone()
}

/// Says something; gives the answer, which need not be sent.
pub async fn told(bridge: &Serving, arrival: Arrival) -> String {
    let name = arrival.external_id.clone();
    let is_it = |one: &Delivery| one.notice.in_reply_to() == Some(&name);
    receive(bridge, [arrival]).await;
    let all = deliveries(bridge, |all| all.iter().any(is_it)).await;
    text(&all.into_iter().find(is_it).unwrap().notice).to_owned()
}

fn is_made(bench: &Workbench) -> bool {
    bench.home.workspace().join("x.txt").exists()
}

#[tokio::test]
async fn a_yes_to_what_nobody_was_shown_does_not_count() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.play(|| std::future::pending().boxed());
    let bridge = asking(&bench, &stage).await;
    let id = notice(&bridge, DeliveryState::Attempting).await;
    for (name, yes) in [("m-2", "/approve".to_owned()), ("m-3", format!("/approve {id}"))] {
        let answer = told(&bridge, from("ada", name, &yes)).await;
        assert!(
            answer.contains("has not been shown here") && answer.contains("codex-bridge approve"),
            "{answer}"
        );
    }
    let answer = told(&bridge, from("ada", "m-4", "/deny")).await;
    assert!(answer.contains("Declined"), "a no counts always: {answer}");
    assert!(!is_made(&bench));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn what_is_shown_of_a_task_names_it_for_whoever_wants_to_read_all_of_it() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    bridge.chats.open_channel(rules(&bench)).await.unwrap();
    receive(&bridge, [from("ada", "m-1", "look [play] say Looked.")]).await;
    let turn = messages(&bridge, |all| all[0].reply_id.is_some()).await.remove(0);
    told(&bridge, from("ada", "m-2", "/diff")).await;
    let all = deliveries(&bridge, |_| true).await;
    let shown = all.iter().find(|one| one.notice.in_reply_to() == Some("m-2")).unwrap();
    assert_eq!(
        (shown.task_id.as_ref(), shown.notice.task().map(|task| &task.id)),
        (turn.task_id.as_ref(), turn.task_id.as_ref())
    );
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn the_words_of_an_answer_do_not_stay_in_the_inbox() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let bridge = Serving::on(bench.open_with(config(&bench, &stage)).await);
    bridge.chats.open_channel(rules(&bench)).await.unwrap();
    told(&bridge, from("ada", "m-1", "/answer req-1 hunter2")).await;
    let kept = messages(&bridge, |all| all.len() == 1).await.remove(0);
    assert_eq!((kept.summary.as_str(), kept.sealed_text), ("/answer req-1 …", None));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_yes_to_what_was_shown_in_part_does_not_count() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    stage.answers(Outcome::delivered(None));
    let bridge = asking(&bench, &stage).await;
    let id = notice(&bridge, DeliveryState::Delivered).await;
    for (name, yes) in [("m-2", "/approve".to_owned()), ("m-3", format!("/approve {id}"))] {
        let answer = told(&bridge, from("ada", name, &yes)).await;
        assert!(answer.contains("could not be shown here whole"), "{answer}");
    }
    assert!(told(&bridge, from("ada", "m-4", &format!("/deny {id}"))).await.contains("Declined"));
    assert!(!is_made(&bench));
    bench.tidy(bridge.end()).await;
}

#[tokio::test]
async fn a_yes_counts_only_where_the_request_was_shown_and_only_after_that() {
    let (bench, stage) = (Workbench::new().await, Arc::new(Stage::default()));
    let before = from("ada", "m-2", "/approve");
    let bridge = asking(&bench, &stage).await;
    let id = notice(&bridge, DeliveryState::Delivered).await;
    let answer = told(&bridge, before).await;
    assert!(answer.contains("only after this was written") && answer.contains(id::short(&id)), "{answer}");
    let elsewhere =
        |name, yes: &str| Arrival { reply_to: "stage:ada's other phone".into(), ..from("ada", name, yes) };
    let answer = told(&bridge, elsewhere("m-3", &format!("/approve {id}"))).await;
    assert!(answer.contains("has not been shown here"), "{answer}");
    assert!(!is_made(&bench));
    let answer = told(&bridge, from("ada", "m-4", "/approve")).await;
    assert!(answer.contains("Codex has it"), "{answer}");
    deliveries(&bridge, |all| all.iter().any(|one| text(&one.notice) == "Finished.")).await;
    assert!(is_made(&bench));
    let answer = told(&bridge, elsewhere("m-5", &format!("/approve {id}"))).await;
    assert!(answer.contains("already answered"), "{answer}");
    bench.tidy(bridge.end()).await;
}
