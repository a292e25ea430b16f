//! Compactions: those that happen in a turn, and those on request.

use codex_session::{FailureKind, TurnOptions, TurnOutcome, TurnResult};
use serde_json::json;
use testkit::script::{self, Script, Step, item};

use crate::workbench::{Scripted, soon};

/// A server that compacts like this, and what came of it.
async fn compact(steps: impl IntoIterator<Item = Step>) -> (Scripted, TurnResult) {
    let codex = Scripted::new(Script::new().on("thread/compact/start", steps));
    let session = codex.start().await;
    let result = soon(session.compact(TurnOptions::default())).await;
    session.close().await;
    (codex, result)
}

// peer: S23
#[tokio::test]
async fn a_compaction_item_marks_the_result() {
    let codex = Scripted::playing([
        item::compaction().lifecycle(),
        script::message("shorter now"),
        script::completed(),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert!(result.compacted);
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "shorter now"));
    assert!(result.thread_id.is_some() && result.turn_id.is_some());
}

// peer: S24
#[tokio::test]
async fn the_older_notification_marks_the_result_too() {
    let codex = Scripted::playing([script::compacted(), script::message("shorter now"), script::completed()]);
    let result = codex.run(TurnOptions::default()).await;
    assert!(result.compacted && result.thread_id.is_some() && result.turn_id.is_some());
}

// peer: S25
#[tokio::test]
async fn a_compaction_on_request_is_a_turn_of_its_own() {
    let (codex, result) = compact([
        script::reply(json!({})),
        script::started(),
        item::compaction().lifecycle(),
        script::message("what was said so far"),
        script::token_usage(300, 1590),
        script::completed(),
    ])
    .await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    assert!(result.compacted && !result.should_retire);
    assert_eq!(result.final_text, "what was said so far");
    assert_eq!(result.turn_id.unwrap().as_str(), script::turn_id(1));
    assert_eq!(result.usage.unwrap().total.total_tokens, 1590);
    let calls = codex.server.calls("thread/compact/start");
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0]["params"], json!({"threadId": script::thread_id(1)}));
}

// peer: S26
#[tokio::test]
async fn the_compaction_of_a_child_does_not_end_ours() {
    let of_child = |step: Step| step.in_thread("child-1").in_turn("child-turn");
    let (_, result) = compact([
        script::reply(json!({})),
        script::child_started("child-1"),
        of_child(script::started()),
        of_child(item::compaction().lifecycle()),
        of_child(script::completed_without_message()),
        script::started(),
        of_child(script::completed_without_message()),
        script::message("ours"),
        script::completed(),
    ])
    .await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "ours"));
    assert!(!result.compacted, "only the child's history was summarised");
    assert_eq!(result.turn_id.unwrap().as_str(), script::turn_id(1));
}

// peer: S27
#[tokio::test]
async fn an_earlier_end_before_its_own_start_does_not_end_a_compaction() {
    let stale = || script::completed_without_message().in_turn("an-earlier-turn");
    let (_, result) = compact([
        stale(),
        script::reply(json!({})),
        stale(),
        script::started(),
        stale(),
        item::compaction().lifecycle(),
        script::completed_without_message(),
    ])
    .await;
    assert_eq!(result.outcome, TurnOutcome::Completed);
    assert!(result.compacted);
    assert_eq!(result.turn_id.unwrap().as_str(), script::turn_id(1));
}

// peer: S28
#[tokio::test]
async fn an_interrupted_compaction_says_so() {
    let (_, result) = compact([script::reply(json!({})), script::started(), script::interrupted()]).await;
    assert_eq!(result.outcome, TurnOutcome::Interrupted);
    assert!(result.interrupted && !result.compacted);
    assert_eq!(result.error.unwrap().message, "compact turn interrupted");
}

// peer: T15
#[tokio::test]
async fn a_compaction_that_a_person_stops_is_interrupted_by_its_id() {
    let codex = Scripted::new(
        Script::new().on("thread/compact/start", [script::reply(json!({})), script::started()]),
    );
    let session = codex.start().await;
    let compaction = tokio::spawn({
        let session = session.clone();
        async move { session.compact(TurnOptions::default()).await }
    });
    codex.server.wait_for_method("thread/compact/start").await;
    session.interrupt().await;
    let result = soon(compaction).await.unwrap();
    assert!(result.interrupted, "{result:?}");
    let interrupt = codex.server.wait_for_method("turn/interrupt").await;
    assert_eq!(interrupt["params"]["turnId"], script::turn_id(1));
    session.close().await;
}

// peer: S29
#[tokio::test]
async fn a_refused_compaction_gives_the_servers_words_and_does_not_retire() {
    let (_, result) = compact([script::reply_error(-32600, "nothing to compact")]).await;
    let error = result.error.unwrap();
    assert_eq!((result.outcome, error.kind), (TurnOutcome::Failed, FailureKind::Refused));
    assert!(error.message.contains("nothing to compact"));
    assert!(!result.should_retire);
}
