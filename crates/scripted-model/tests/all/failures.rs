//! Failures of the model: what each becomes on the turn.

use std::time::{Duration, Instant};

use scripted_model::{CodexConfig, Response, Scenario, ScriptedModel};
use serde_json::{Value, json};

use crate::codex::Codex;

/// Plays each scenario as a turn of one thread, in the given order, and checks the error of the failed turn.
async fn check(cases: Vec<(&str, Scenario, Value)>) -> Codex {
    let model = ScriptedModel::start().await.unwrap();
    let mut codex = Codex::start(&model).await;
    for (name, scenario, expected) in cases {
        model.script(name, scenario);
        let turn = codex.run(name).await;
        assert_eq!(turn["status"], "failed", "{name}: {turn}");
        assert_eq!(turn["error"]["codexErrorInfo"], expected, "{name}: {}", turn["error"]);
    }
    let turn = codex.run("still there?").await;
    assert_eq!(turn["status"], "completed", "the thread stays usable: {turn}");
    codex
}

fn answer(response: Response) -> Scenario {
    Scenario::new().respond(response)
}

#[tokio::test]
async fn refusals_by_status_fail_the_turn_with_their_kind() {
    let http_failed = |status: u16| json!({"httpConnectionFailed": {"httpStatusCode": status}});
    let cases = vec![
        ("400", answer(Response::http(400, json!({"error": {"message": "no"}}))), json!("other")),
        ("401", answer(Response::unauthorized()), http_failed(401)),
        ("403", answer(Response::forbidden()), http_failed(403)),
        ("404", answer(Response::model_not_found()), json!("modelNotFound")),
        (
            "429",
            answer(Response::too_many_requests(Duration::from_secs(1))),
            json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
        ),
        ("quota", answer(Response::insufficient_quota()), json!("usageLimitExceeded")),
        ("500", answer(Response::internal_error()), json!("internalServerError")),
        ("503", answer(Response::http(503, json!({}))), http_failed(503)),
        ("overloaded", answer(Response::overloaded()), json!("serverOverloaded")),
    ];
    check(cases).await.end().await;
}

#[tokio::test]
async fn a_failed_or_broken_stream_fails_the_turn_with_its_kind() {
    let cases = vec![
        ("context", answer(Response::context_length_exceeded()), json!("contextWindowExceeded")),
        ("rate", answer(Response::rate_limit_exceeded()), json!("rateLimitExceeded")),
        ("server", answer(Response::server_error()), json!("other")),
        ("incomplete", Scenario::new().say("Half").incomplete("max_output_tokens"), json!("other")),
        ("cut", Scenario::new().delta("Half").cut(), json!("other")),
        ("no end", Scenario::new().say("Whole.").end_early(), json!("other")),
    ];
    let codex = check(cases).await;
    let deltas = codex.notified("item/agentMessage/delta");
    let cut = deltas.iter().filter(|delta| delta["delta"] == "Half").count();
    assert_eq!(cut, 2, "what was said before a cut arrives: {deltas:?}");
    codex.end().await;
}

#[tokio::test]
async fn a_usage_limit_tells_when_it_resets() {
    let limit = answer(Response::usage_limit_reached(Duration::from_hours(1)));
    let codex = check(vec![("limit", limit, json!("usageLimitExceeded"))]).await;
    let limits = codex.notified("account/rateLimits/updated");
    let primary = &limits.first().expect("rate limits")["rateLimits"]["primary"];
    assert!(primary["resetsAt"].is_u64(), "{limits:?}");
    assert_eq!(primary["usedPercent"], 100);
    codex.end().await;
}

#[tokio::test]
async fn a_line_that_is_no_event_is_skipped() {
    let model = ScriptedModel::start().await.unwrap();
    let scenario = Scenario::new()
        .line("data: {this is not json")
        .event(json!({"type": "response.unheard_of"}))
        .say("Whole.");
    model.script("garbage", scenario);
    let mut codex = Codex::start(&model).await;

    let turn = codex.run("garbage").await;

    assert_eq!(turn["status"], "completed");
    assert_eq!(codex.items("agentMessage")[0]["text"], "Whole.");
    codex.end().await;
}

#[tokio::test]
async fn a_request_that_fails_twice_succeeds_at_the_third_try() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("flaky", Scenario::new().respond(Response::internal_error()).times(2).say("At last."));
    let config = CodexConfig::new(model.base_url()).retries(3, 0);
    let mut codex = Codex::start_with(config, json!({})).await;

    let turn = codex.run("flaky").await;

    assert_eq!(turn["status"], "completed", "{turn}");
    assert_eq!(codex.items("agentMessage")[0]["text"], "At last.");
    assert_eq!(model.requests().len(), 3);
    codex.end().await;
}

#[tokio::test]
async fn codex_waits_as_long_as_retry_after_says() {
    let model = ScriptedModel::start().await.unwrap();
    let busy = Response::too_many_requests(Duration::from_secs(2));
    model.script("busy", Scenario::new().respond(busy).times(1).say("Now."));
    let config = CodexConfig::new(model.base_url()).retries(1, 1);
    let mut codex = Codex::start_with(config, json!({})).await;

    codex.prompt("busy").await;
    model.wait_for_request(0).await;
    let refused = Instant::now();
    model.wait_for_request(1).await;

    assert!(refused.elapsed() >= Duration::from_millis(1500), "tried again after {:?}", refused.elapsed());
    codex.wait_for("turn/completed").await;
    assert_eq!(codex.items("agentMessage")[0]["text"], "Now.");
    codex.end().await;
}

#[tokio::test]
async fn a_cut_stream_is_tried_again_and_leaves_two_messages() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("cut", Scenario::new().say("First.").cut().times(1).say("Second."));
    let config = CodexConfig::new(model.base_url()).retries(0, 1);
    let mut codex = Codex::start_with(config, json!({})).await;

    let turn = codex.run("cut").await;

    assert_eq!(turn["status"], "completed", "{turn}");
    let texts: Vec<_> = codex.items("agentMessage").iter().map(|m| m["text"].clone()).collect();
    assert_eq!(texts, ["First.", "Second."]);
    assert_eq!(codex.notified("error")[0]["willRetry"], true);
    codex.end().await;
}
