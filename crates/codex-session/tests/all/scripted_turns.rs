//! What comes back from a turn, on servers that say more than they should.

use codex_session::projection::Message;
use codex_session::{FailureKind, TurnOptions, TurnOutcome};
use codex_wire::call::UserInput;
use serde_json::json;
use testkit::script::{self, Script, item};

use crate::workbench::{Scripted, soon};

// peer: S6, S43
#[tokio::test]
async fn a_text_turn_gives_its_text_its_message_and_its_id() {
    let codex = Scripted::playing([script::message("the answer"), script::completed()]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    assert_eq!(result.final_text, "the answer");
    assert!(!result.interrupted && !result.should_retire && !result.outcome_unknown);
    let [Message::Assistant { content: Some(content), .. }] = &result.projected_messages[..] else {
        panic!("{:?}", result.projected_messages)
    };
    assert_eq!(content, "the answer");
    assert_eq!(result.turn_id.unwrap().as_str(), script::turn_id(1));
    assert_eq!(result.thread_id.unwrap().as_str(), script::thread_id(1));
}

// peer: S2, S11
#[tokio::test]
async fn words_and_pictures_reach_codex_as_they_are_and_in_order() {
    let codex = Scripted::new(Script::new());
    let session = codex.start().await;
    let input = vec![
        UserInput::text("what is this?"),
        UserInput::Image { url: "data:image/png;base64,AAAA".to_owned() },
        UserInput::LocalImage { path: "/tmp/picture.png".to_owned() },
        UserInput::text("and why?"),
    ];
    let result = soon(session.run_turn(input, TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    let started = codex.server.wait_for_method("turn/start").await;
    assert_eq!(
        started["params"]["input"],
        json!([
            {"type": "text", "text": "what is this?"},
            {"type": "image", "url": "data:image/png;base64,AAAA"},
            {"type": "localImage", "path": "/tmp/picture.png"},
            {"type": "text", "text": "and why?"},
        ])
    );
    session.close().await;
}

// peer: S10
#[tokio::test]
async fn the_last_count_of_tokens_is_in_the_result() {
    let usage = [script::token_usage(10, 10), script::token_usage(300, 1590)];
    let codex = Scripted::playing(usage.into_iter().chain([script::message("done"), script::completed()]));
    let usage = codex.run(TurnOptions::default()).await.usage.unwrap();
    assert_eq!((usage.last.total_tokens, usage.total.total_tokens), (300, 1590));
    assert_eq!(usage.model_context_window, Some(258_400));
}

// peer: S12
#[tokio::test]
async fn two_commands_and_a_text_are_two_tool_iterations_and_five_messages() {
    let codex = Scripted::playing([
        item::command("ls", "a b", 0).lifecycle(),
        item::command("false", "", 1).lifecycle(),
        script::message("both ran"),
        script::completed(),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.tool_iterations, result.projected_messages.len()), (2, 5));
    assert_eq!(result.final_text, "both ran");
}

fn a_child_is_busy() -> script::Step {
    script::group([
        script::child_started("child-1"),
        script::started().in_thread("child-1").in_turn("child-turn"),
        script::message("the child's words").in_thread("child-1").in_turn("child-turn"),
        script::completed_without_message().in_thread("child-1").in_turn("child-turn"),
    ])
}

// peer: S7, T8
#[tokio::test]
async fn a_child_thread_neither_ends_the_turn_nor_speaks_in_it() {
    let codex =
        Scripted::playing([a_child_is_busy(), script::message("the parent's words"), script::completed()]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "the parent's words"));
    assert_eq!(result.projected_messages.len(), 1, "{:?}", result.projected_messages);
}

// A child that shares the parent's turn id is told apart by its thread alone.
#[tokio::test]
async fn a_child_thread_with_the_same_turn_id_is_still_another_thread() {
    let codex = Scripted::playing([
        script::child_started("child-1"),
        script::message("the child's words").in_thread("child-1"),
        script::completed_without_message().in_thread("child-1"),
        script::message("the parent's words"),
        script::completed(),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "the parent's words"));
}

// peer: S8
#[tokio::test]
async fn the_end_of_an_earlier_turn_does_not_end_this_one() {
    let stale = || {
        script::group([
            script::message("an old text").in_turn("an-earlier-turn"),
            script::completed_without_message().in_turn("an-earlier-turn"),
        ])
    };
    // Before the reply that names the turn, before it is active, and while it runs.
    let codex = Scripted::new(Script::new().on(
        "turn/start",
        [
            stale(),
            script::reply_turn(),
            stale(),
            script::started(),
            stale(),
            script::message("the new text"),
            script::completed(),
        ],
    ));
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "the new text"));
    assert_eq!(result.projected_messages.len(), 1);
}

// peer: T7
#[tokio::test]
async fn events_that_overtake_the_reply_to_turn_start_are_not_lost() {
    let codex = Scripted::new(Script::new().on(
        "turn/start",
        [script::started(), script::message("quick"), script::completed(), script::reply_turn()],
    ));
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "quick"));
}

#[tokio::test]
async fn a_repeated_end_ends_one_turn_only() {
    let first = script::turn_id(1);
    let script = Script::new()
        .on_nth(
            "turn/start",
            1,
            [
                script::reply_turn(),
                script::started(),
                script::message("one"),
                script::completed(),
                script::completed(),
            ],
        )
        .on_nth(
            "turn/start",
            2,
            [
                script::completed_without_message().in_turn(&first),
                script::reply_turn(),
                script::started(),
                script::completed_without_message().in_turn(&first),
                script::message("two"),
                script::completed(),
            ],
        );
    let codex = Scripted::new(script);
    let session = codex.start().await;
    for text in ["one", "two"] {
        let result = soon(session.run_turn("go", TurnOptions::default())).await;
        assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, text));
    }
    session.close().await;
}

// peer: S22
#[tokio::test]
async fn a_failed_turn_carries_its_message() {
    let codex = Scripted::playing([script::failed("the model fell over", "other")]);
    let result = codex.run(TurnOptions::default()).await;
    let error = result.error.unwrap();
    assert_eq!((result.outcome, error.kind), (TurnOutcome::Failed, FailureKind::Model));
    assert_eq!(error.message, "the model fell over");
    assert!(!result.should_retire && !result.interrupted);
}

#[tokio::test]
async fn a_turn_that_failed_without_a_reason_says_so() {
    let codex = Scripted::playing([script::failed_without_error()]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!(result.outcome, TurnOutcome::Failed);
    assert!(result.error.unwrap().message.contains("did not say why"));
}

#[tokio::test]
async fn a_turn_that_failed_without_a_reason_keeps_the_error_before_it() {
    let codex = Scripted::playing([
        script::error_final("quota used up", "usageLimitExceeded"),
        script::rate_limits(100, 1_900_000_000),
        script::failed_without_error(),
    ]);
    let error = codex.run(TurnOptions::default()).await.error.unwrap();
    assert_eq!(error.kind, FailureKind::UsageLimit { resets_at: Some(1_900_000_000) });
    assert_eq!(error.message, "quota used up");
}

#[tokio::test]
async fn an_end_with_an_unknown_status_is_no_success() {
    let codex = Scripted::playing([
        script::message("half"),
        script::completed_without_message().with("/turn/status", "evaporated"),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!(result.outcome, TurnOutcome::Failed);
    assert_eq!(result.error.unwrap().kind, FailureKind::Protocol);
}

// peer: S52
#[tokio::test]
async fn a_turn_that_was_not_authorised_tells_to_log_in_and_retires() {
    let codex = Scripted::playing([script::failed("401 Unauthorized: please reauthenticate", json!(null))]);
    let result = codex.run(TurnOptions::default()).await;
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Auth);
    assert!(error.message.contains("codex login") && error.message.contains("reauthenticate"), "{error}");
    assert!(result.should_retire);
}

// peer: S53
#[tokio::test]
async fn a_rate_limit_keeps_its_own_words() {
    for info in [json!("rateLimitExceeded"), json!(null)] {
        let codex = Scripted::playing([script::failed("rate limit exceeded", info)]);
        let result = codex.run(TurnOptions::default()).await;
        let error = result.error.unwrap();
        assert_eq!(error.message, "rate limit exceeded");
        assert!(!result.should_retire && error.kind != FailureKind::Auth, "{error:?}");
    }
}

#[tokio::test]
async fn after_a_retried_stream_the_last_of_two_messages_counts() {
    let codex = Scripted::playing([
        script::message("the answer is 4"),
        script::error_retried("stream disconnected", json!({"responseStreamDisconnected": {}})),
        script::message("the answer is 42"),
        script::completed_without_message(),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "the answer is 42"));
    assert_eq!(result.error, None);
}

// peer: T21
#[tokio::test]
async fn the_final_answer_counts_though_commentary_follows() {
    let codex = Scripted::playing([
        script::message_in_phase("42", "final_answer"),
        script::message_in_phase("that was fun", "commentary"),
        script::completed_without_message(),
    ]);
    assert_eq!(codex.run(TurnOptions::default()).await.final_text, "42");
}

#[tokio::test]
async fn a_second_turn_is_refused_while_one_runs() {
    let codex = Scripted::playing([script::await_release("end"), script::completed()]);
    let session = codex.start().await;
    let first = tokio::spawn({
        let session = session.clone();
        async move { session.run_turn("one", TurnOptions::default()).await }
    });
    codex.server.wait_for_method("turn/start").await;
    let second = soon(session.run_turn("two", TurnOptions::default())).await;
    assert_eq!(second.error.unwrap().kind, FailureKind::Configuration);
    codex.server.release("end");
    assert_eq!(soon(first).await.unwrap().outcome, TurnOutcome::Completed);
    assert_eq!(codex.server.calls("turn/start").len(), 1);
    session.close().await;
}
