//! Stopping turns of the real Codex, at every stage of their lives. The session is as good as new afterwards.

use std::time::Duration;

use codex_session::turn::Closing;
use codex_session::{FailureKind, Session, SessionEvent, TurnOptions, TurnOutcome, TurnResult};
use scripted_model::Scenario;
use scripted_model::scenario::COMPACTION_PROMPT;
use testkit::rig::Home;
use testkit::wait_until;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::real_parts::{Person, answer_to, interrupted, runs};
use crate::workbench::{LONG, RealCodex, soon, until, whole_turn, within};

fn begin(session: &Session, prompt: &'static str) -> JoinHandle<TurnResult> {
    let session = session.clone();
    tokio::spawn(async move { session.run_turn(prompt, TurnOptions::default()).await })
}

// peer: S17, S18
#[tokio::test]
async fn a_turn_is_stopped_right_after_it_was_asked_for() {
    let codex = RealCodex::new().await;
    codex.model.script("go", Scenario::new().stall("never"));
    let session = codex.open(None).await;
    for _ in 0..8 {
        let turn = session.run_turn("go", TurnOptions::default());
        let (result, ()) = tokio::join!(soon(turn), session.interrupt());
        interrupted(result);
    }
    let cancel = CancellationToken::new();
    cancel.cancel();
    let asked = codex.turns_asking("go").len();
    let options = TurnOptions { cancel: Some(cancel), ..TurnOptions::default() };
    let result = interrupted(soon(session.run_turn("go", options)).await);
    assert!(result.turn_id.is_none() && codex.turns_asking("go").len() == asked);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    codex.end(session).await;
}

#[tokio::test]
async fn a_turn_that_waits_for_its_session_to_open_need_not_begin() {
    let codex = RealCodex::new().await;
    let session = Session::new(codex.config(), codex.stdio(), None);
    let turn = session.run_turn("go", TurnOptions::default());
    let (result, ()) = tokio::join!(soon(turn), session.interrupt());
    interrupted(result);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert_eq!(codex.model.requests().len(), 1);
    codex.end(session).await;
}

#[tokio::test]
async fn a_turn_is_stopped_in_mid_stream_and_by_its_token() {
    let codex = RealCodex::new().await;
    codex.model.script("go", Scenario::new().delta("I am ").stall("first"));
    codex.model.script("go on", Scenario::new().delta("I am ").stall("second"));
    let session = codex.open(None).await;
    let turn = begin(&session, "go");
    soon(codex.model.wait_for_stall("first")).await;
    session.interrupt().await;
    interrupted(soon(turn).await.unwrap());

    let cancel = CancellationToken::new();
    let options = TurnOptions { cancel: Some(cancel.clone()), ..TurnOptions::default() };
    let stalled = async {
        codex.model.wait_for_stall("second").await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(soon(session.run_turn("go on", options)), soon(stalled));
    interrupted(result);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    codex.end(session).await;
}

// peer: T17
#[tokio::test]
async fn a_command_that_runs_is_gone_after_the_turn_was_stopped() {
    let codex = RealCodex::new().await;
    // Unlike any other sleep on this machine.
    let sleep = format!("sleep 97{}", std::process::id());
    codex.model.script("wait", Scenario::new().exec(sleep.as_str()).then_say("awake"));
    let mut config = codex.writing();
    config.approvals.accept_commands = true;
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    let turn = begin(&session, "wait");
    wait_until(LONG, "the command to run", || runs(&sleep)).await;
    session.interrupt().await;
    interrupted(soon(turn).await.unwrap());
    wait_until(LONG, "the command to be gone", || !runs(&sleep)).await;
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    codex.end(session).await;
}

#[tokio::test]
async fn a_question_is_closed_when_its_turn_is_stopped() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", Scenario::new().exec("touch made.txt").then_say("made it"));
    let person = Person::silent();
    let session = codex.open(person.approver()).await;
    let mut events = session.events();
    let turn = begin(&session, "make it");
    person.asked(1).await;
    session.interrupt().await;
    interrupted(soon(turn).await.unwrap());
    let told = whole_turn(&mut events).await;
    let orphaned = Closing::Orphaned { decision: None };
    let is_closed = |event: &SessionEvent| matches!(event, SessionEvent::RequestClosed { closing, .. } if *closing == orphaned);
    assert_eq!(told.iter().filter(|event| is_closed(event)).count(), 1, "{told:#?}");
    // A yes that comes too late is nobody's.
    person.say(codex_session::Decision::Accept);
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert!(!codex.made("made.txt"));
    codex.end(session).await;
}

#[tokio::test]
async fn a_turn_whose_model_cannot_be_reached_tries_on_until_it_is_stopped() {
    let codex = RealCodex { home: Home::without_model(), ..RealCodex::new().await };
    let session = codex.open(None).await;
    let mut events = session.events();
    let turn = begin(&session, "hello");
    until(&mut events, |event| matches!(event, SessionEvent::Retrying { .. })).await;
    assert!(!turn.is_finished());
    session.interrupt().await;
    interrupted(soon(turn).await.unwrap());
    codex.end(session).await;
}

// peer: S20, S42
#[tokio::test]
async fn a_turn_that_works_too_long_is_stopped_and_the_next_one_works() {
    let codex = RealCodex::new().await;
    codex.model.script("go", Scenario::new().stall("never"));
    let session = codex.open(None).await;
    let first_pid = session.status().await.child_pid.unwrap();
    let result = soon(session.run_turn("go", within(Duration::from_millis(300)))).await;
    assert_eq!((result.outcome, result.interrupted), (TurnOutcome::Interrupted, true));
    assert!(result.should_retire && !result.outcome_unknown, "{result:?}");
    let error = result.error.unwrap();
    assert_eq!(
        (error.kind, error.message.as_str()),
        (FailureKind::Timeout, "the turn timed out after 0.3 s of work")
    );
    // The session replaces itself: the thread goes on in a new process.
    assert_eq!(answer_to(&session, "hello").await, "You said: hello");
    assert_ne!(session.status().await.child_pid.unwrap(), first_pid);
    assert!(codex.last_input().contains("\"go\""), "{}", codex.last_input());
    codex.end(session).await;
}

// peer: L10
#[tokio::test]
async fn a_turn_that_is_silent_too_long_is_stopped() {
    let codex = RealCodex::new().await;
    codex.model.script("go", Scenario::new().delta("I am ").stall("never"));
    let session = codex.open(None).await;
    let options = TurnOptions { idle_limit: Some(Duration::from_millis(500)), ..TurnOptions::default() };
    let result = soon(session.run_turn("go", options)).await;
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{result:?}");
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Timeout);
    assert!(error.message.contains("inactive for 0.5 s"), "{}", error.message);
    codex.end(session).await;
}

// peer: S28
#[tokio::test]
async fn a_compaction_that_is_stopped_says_so() {
    let codex = RealCodex::new().await;
    codex.model.script_containing(COMPACTION_PROMPT, Scenario::new().stall("never"));
    let session = codex.open(None).await;
    answer_to(&session, "hello").await;
    let compacting = tokio::spawn({
        let session = session.clone();
        async move { session.compact(TurnOptions::default()).await }
    });
    soon(codex.model.wait_for_stall("never")).await;
    session.interrupt().await;
    let result = soon(compacting).await.unwrap();
    assert_eq!((result.outcome, result.compacted), (TurnOutcome::Interrupted, false));
    assert_eq!(result.error.unwrap().message, "compact turn interrupted");
    assert_eq!(answer_to(&session, "hello again").await, "You said: hello again");
    codex.end(session).await;
}
