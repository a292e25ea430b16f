//! The life of a session: closing it at any moment, dropping it, replacing what it stands on.

use std::time::{Duration, Instant};

use codex_session::{FailureKind, Session, TurnOptions, TurnOutcome, TurnResult};
use serde_json::json;
use testkit::script::{self, Script};
use tokio::task::JoinHandle;

use crate::workbench::{Scripted, soon, within};

fn running(session: &Session) -> JoinHandle<TurnResult> {
    let session = session.clone();
    tokio::spawn(async move { session.run_turn("go", TurnOptions::default()).await })
}

// peer: S5, L2, L4
#[tokio::test]
async fn closing_ends_the_process_and_closing_again_does_nothing() {
    let codex = Scripted::new(Script::new());
    let session = codex.start().await;
    let pid = session.status().await.child_pid.unwrap();
    soon(session.close()).await;
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "reaped, not a zombie");
    let began = Instant::now();
    soon(session.close()).await;
    assert!(began.elapsed() < Duration::from_secs(1));
    let result = soon(session.run_turn("hello?", TurnOptions::default())).await;
    assert_eq!(result.error.unwrap().kind, FailureKind::Closed);
    assert_eq!(codex.server.starts().len(), 1);
}

// peer: L5
#[tokio::test]
async fn two_closes_at_once_are_safe() {
    let codex = Scripted::playing([]);
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    soon(async { tokio::join!(session.close(), session.close(), session.close()) }).await;
    assert_eq!(soon(turn).await.unwrap().error.unwrap().kind, FailureKind::Closed);
    codex.server.assert_no_processes().await;
}

// peer: L6
#[tokio::test]
async fn a_close_during_a_turn_ends_it_in_good_order_however_often() {
    for _ in 0..20 {
        let codex = Scripted::playing([script::message("as far as I got")]);
        let session = codex.start().await;
        let turn = running(&session);
        codex.server.wait_for_method("turn/start").await;
        soon(session.close()).await;
        let result = soon(turn).await.unwrap();
        assert_eq!(result.outcome, TurnOutcome::Failed);
        assert!(result.should_retire && result.outcome_unknown);
        let error = result.error.unwrap();
        assert_eq!(error.kind, FailureKind::Closed);
        assert!(error.message.contains("closed while the turn was in flight"), "{error}");
    }
}

// peer: L3
#[tokio::test]
async fn a_call_that_waits_ends_at_once_when_the_session_is_closed() {
    // The prompt is never answered.
    let codex = Scripted::new(Script::new().on("turn/start", [script::hang()]));
    let session = codex.start().await;
    let turn = running(&session);
    codex.server.wait_for_method("turn/start").await;
    let began = Instant::now();
    soon(session.close()).await;
    assert_eq!(soon(turn).await.unwrap().error.unwrap().kind, FailureKind::Closed);
    assert!(began.elapsed() < Duration::from_secs(3), "far from its limit of 10 s");
}

// peer: L3
#[tokio::test]
async fn a_close_does_not_wait_for_a_thread_that_does_not_open() {
    for method in ["thread/start", "initialize"] {
        let codex = Scripted::new(Script::new().on(method, [script::hang()]));
        let session = Session::new(codex.config(), codex.stdio(), None);
        let turn = running(&session);
        codex.server.wait_for_method(method).await;
        let began = Instant::now();
        soon(session.close()).await;
        assert_eq!(soon(turn).await.unwrap().error.unwrap().kind, FailureKind::Closed);
        assert!(began.elapsed() < Duration::from_secs(3), "{method}: far from its limit of 10 s and more");
        codex.server.assert_no_processes().await;
    }
}

// peer: L7
#[tokio::test]
async fn closing_what_was_never_opened_does_nothing() {
    let codex = Scripted::new(Script::new());
    let session = Session::new(codex.config(), codex.stdio(), None);
    soon(session.close()).await;
    assert!(codex.server.starts().is_empty());
}

// A process has three seconds to heed the end of its input, and as long again to heed SIGTERM.
// peer: L7
#[tokio::test]
async fn a_codex_that_does_not_want_to_go_goes_all_the_same() {
    let codex = Scripted::new(Script::new().stubborn());
    let session = codex.start().await;
    soon(session.close()).await;
    codex.server.assert_no_processes().await;
    assert_eq!(
        soon(session.run_turn("hello?", TurnOptions::default())).await.error.unwrap().kind,
        FailureKind::Closed
    );
}

#[tokio::test]
async fn a_dropped_session_leaves_no_process() {
    let idle = Scripted::new(Script::new());
    drop(idle.start().await);
    idle.server.assert_no_processes().await;

    let busy = Scripted::playing([]);
    let session = busy.start().await;
    let turn = running(&session);
    busy.server.wait_for_method("turn/start").await;
    turn.abort();
    drop(session);
    busy.server.assert_no_processes().await;

    let opening = Scripted::new(Script::new().on("thread/start", [script::hang()]));
    let session = Session::new(opening.config(), opening.stdio(), None);
    let turn = running(&session);
    opening.server.wait_for_method("thread/start").await;
    turn.abort();
    drop(session);
    opening.server.assert_no_processes().await;
}

/// A session whose Codex died between two turns sees that by itself.
async fn until_its_end_is_seen(session: &Session) {
    let seen = async {
        while session.status().await.child_pid.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(seen).await;
}

#[tokio::test]
async fn a_retired_session_takes_its_thread_up_again_with_the_next_turn() {
    let codex = Scripted::new(
        Script::new()
            .on("turn/start", [script::default_steps(), script::await_release("dead"), script::exit(1)]),
    );
    let session = codex.start().await;
    assert_eq!(soon(session.run_turn("one", TurnOptions::default())).await.outcome, TurnOutcome::Completed);
    let first = session.status().await;
    codex.server.release("dead");
    until_its_end_is_seen(&session).await;
    // Whoever uses the session need not know.
    let result = soon(session.run_turn("two", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    assert_eq!(codex.server.calls("thread/start").len(), 1);
    let resumes = codex.server.calls("thread/resume");
    assert_eq!(resumes.len(), 1);
    assert_eq!(resumes[0]["params"]["threadId"], json!(first.thread_id));
    session.close().await;
}

#[tokio::test]
async fn a_turn_that_timed_out_is_followed_by_one_on_a_fresh_process() {
    let codex = Scripted::playing([]);
    let session = codex.start().await;
    let result = soon(session.run_turn("one", within(Duration::from_millis(300)))).await;
    assert!(result.should_retire);
    let second = soon(session.run_turn("two", within(Duration::from_millis(300)))).await;
    assert_eq!(second.thread_id, result.thread_id);
    let starts = codex.server.starts();
    assert_eq!(starts.len(), 2);
    assert_ne!(starts[0].pid, starts[1].pid);
    assert_eq!(codex.server.calls("thread/resume").len(), 1);
    session.close().await;
    codex.server.assert_no_processes().await;
}

#[tokio::test]
async fn a_thread_that_never_had_a_turn_is_replaced_by_a_new_one() {
    let codex = Scripted::new(
        Script::new()
            .on("thread/start", [script::default_steps(), script::await_release("dead"), script::exit(1)]),
    );
    let session = codex.start().await;
    codex.server.release("dead");
    until_its_end_is_seen(&session).await;
    let second = soon(session.open()).await;
    assert!(second.is_ok(), "{second:?}");
    assert_eq!(codex.server.calls("thread/start").len(), 2);
    assert!(codex.server.calls("thread/resume").is_empty());
    session.close().await;
}

#[tokio::test]
async fn a_fork_is_a_session_of_its_own() {
    // Each process counts its threads anew, so the branch gets a name of its own.
    let branch = script::reply(json!("$fork_result")).with("/thread", json!({"id": "a-branch"}));
    let codex = Scripted::new(Script::new().on("thread/fork", [branch]));
    let session = codex.start().await;
    soon(session.run_turn("one", TurnOptions::default())).await;
    let fork = soon(session.fork()).await.unwrap();
    assert_eq!(fork.status().await.thread_id.unwrap().as_str(), "a-branch");
    assert_eq!(session.status().await.thread_id.unwrap().as_str(), script::thread_id(1));
    assert_eq!(codex.server.calls("thread/fork")[0]["params"]["threadId"], script::thread_id(1));
    for session in [&session, &fork] {
        assert_eq!(
            soon(session.run_turn("two", TurnOptions::default())).await.outcome,
            TurnOutcome::Completed
        );
    }
    fork.close().await;
    session.close().await;
}
