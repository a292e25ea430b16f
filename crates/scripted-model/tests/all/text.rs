//! Messages, reasoning, usage: what a turn without tools shows.

use scripted_model::{Phase, Scenario, ScriptedModel, Usage};
use serde_json::json;

use crate::codex::Codex;

#[tokio::test]
async fn text_arrives_in_its_chunks_and_phases() {
    let model = ScriptedModel::start().await.unwrap();
    let scenario = Scenario::new()
        .say_as(Phase::Commentary, "On my way.")
        .say_in_chunks(["One ", "two ", "three."])
        .say_as(Phase::FinalAnswer, "Here.");
    model.script("talk", scenario);
    let mut codex = Codex::start(&model).await;

    let turn = codex.run("talk").await;

    assert_eq!(turn["status"], "completed");
    let messages = codex.items("agentMessage");
    let texts: Vec<_> = messages.iter().map(|m| (m["text"].clone(), m["phase"].clone())).collect();
    let expected = [
        (json!("On my way."), json!("commentary")),
        (json!("One two three."), json!(null)),
        (json!("Here."), json!("final_answer")),
    ];
    assert_eq!(texts, expected);
    let deltas: Vec<_> =
        codex.notified("item/agentMessage/delta").iter().map(|delta| delta["delta"].clone()).collect();
    assert_eq!(deltas, ["On my way.", "One ", "two ", "three.", "Here."]);
    codex.end().await;
}

#[tokio::test]
async fn reasoning_shows_its_summary() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("think", Scenario::new().reason("I weigh it.").say("Done."));
    let mut codex = Codex::start(&model).await;

    codex.run("think").await;

    assert_eq!(codex.items("reasoning")[0]["summary"], json!(["I weigh it."]));
    assert_eq!(codex.notified("item/reasoning/summaryTextDelta")[0]["delta"], "I weigh it.");
    codex.end().await;
}

#[tokio::test]
async fn usage_reaches_the_token_counts_of_the_thread() {
    let model = ScriptedModel::start().await.unwrap();
    let usage = Usage { input: 1234, cached: 1000, output: 56, reasoning: 12 };
    model.script("count", Scenario::new().usage(usage).say("Counted."));
    let mut codex = Codex::start(&model).await;

    codex.run("count").await;

    let last = codex.notified("thread/tokenUsage/updated").pop().unwrap()["tokenUsage"]["last"].clone();
    assert_eq!(last["inputTokens"], 1234);
    assert_eq!(last["cachedInputTokens"], 1000);
    assert_eq!(last["outputTokens"], 56);
    assert_eq!(last["reasoningOutputTokens"], 12);
    assert_eq!(last["totalTokens"], 1290);
    codex.end().await;
}

#[tokio::test]
async fn headers_of_a_response_reach_the_rate_limits() {
    let model = ScriptedModel::start().await.unwrap();
    let scenario = Scenario::new()
        .header("x-codex-primary-used-percent", "42")
        .header("x-codex-primary-window-minutes", "300")
        .say("Nearly half.");
    model.script("limits", scenario);
    let mut codex = Codex::start(&model).await;

    codex.run("limits").await;

    let limits = codex.notified("account/rateLimits/updated").pop().unwrap();
    assert_eq!(limits["rateLimits"]["primary"]["usedPercent"], 42, "{limits}");
    codex.end().await;
}

#[tokio::test]
async fn instructions_of_the_folder_are_no_prompt() {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;
    std::fs::write(codex.work().join("AGENTS.md"), "Be brief.").unwrap();
    let start = json!({"cwd": codex.work(), "sandbox": "danger-full-access"});
    let started = codex.request("thread/start", start).await;
    started["thread"]["id"].as_str().unwrap().clone_into(&mut codex.thread_id);

    codex.run("hello").await;

    let request = model.wait_for_request(0).await;
    assert!(request.body.to_string().contains("Be brief."), "codex passes the instructions on");
    assert_eq!(request.prompt().as_deref(), Some("hello"));
    codex.end().await;
}

#[tokio::test]
async fn a_prompt_nobody_scripted_is_repeated() {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;

    codex.run("hello").await;
    codex.run("hello again").await;

    let texts: Vec<_> = codex.items("agentMessage").iter().map(|m| m["text"].clone()).collect();
    assert_eq!(texts, ["You said: hello", "You said: hello again"]);
    codex.end().await;
}

#[tokio::test]
async fn an_unknown_scenario_name_fails_the_turn_with_its_name() {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;

    let turn = codex.run("please [scenario:nothing]").await;

    assert_eq!(turn["status"], "failed");
    let message = turn["error"]["message"].as_str().unwrap();
    assert!(message.contains("no scenario has the name nothing"), "{message}");
    codex.end().await;
}

#[tokio::test]
async fn a_flood_of_deltas_arrives_whole() {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;

    let turn = codex.run("[play] flood 5000").await;

    assert_eq!(turn["status"], "completed");
    assert_eq!(codex.items("agentMessage")[0]["text"].as_str().unwrap().len(), 5000 * "word ".len());
    assert_eq!(codex.notified("item/agentMessage/delta").len(), 5000);
    codex.end().await;
}
