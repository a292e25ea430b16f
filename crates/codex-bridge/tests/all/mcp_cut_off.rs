//! MCP calls that are cut off: the task continues, and a repeated call finds it.

use serde_json::json;

use crate::shell::Shell;

const STALLING: &str = "go [play] delta Once => stall here => say upon a time.";

#[tokio::test]
async fn a_call_that_was_cancelled_goes_on_and_is_found_by_its_name() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let call = json!({"prompt": STALLING, "client_request_id": "mine"});
    let id = mcp.begin("codex", call.clone()).await;
    shell.model.wait_for_stall("here").await;
    mcp.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "timeout"}})).await;
    let running = shell.run(&["--json", "ps"]).await.ok().json();
    assert_eq!(
        (running.as_array().unwrap().len(), &running[0]["status"]),
        (1, &json!("working")),
        "{running:#}"
    );
    shell.model.release("here");
    let found = mcp.tool("codex", call).await;
    assert_eq!(found["structuredContent"]["content"], "upon a time.", "{found:#}");
    assert_eq!(found["structuredContent"]["taskId"], running[0]["task_id"]);
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_server_that_was_killed_leaves_the_work_to_be_found_by_a_name_it_made_up() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let id = mcp.begin("codex", json!({"prompt": STALLING})).await;
    let told = mcp.progress(id, "client_request_id").await;
    let name = told.split('"').nth(1).unwrap().to_owned();
    shell.model.wait_for_stall("here").await;
    mcp.kill().await;
    shell.model.release("here");
    let mut next = shell.mcp(json!({})).await;
    let found = next.tool("codex", json!({"prompt": STALLING, "client_request_id": name})).await;
    assert_eq!(found["structuredContent"]["content"], "upon a time.", "{found:#}");
    assert_eq!(shell.run(&["--json", "ps", "--all"]).await.ok().json().as_array().unwrap().len(), 1);
    next.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_reply_that_is_repeated_under_its_name_gives_no_second_turn() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let first =
        mcp.tool("codex", json!({"prompt": "hello [play] say Hello.", "client_request_id": "first"})).await;
    let thread = &first["structuredContent"]["threadId"];
    let call = json!({"threadId": thread, "prompt": STALLING, "client_request_id": "second"});
    mcp.begin("codex-reply", call.clone()).await;
    shell.model.wait_for_stall("here").await;
    mcp.kill().await;
    let mut next = shell.mcp(json!({})).await;
    // Somebody else's reply has to wait.
    let busy = next.tool("codex-reply", json!({"threadId": thread, "prompt": "more"})).await;
    assert_eq!(busy["structuredContent"]["code"], "wrong_state", "{busy:#}");
    let again = next.begin("codex-reply", call).await;
    next.progress(again, "second").await;
    shell.model.release("here");
    assert_eq!(next.result(again).await["structuredContent"]["content"], "upon a time.");
    // Each call has its own answer for good.
    let repeated =
        next.tool("codex", json!({"prompt": "hello [play] say Hello.", "client_request_id": "first"})).await;
    assert_eq!(repeated["structuredContent"]["content"], "Hello.");
    let sent = shell.model.requests().iter().filter(|it| it.prompt().as_deref() == Some(STALLING)).count();
    assert_eq!(sent, 1, "the prompt was sent {sent} times");
    next.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_daemon_that_dies_under_a_call_costs_it_nothing() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let id = mcp.begin("codex", json!({"prompt": STALLING})).await;
    shell.model.wait_for_stall("here").await;
    mcp.progress(id, "working").await;
    shell.kill_daemon();
    shell.model.release("here");
    let result = mcp.result(id).await;
    assert_eq!(result["structuredContent"]["content"], "upon a time.", "{result:#}");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_server_whose_client_has_gone_goes_too_and_the_work_goes_on() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    mcp.begin("codex", json!({"prompt": STALLING})).await;
    shell.model.wait_for_stall("here").await;
    let began = std::time::Instant::now();
    mcp.end().await;
    // Answers that are under way have five seconds, for those who pipe their calls in and close at once.
    assert!(began.elapsed().as_secs() < 15, "it stayed for {:?}", began.elapsed());
    let running = shell.run(&["--json", "ps"]).await.ok().json();
    assert_eq!(running[0]["status"], "working", "{running:#}");
    shell.model.release("here");
    shell.run(&["wait", running[0]["task_id"].as_str().unwrap(), "--timeout", "120"]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn a_line_that_is_no_json_and_a_very_long_prompt_break_nothing() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    mcp.send(json!("not a message")).await;
    mcp.write("{\"jsonrpc\": \"2.0\", \"id\": 7, \"met\n").await;
    let prompt = format!("{} [play] say Hello.", "x".repeat(2_000_000));
    let done = mcp.tool("codex", json!({"prompt": prompt})).await;
    assert!(done["structuredContent"]["content"].is_string(), "{done:#}");
    mcp.end().await;
    shell.end().await;
}
