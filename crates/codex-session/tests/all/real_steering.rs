//! Steering turns of the real Codex: while it writes, while it waits for a person, when nothing runs.

use codex_session::{Decision, Session, SteerOutcome, TurnOptions, TurnResult};
use scripted_model::Scenario;
use scripted_model::scenario::COMPACTION_PROMPT;
use tokio::task::JoinHandle;

use crate::real_parts::{Person, answer_to, completed};
use crate::workbench::{RealCodex, soon};

fn begin(session: &Session, prompt: &'static str) -> JoinHandle<TurnResult> {
    let session = session.clone();
    tokio::spawn(async move { session.run_turn(prompt, TurnOptions::default()).await })
}

#[tokio::test]
async fn a_steer_in_mid_stream_changes_the_turns_course() {
    let codex = RealCodex::new().await;
    codex.model.script("go straight on", Scenario::new().delta("I go straight").stall("gate"));
    codex.model.script("turn left", Scenario::new().say("Turned left."));
    let session = codex.open(None).await;
    let turn = begin(&session, "go straight on");
    soon(codex.model.wait_for_stall("gate")).await;
    assert_eq!(soon(session.steer("turn left")).await, SteerOutcome::Accepted);
    let result = completed(soon(turn).await.unwrap());
    assert_eq!(result.final_text, "Turned left.");
    assert!(codex.last_input().contains("go straight on"));
    assert_eq!(codex.turns_asking("turn left").len(), 1);
    assert_eq!(codex.turns_asking("turn left"), codex.turns_asking("go straight on"));
    // What the program itself said is no news to it.
    let said = serde_json::to_string(&result.projected_messages).unwrap();
    assert!(!said.contains("turn left"), "{said}");
    codex.end(session).await;
}

#[tokio::test]
async fn a_steer_right_after_the_prompt_waits_for_the_turn() {
    let codex = RealCodex::new().await;
    codex.model.script("go", Scenario::new().stall("gate").say("Went."));
    codex.model.script("turn left", Scenario::new().say("Turned left."));
    let session = codex.open(None).await;
    let turn = session.run_turn("go", TurnOptions::default());
    let steering = async {
        assert_eq!(soon(session.steer("turn left")).await, SteerOutcome::Accepted);
        codex.model.release("gate");
    };
    let (result, ()) = tokio::join!(soon(turn), steering);
    assert_eq!(completed(result).final_text, "Turned left.");
    codex.end(session).await;
}

#[tokio::test]
async fn a_steer_while_a_person_is_asked_counts_after_the_answer() {
    let codex = RealCodex::new().await;
    codex.model.script("make it", Scenario::new().exec("touch made.txt").then_say("made it"));
    codex.model.script("and tell me", Scenario::new().say("I tell you."));
    let person = Person::silent();
    let session = codex.open(person.approver()).await;
    let turn = begin(&session, "make it");
    person.asked(1).await;
    assert_eq!(soon(session.steer("and tell me")).await, SteerOutcome::Accepted);
    assert!(!codex.made("made.txt") && codex.turns_asking("and tell me").is_empty());
    person.say(Decision::Accept);
    let result = completed(soon(turn).await.unwrap());
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("I tell you.", 1));
    assert!(codex.made("made.txt"));
    codex.end(session).await;
}

#[tokio::test]
async fn what_cannot_be_steered_says_so() {
    let codex = RealCodex::new().await;
    codex.model.script_containing(COMPACTION_PROMPT, Scenario::new().stall("gate").say("a summary"));
    let session = codex.open(None).await;
    assert_eq!(session.steer("left").await, SteerOutcome::NoActiveTurn);
    answer_to(&session, "hello").await;
    assert_eq!(session.steer("left").await, SteerOutcome::NoActiveTurn);
    let compacting = tokio::spawn({
        let session = session.clone();
        async move { session.compact(TurnOptions::default()).await }
    });
    soon(codex.model.wait_for_stall("gate")).await;
    assert_eq!(soon(session.steer("left")).await, SteerOutcome::NotSteerable);
    codex.model.release("gate");
    assert!(completed(soon(compacting).await.unwrap()).compacted);
    codex.end(session).await;
}
