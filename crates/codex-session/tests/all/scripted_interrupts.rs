//! Stopping and steering a turn, at every moment of its life.

use codex_session::{FailureKind, Session, SteerOutcome, TurnOptions, TurnOutcome, TurnResult};
use codex_wire::host::{Found, find};
use serde_json::json;
use testkit::script::{self, Script, Step, item};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::workbench::{Scripted, soon, until};

/// A turn that runs beside the test.
fn running(session: &Session) -> JoinHandle<TurnResult> {
    let session = session.clone();
    tokio::spawn(async move { session.run_turn("go", TurnOptions::default()).await })
}

fn assert_interrupted(result: &TurnResult) {
    assert_eq!((result.outcome, &result.error), (TurnOutcome::Interrupted, &None));
    assert!(result.interrupted && !result.should_retire && !result.outcome_unknown, "{result:?}");
}

// peer: S17
#[tokio::test]
async fn a_turn_that_is_stopped_before_it_begins_is_never_sent() {
    let codex = Scripted::new(Script::new());
    let session = codex.start().await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let options = TurnOptions { cancel: Some(cancel), ..TurnOptions::default() };
    assert_interrupted(&soon(session.run_turn("go", options)).await);
    assert!(codex.server.calls("turn/start").is_empty());
    session.close().await;
}

// peer: S17
#[tokio::test]
async fn a_turn_that_is_stopped_while_its_thread_opens_is_never_sent() {
    let codex = Scripted::new(
        Script::new().on("thread/start", [script::await_release("open"), script::default_steps()]),
    );
    let session = Session::new(codex.config(), codex.stdio(), None);
    let turn = running(&session);
    codex.server.wait_for_method("thread/start").await;
    session.interrupt().await;
    assert_interrupted(&soon(turn).await.unwrap());
    codex.server.release("open");
    // The thread is there for the next turn.
    let next = soon(session.run_turn("again", TurnOptions::default())).await;
    assert_eq!(next.outcome, TurnOutcome::Completed);
    let prompts = codex.server.calls("turn/start");
    assert_eq!(prompts.len(), 1);
    assert_eq!(prompts[0]["params"]["input"][0]["text"], "again");
    session.close().await;
}

/// A server that becomes active in its own time, and the session that stops it meanwhile.
async fn stopped_when(begin: impl IntoIterator<Item = Step>, after: &str) {
    let codex = Scripted::new(Script::new().on("turn/start", begin));
    let session = codex.start().await;
    let mut events = session.events();
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    if after == "started" {
        until(&mut events, |event| matches!(event, codex_session::SessionEvent::TurnStarted { .. })).await;
    }
    session.interrupt().await;
    // Its command has been taken up when the next one is answered.
    session.status().await;
    codex.server.release("go");
    assert_interrupted(&soon(turn).await.unwrap());
    let interrupts = codex.server.calls("turn/interrupt");
    assert_eq!(interrupts.len(), 1);
    let wanted = json!({"threadId": script::thread_id(1), "turnId": script::turn_id(1)});
    assert_eq!(interrupts[0]["params"], wanted);
    // An interrupt leaves the commands of a turn running.
    codex.server.wait_for_method("thread/backgroundTerminals/clean").await;
    session.close().await;
}

// peer: S18
#[tokio::test]
async fn an_interrupt_right_after_turn_start_names_the_turn_when_it_can() {
    // Before the reply, before it is active, and while it runs.
    stopped_when([script::await_release("go"), script::reply_turn(), script::started()], "sent").await;
    stopped_when([script::reply_turn(), script::await_release("go"), script::started()], "accepted").await;
    stopped_when([script::reply_turn(), script::started()], "started").await;
}

#[tokio::test]
async fn a_turn_that_never_becomes_active_is_stopped_without_its_id() {
    let script = Script::new()
        .on("turn/start", [script::reply_turn()])
        .on("turn/interrupt", [script::reply(json!({})), script::interrupted()]);
    let codex = Scripted::new(script);
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    session.interrupt().await;
    assert_interrupted(&soon(turn).await.unwrap());
    assert_eq!(codex.server.calls("turn/interrupt")[0]["params"]["turnId"], "");
    session.close().await;
}

#[tokio::test]
async fn cancelling_in_the_middle_interrupts() {
    let codex = Scripted::playing([]);
    let session = codex.start().await;
    let cancel = CancellationToken::new();
    let options = TurnOptions { cancel: Some(cancel.clone()), ..TurnOptions::default() };
    let stop = async {
        codex.server.wait_for_method("turn/start").await;
        cancel.cancel();
    };
    let (result, ()) = soon(async { tokio::join!(session.run_turn("go", options), stop) }).await;
    assert_interrupted(&result);
    session.close().await;
}

#[tokio::test]
async fn an_interrupt_when_nothing_runs_does_nothing() {
    let codex = Scripted::new(Script::new());
    let session = codex.start().await;
    session.interrupt().await;
    assert_eq!(soon(session.run_turn("one", TurnOptions::default())).await.outcome, TurnOutcome::Completed);
    session.interrupt().await;
    assert_eq!(soon(session.run_turn("two", TurnOptions::default())).await.outcome, TurnOutcome::Completed);
    assert!(codex.server.calls("turn/interrupt").is_empty());
    session.close().await;
}

// peer: T17
#[tokio::test]
async fn a_turn_that_completes_all_the_same_is_completed() {
    let codex = Scripted::new(
        Script::new()
            .on(
                "turn/start",
                [
                    script::reply_turn(),
                    script::started(),
                    script::await_method("turn/interrupt"),
                    script::message("done already"),
                    script::completed(),
                ],
            )
            .on("turn/interrupt", [script::reply_error(-32600, "no active turn to interrupt")]),
    );
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    session.interrupt().await;
    let result = soon(turn).await.unwrap();
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "done already"));
    session.close().await;
}

// An interrupt that Codex does not confirm takes two times five seconds by design.
// peer: T17
#[tokio::test]
async fn a_codex_that_does_not_confirm_an_interrupt_is_ended() {
    let script = Script::new()
        .on(
            "turn/start",
            [script::reply_turn(), script::started(), item::command("rm -r x", "", 0).lifecycle()],
        )
        .on("turn/interrupt", [script::reply(json!({}))]);
    let codex = Scripted::new(script);
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    session.interrupt().await;
    let result = soon(turn).await.unwrap();
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{result:?}");
    assert!(result.outcome_unknown && result.should_retire);
    assert!(result.side_effects.iter().any(|effect| effect.contains("rm -r x")), "{result:?}");
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Unresponsive);
    assert!(error.message.contains("did not confirm the interrupt"), "{error}");
    // By id, then for whatever runs.
    let ids: Vec<_> =
        codex.server.calls("turn/interrupt").iter().map(|it| it["params"]["turnId"].clone()).collect();
    assert_eq!(ids, [json!(script::turn_id(1)), json!("")]);
    codex.server.assert_no_processes().await;
    session.close().await;
}

#[tokio::test]
async fn a_host_that_does_not_confirm_an_interrupt_is_spared_while_another_turn_lives_on_it() {
    let another = script::reply(json!({"data": ["$thread", "another"], "nextCursor": null}));
    let busy = json!({"thread": {"id": "another", "status": {"type": "active", "activeFlags": []}}});
    let script = Script::new()
        .on("turn/start", [script::reply_turn(), script::started()])
        .on("turn/interrupt", [script::reply(json!({}))])
        .on("thread/loaded/list", [another])
        .on("thread/read", [script::reply(busy)]);
    let codex = Scripted::new(script);
    let session = Session::start(codex.config(), codex.on_host(), None).await.unwrap();
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    session.interrupt().await;
    let result = tokio::time::timeout(std::time::Duration::from_secs(30), turn).await.unwrap().unwrap();
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{result:?}");
    assert!(result.outcome_unknown && result.should_retire);
    session.close().await;
    let Some(Found::Alive(host)) = find(&codex.launch().dir).unwrap() else { panic!("the host is gone") };
    host.stop(codex_wire::host::Stop::Now).await.unwrap();
}

/// Steers a running turn of a server that answers like this.
async fn steered(answer: impl IntoIterator<Item = Step>) -> (SteerOutcome, Scripted) {
    let script = Script::new()
        .on(
            "turn/start",
            [script::reply_turn(), script::started(), script::await_release("end"), script::completed()],
        )
        .on("turn/steer", answer);
    let codex = Scripted::new(script);
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    let outcome = soon(session.steer("and quickly")).await;
    codex.server.release("end");
    assert_eq!(soon(turn).await.unwrap().outcome, TurnOutcome::Completed);
    session.close().await;
    (outcome, codex)
}

#[tokio::test]
async fn of_a_steer_that_was_out_when_the_session_was_closed_nothing_is_claimed() {
    let script = Script::new()
        .on("turn/start", [script::reply_turn(), script::started(), script::await_release("end")])
        .on("turn/steer", [script::await_release("answer")]);
    let codex = Scripted::new(script);
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    let steering = session.clone();
    let steer = tokio::spawn(async move { steering.steer("and quickly").await });
    codex.server.wait_for_method("turn/steer").await;
    session.close().await;
    let outcome = soon(steer).await.unwrap();
    assert!(matches!(&outcome, SteerOutcome::Unconfirmed(_)), "{outcome:?}");
    assert_eq!(session.steer("more").await, SteerOutcome::NoActiveTurn);
    drop(soon(turn).await);
}

// peer: S19
#[tokio::test]
async fn a_steer_names_the_thread_the_words_and_the_turn() {
    let (outcome, codex) = steered([script::default_steps()]).await;
    assert_eq!(outcome, SteerOutcome::Accepted);
    let steers = codex.server.calls("turn/steer");
    assert_eq!(steers.len(), 1);
    let wanted = json!({
        "threadId": script::thread_id(1),
        "input": [{"type": "text", "text": "and quickly"}],
        "expectedTurnId": script::turn_id(1),
    });
    assert_eq!(steers[0]["params"], wanted);
}

// peer: T16
#[tokio::test]
async fn a_steer_that_is_not_taken_says_why() {
    let refusal = |message: &str| script::reply_error(-32600, message);
    let cases = [
        (refusal("no active turn to steer"), SteerOutcome::NoActiveTurn),
        (refusal("expected active turn id `a` but found `b`"), SteerOutcome::WrongTurn),
        (
            script::reply(json!({"turnId": "another"})),
            SteerOutcome::Unconfirmed("Codex added it to another turn".to_owned()),
        ),
        (refusal("cannot steer a review turn"), SteerOutcome::NotSteerable),
        (refusal("the moon is full"), SteerOutcome::Failed("the moon is full".to_owned())),
    ];
    for (answer, wanted) in cases {
        assert_eq!(steered([answer]).await.0, wanted);
    }
}

#[tokio::test]
async fn without_a_turn_there_is_nothing_to_steer() {
    let codex = Scripted::new(Script::new());
    let session = codex.start().await;
    assert_eq!(soon(session.steer("hello?")).await, SteerOutcome::NoActiveTurn);
    assert!(codex.server.calls("turn/steer").is_empty());
    session.close().await;
}

#[tokio::test]
async fn a_compaction_takes_no_steer() {
    let script = Script::new().on(
        "thread/compact/start",
        [script::reply(json!({})), script::started(), script::await_release("end"), script::completed()],
    );
    let codex = Scripted::new(script);
    let session = codex.start().await;
    let compaction = tokio::spawn({
        let session = session.clone();
        async move { session.compact(TurnOptions::default()).await }
    });
    codex.server.wait_for_method("thread/compact/start").await;
    assert_eq!(soon(session.steer("hello?")).await, SteerOutcome::NotSteerable);
    codex.server.release("end");
    assert_eq!(soon(compaction).await.unwrap().outcome, TurnOutcome::Completed);
    assert!(codex.server.calls("turn/steer").is_empty());
    session.close().await;
}
