//! Sessions on a host that outlives their connection: what is missed is read back, what is open is asked again.

use std::sync::Arc;

use codex_session::{Approver, Ask, Decision, FailureKind, Session, TurnOptions, TurnOutcome};
use codex_wire::host::{Found, Stop, find};
use serde_json::json;
use testkit::script::{self, Script, Step};

use crate::workbench::{Scripted, always, soon};

/// Ends the host that a session left running.
async fn end_host(codex: &Scripted) {
    let Some(Found::Alive(host)) = find(&codex.launch().dir).unwrap() else { panic!("the host is gone") };
    host.stop(Stop::Now).await.unwrap();
    codex.server.assert_no_processes().await;
}

/// A turn on a host that plays this.
async fn turn_on_host(
    steps: impl IntoIterator<Item = Step>,
    approver: Arc<dyn Approver>,
) -> (Scripted, codex_session::TurnResult) {
    let codex = Scripted::playing(steps);
    let session = Session::start(codex.config(), codex.on_host(), Some(approver)).await.unwrap();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    session.close().await;
    end_host(&codex).await;
    (codex, result)
}

#[tokio::test]
async fn a_dropped_connection_costs_no_event_of_the_turn() {
    let (codex, result) = turn_on_host(
        [
            script::message("before"),
            script::close_stdout(),
            script::await_disconnect(),
            script::message("while you were away"),
            script::await_method("thread/turns/list"),
            script::message_in_phase("after", "final_answer"),
            script::completed_without_message(),
        ],
        always(Decision::Decline),
    )
    .await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "after"), "{result:?}");
    assert_eq!(result.projected_messages.len(), 3, "each message once: {:?}", result.projected_messages);
    assert_eq!(codex.server.calls("turn/start").len(), 1, "nothing is sent twice");
    assert_eq!(codex.server.calls("thread/resume").len(), 1);
}

#[tokio::test]
async fn an_end_that_was_missed_is_read_back() {
    let (_, result) = turn_on_host(
        [
            script::close_stdout(),
            script::await_disconnect(),
            script::message("done meanwhile"),
            script::completed(),
        ],
        always(Decision::Decline),
    )
    .await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "done meanwhile"));
}

#[tokio::test]
async fn a_prompt_whose_reply_was_lost_is_looked_for_and_not_sent_again() {
    let codex = Scripted::new(
        Script::new().on(
            "turn/start",
            [
                script::close_stdout(),
                script::await_disconnect(),
                script::started(),
                testkit::script::item::user("$prompt")
                    .with("clientId", "$client_id")
                    .with("content", "$input")
                    .lifecycle(),
                script::await_method("thread/turns/list"),
                script::message("taken after all"),
                script::completed(),
            ],
        ),
    );
    let session = Session::start(codex.config(), codex.on_host(), None).await.unwrap();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(
        (result.outcome, result.final_text.as_str()),
        (TurnOutcome::Completed, "taken after all"),
        "{result:?}"
    );
    assert_eq!(codex.server.calls("turn/start").len(), 1);
    session.close().await;
    end_host(&codex).await;
}

#[tokio::test]
async fn a_question_that_is_asked_again_after_a_lost_connection_is_put_once_and_answered() {
    let (asked, asks) = std::sync::mpsc::channel();
    let approver: Arc<dyn Approver> = Arc::new(move |ask: Ask| {
        asked.send(ask).unwrap();
        async {
            // Long enough for the connection to be lost and found again.
            tokio::time::sleep(std::time::Duration::from_millis(800)).await;
            Decision::Accept
        }
    });
    let (codex, result) = turn_on_host(
        [
            script::command_request(0, "make"),
            script::close_stdout(),
            script::await_disconnect(),
            script::await_method("thread/turns/list"),
            script::command_request(0, "make"),
            script::await_answer(0),
            script::resolved(0),
            script::completed(),
        ],
        approver,
    )
    .await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    assert_eq!(codex.server.answers(), [json!({"id": 0, "result": {"decision": "accept"}})]);
    assert_eq!(asks.iter().count(), 1, "a person is asked once");
}

#[tokio::test]
async fn a_host_that_dies_in_a_turn_is_lost_and_the_next_turn_gets_another() {
    let codex = Scripted::playing([script::stderr("segmentation fault"), script::exit(139)]);
    let session = Session::start(codex.config(), codex.on_host(), None).await.unwrap();
    for _ in 0..2 {
        let result = soon(session.run_turn("go", TurnOptions::default())).await;
        assert_eq!(result.outcome, TurnOutcome::Lost, "{result:?}");
        assert!(result.should_retire && result.outcome_unknown);
        assert_eq!(result.error.unwrap().kind, FailureKind::Lost);
    }
    session.close().await;
    assert_eq!(codex.server.starts().len(), 2);
    assert_eq!(codex.server.calls("turn/start").len(), 2, "never sent twice");
    codex.server.assert_no_processes().await;
}

#[tokio::test]
async fn closing_leaves_the_host_and_its_turn_alone() {
    let codex = Scripted::playing([script::await_release("end"), script::completed()]);
    let session = Session::start(codex.config(), codex.on_host(), None).await.unwrap();
    let turn = tokio::spawn({
        let session = session.clone();
        async move { session.run_turn("go", TurnOptions::default()).await }
    });
    codex.server.wait_for_method("turn/start").await;
    soon(session.close()).await;
    let result = soon(turn).await.unwrap();
    assert!(result.outcome_unknown, "it goes on unseen: {result:?}");
    assert!(codex.server.calls("turn/interrupt").is_empty());
    codex.server.release("end");
    end_host(&codex).await;
}
