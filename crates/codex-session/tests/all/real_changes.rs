//! File change approvals on the real Codex: each decision, and what becomes of the files.

use codex_session::{Decision, Session, TurnOptions};
use scripted_model::{Scenario, ToolCall};

use crate::real_parts::{Person, answer_to, interrupted};
use crate::workbench::{RealCodex, soon};

fn add(file: &str) -> Scenario {
    Scenario::new().call(ToolCall::add_file(file, "hello\nworld")).then_say("went on")
}

// peer: S40
#[tokio::test]
async fn accepted_changes_are_made_and_were_shown_in_sum() {
    let codex = RealCodex::new().await;
    std::fs::write(codex.home.workspace().join("old.txt"), "line1\nline2\n").unwrap();
    std::fs::write(codex.home.workspace().join("gone.txt"), "x\n").unwrap();
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+hello\n*** Update File: old.txt\n@@\n-line1\n+line one\n line2\n*** Delete File: gone.txt\n*** End Patch\n";
    codex.model.script("change", Scenario::new().apply_patch(patch).then_say("changed"));
    let person = Person::saying([Decision::Accept]);
    let session = codex.open(person.approver()).await;
    let mut events = session.events();
    assert_eq!(answer_to(&session, "change").await, "changed");
    assert_eq!(codex.lines_of("new.txt"), ["hello"]);
    assert_eq!(codex.lines_of("old.txt"), ["line one", "line2"]);
    assert!(!codex.made("gone.txt"));
    let [text] = person.texts().try_into().expect("one question");
    for part in ["1 add", "1 update", "1 delete", "new.txt", "old.txt", "gone.txt"] {
        assert!(text.contains(part), "{part:?} is not in\n{text}");
    }
    let told = crate::workbench::whole_turn(&mut events).await;
    let is_diff = |event: &codex_session::SessionEvent| matches!(event, codex_session::SessionEvent::Diff { diff } if diff.contains("+line one"));
    assert!(told.iter().any(is_diff), "{told:#?}");
    codex.end(session).await;
}

#[tokio::test]
async fn changes_accepted_for_the_session_are_not_asked_again_for_the_same_file() {
    let codex = RealCodex::new().await;
    let update = |from: &str, to: &str| {
        let patch = format!("*** Begin Patch\n*** Update File: a.txt\n@@\n-{from}\n+{to}\n*** End Patch\n");
        Scenario::new().apply_patch(patch).then_say("went on")
    };
    std::fs::write(codex.home.workspace().join("a.txt"), "one\n").unwrap();
    codex.model.script("first", update("one", "two"));
    codex.model.script("second", update("two", "three"));
    codex.model.script("other", add("b.txt"));
    let person = Person::saying([Decision::AcceptForSession, Decision::Decline]);
    let session = codex.open(person.approver()).await;
    for prompt in ["first", "second"] {
        assert_eq!(answer_to(&session, prompt).await, "went on");
    }
    assert_eq!(person.texts().len(), 1);
    assert_eq!(codex.lines_of("a.txt"), ["three"]);
    assert_eq!(answer_to(&session, "other").await, "went on");
    assert_eq!(person.texts().len(), 2);
    assert!(!codex.made("b.txt"));
    codex.end(session).await;
}

// peer: T9
#[tokio::test]
async fn declined_changes_are_not_made_and_cancelled_ones_end_the_turn() {
    let codex = RealCodex::new().await;
    codex.model.script("add", add("a.txt"));
    let person = Person::saying([Decision::Decline, Decision::Cancel, Decision::Accept]);
    let session = codex.open(person.approver()).await;
    assert_eq!(answer_to(&session, "add").await, "went on");
    assert!(!codex.made("a.txt"));
    interrupted(soon(session.run_turn("add", TurnOptions::default())).await);
    assert!(!codex.made("a.txt"));
    assert_eq!(answer_to(&session, "add").await, "went on");
    assert_eq!(codex.lines_of("a.txt"), ["hello", "world"]);
    codex.end(session).await;
}

#[tokio::test]
async fn with_nobody_to_ask_changes_are_made_only_if_the_operator_accepts_them() {
    let codex = RealCodex::new().await;
    codex.model.script("add", add("a.txt"));
    let session = codex.open(None).await;
    assert_eq!(answer_to(&session, "add").await, "went on");
    assert!(!codex.made("a.txt"));
    codex.end(session).await;

    let mut config = codex.writing();
    config.approvals.accept_commands = true;
    let session = Session::start(config.clone(), codex.stdio(), None).await.unwrap();
    assert_eq!(answer_to(&session, "add").await, "went on");
    assert!(!codex.made("a.txt"), "accepting commands accepts no changes");
    codex.end(session).await;

    config.approvals.accept_file_changes = true;
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    assert_eq!(answer_to(&session, "add").await, "went on");
    assert!(codex.made("a.txt"));
    codex.end(session).await;
}
