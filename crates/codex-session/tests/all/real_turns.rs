//! Turns on the real Codex.

use std::sync::Arc;

use codex_session::{Ask, Decision, Session, TurnOptions, TurnOutcome};
use codex_wire::host::{Found, Stop, find};
use scripted_model::Scenario;

use crate::workbench::RealCodex;

#[tokio::test]
async fn a_prompt_gives_its_answer() {
    let codex = RealCodex::new().await;
    codex.model.script("hello", Scenario::new().say("Hello there."));
    let session = codex.start(None).await;
    let result = session.run_turn("hello", TurnOptions::default()).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    assert_eq!(result.final_text, "Hello there.");
    assert!(result.turn_id.is_some() && result.thread_id.is_some() && result.usage.is_some());
    session.close().await;
    codex.home.assert_no_processes().await;
}

#[tokio::test]
async fn a_session_on_a_host_asks_and_leaves_the_host_running() {
    let codex = RealCodex::new().await;
    codex.model.script("make x", Scenario::new().exec("touch x.txt && echo made").then_say("made it"));
    let approver = Arc::new(|ask: Ask| async move {
        assert!(ask.text().contains("touch x.txt"), "{}", ask.text());
        Decision::Accept
    });
    let session = Session::start(codex.config(), codex.on_host(), Some(approver)).await.unwrap();
    let result = session.run_turn("make x", TurnOptions::default()).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
    assert_eq!((result.final_text.as_str(), result.tool_iterations), ("made it", 1));
    session.close().await;
    let Some(Found::Alive(host)) = find(&codex.launch().dir).unwrap() else { panic!("the host is gone") };
    host.stop(Stop::Now).await.unwrap();
    codex.home.assert_no_processes().await;
}
