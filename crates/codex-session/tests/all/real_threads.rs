//! The lives of threads on the real Codex: taken up again, branched, summarised, held by someone else.

use codex_session::{Failure, FailureKind, Session, TurnOptions};
use codex_wire::ThreadId;
use scripted_model::Scenario;
use scripted_model::scenario::COMPACTION_PROMPT;

use crate::real_parts::{answer_to, completed, thread_of};
use crate::workbench::{RealCodex, soon};

// peer: L14, N1
#[tokio::test]
async fn a_thread_is_taken_up_in_a_new_session_with_its_history() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    answer_to(&session, "my name is Ada").await;
    let thread = thread_of(&session).await;
    codex.end(session).await;

    let session = Session::resume(codex.config(), codex.stdio(), None, thread.clone()).await.unwrap();
    assert_eq!((thread_of(&session).await, session.status().await.unjoined_turn), (thread, None));
    answer_to(&session, "what is my name?").await;
    assert!(codex.last_input().contains("my name is Ada"));
    codex.end(session).await;
}

// peer: N2
#[tokio::test]
async fn a_thread_that_is_not_there_cannot_be_taken_up() {
    let codex = RealCodex::new().await;
    let unknown = ThreadId("01a1e0af-0000-7000-8000-000000000000".to_owned());
    let failure = refused(Session::resume(codex.config(), codex.stdio(), None, unknown).await);
    assert_eq!(failure.kind, FailureKind::Startup);
    assert!(failure.message.contains("no rollout found"), "{failure}");
    codex.home.assert_no_processes().await;
}

fn refused(opened: Result<Session, Failure>) -> Failure {
    match opened {
        Ok(_) => panic!("the thread was opened"),
        Err(failure) => failure,
    }
}

#[tokio::test]
async fn a_thread_that_another_process_holds_names_the_holder() {
    let codex = RealCodex::new().await;
    let holding = codex.open(None).await;
    answer_to(&holding, "mine").await;
    let thread = thread_of(&holding).await;
    let pid = holding.status().await.child_pid.unwrap();

    let failure = refused(Session::resume(codex.config(), codex.stdio(), None, thread.clone()).await);
    assert_eq!(failure.kind, FailureKind::ThreadBusy { holder_pid: Some(pid) });
    assert!(failure.message.contains("already has an active writer"), "{failure}");
    assert!(failure.message.contains(&format!("process {pid}")), "{failure}");
    assert_eq!(answer_to(&holding, "still mine").await, "You said: still mine");

    holding.close().await;
    let session = Session::resume(codex.config(), codex.stdio(), None, thread).await.unwrap();
    answer_to(&session, "now mine").await;
    codex.end(session).await;
}

async fn branch(codex: &RealCodex, session: Session) -> [Session; 2] {
    answer_to(&session, "the root").await;
    let fork = soon(session.fork()).await.unwrap();
    assert_ne!(thread_of(&fork).await, thread_of(&session).await);
    answer_to(&session, "in the trunk").await;
    assert!(codex.last_input().contains("the root"));
    answer_to(&fork, "in the branch").await;
    let told = codex.last_input();
    assert!(told.contains("the root") && !told.contains("in the trunk"), "{told}");
    answer_to(&session, "in the trunk again").await;
    let told = codex.last_input();
    assert!(told.contains("in the trunk") && !told.contains("in the branch"), "{told}");
    [session, fork]
}

#[tokio::test]
async fn a_branch_knows_the_past_and_the_trunk_goes_on() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    let [session, fork] = branch(&codex, session).await;
    session.close().await;
    codex.end(fork).await;
}

#[tokio::test]
async fn a_branch_without_a_turn_of_its_own_is_kept() {
    let codex = RealCodex::new().await;
    let session = codex.open(None).await;
    answer_to(&session, "the root").await;
    let fork = soon(session.fork()).await.unwrap();
    let thread = thread_of(&fork).await;
    fork.close().await;
    let fork = Session::resume(codex.config(), codex.stdio(), None, thread).await.unwrap();
    answer_to(&fork, "in the branch").await;
    assert!(codex.last_input().contains("the root"));
    session.close().await;
    codex.end(fork).await;
}

#[tokio::test]
async fn a_branch_lives_on_the_host_of_its_trunk() {
    let codex = RealCodex::new().await;
    let session = codex.start_on_host(None).await;
    for session in branch(&codex, session).await {
        session.close().await;
    }
    codex.end_host().await;
}

// peer: S23, S25
#[tokio::test]
async fn a_summary_takes_the_place_of_the_history() {
    let codex = RealCodex::new().await;
    codex.model.script_containing(COMPACTION_PROMPT, Scenario::new().say("Ada was introduced."));
    let session = codex.open(None).await;
    assert!(!completed(soon(session.run_turn("I am Ada", TurnOptions::default())).await).compacted);
    let result = completed(soon(session.compact(TurnOptions::default())).await);
    assert!(result.compacted && result.turn_id.is_some());
    answer_to(&session, "who am I?").await;
    let told = codex.last_input();
    assert!(told.contains("Ada was introduced."), "{told}");
    assert!(!told.contains("You said: I am Ada"), "{told}");
    codex.end(session).await;
}

// peer: S29
#[tokio::test]
async fn a_summary_that_fails_leaves_the_session_usable() {
    let codex = RealCodex::new().await;
    let broken = Scenario::new().respond(scripted_model::Response::internal_error());
    codex.model.script_containing(COMPACTION_PROMPT, broken);
    let session = codex.open(None).await;
    answer_to(&session, "hello").await;
    let result = soon(session.compact(TurnOptions::default())).await;
    let error = result.error.unwrap();
    assert_eq!((error.kind, result.should_retire, result.compacted), (FailureKind::Provider, false, false));
    assert_eq!(answer_to(&session, "hello again").await, "You said: hello again");
    codex.end(session).await;
}
