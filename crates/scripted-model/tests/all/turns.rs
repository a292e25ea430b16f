//! What surrounds a turn: steering, compaction, interruption, the record of requests.

use scripted_model::{CodexConfig, Scenario, ScriptedModel};
use serde_json::json;

use crate::codex::Codex;

#[tokio::test]
async fn a_steer_chooses_the_next_scenario() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("long", Scenario::new().delta("Working").stall("never"));
    model.script("hurry", Scenario::new().say("Hurried."));
    let mut codex = Codex::start(&model).await;

    codex.prompt("long").await;
    let delta = codex.wait_for("item/agentMessage/delta").await;
    let steer = json!({
        "threadId": codex.thread_id,
        "expectedTurnId": delta["params"]["turnId"],
        "input": [{"type": "text", "text": "hurry"}],
    });
    codex.request("turn/steer", steer).await;
    codex.wait_for("turn/completed").await;

    assert_eq!(codex.items("agentMessage").last().unwrap()["text"], "Hurried.");
    let prompts: Vec<_> = model.requests().iter().map(|request| request.prompt().unwrap()).collect();
    assert_eq!(prompts, ["long", "hurry"]);
    codex.end().await;
}

#[tokio::test]
async fn a_turn_after_an_interrupt_plays_its_own_scenario() {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;

    codex.prompt("[play] exec true => stall never").await;
    model.wait_for_stall("never").await;
    codex.request("turn/interrupt", json!({"threadId": codex.thread_id, "turnId": ""})).await;
    let interrupted = codex.wait_for("turn/completed").await;
    let turn = codex.run("[play] exec true => say Fresh.").await;

    assert_eq!(interrupted["params"]["turn"]["status"], "interrupted");
    assert_eq!(turn["items"][0]["text"], "Fresh.");
    codex.end().await;
}

#[tokio::test]
async fn a_compaction_gets_a_summary_and_the_thread_goes_on() {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;

    codex.run("hello").await;
    codex.request("thread/compact/start", json!({"threadId": codex.thread_id})).await;
    codex.wait_for("turn/completed").await;
    let turn = codex.run("after").await;

    assert_eq!(codex.items("contextCompaction").len(), 1);
    assert_eq!(turn["items"][0]["text"], "You said: after");
    codex.end().await;
}

#[tokio::test]
async fn requests_are_shown_with_their_headers_and_ids() {
    let model = ScriptedModel::start().await.unwrap();
    let config = CodexConfig::new(model.base_url()).env_key("SCRIPTED_KEY");
    let mut codex = Codex::start_with(config, json!({})).await;

    let turn = codex.run("hello").await;

    let request = model.wait_for_request(0).await;
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/responses"));
    assert_eq!(request.headers["authorization"], "Bearer sk-scripted");
    assert_eq!(request.thread_id(), Some(codex.thread_id.as_str()));
    assert_eq!(request.turn_id(), turn["id"].as_str());
    assert_eq!(request.body["model"], scripted_model::MODEL);
    assert_eq!(model.requests().len(), 1, "codex asks for nothing but responses");
    codex.end().await;
}
