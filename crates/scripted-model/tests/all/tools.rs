//! Tool calls: what Codex makes of them and what the model gets back.

use scripted_model::{CodexConfig, Question, Scenario, ScriptedModel, ToolCall, scenario};
use serde_json::{Value, json};

use crate::codex::Codex;

/// A thread in which every command and patch is asked for.
async fn untrusting(model: &ScriptedModel) -> Codex {
    Codex::start_with(CodexConfig::new(model.base_url()), json!({"approvalPolicy": "untrusted"})).await
}

fn accept(_: &Value) -> Value {
    json!({"decision": "accept"})
}

fn method(message: &Value) -> &str {
    message["method"].as_str().unwrap()
}

/// The text of the last tool output that the model got.
fn last_output(model: &ScriptedModel) -> String {
    model.requests().last().unwrap().last_tool_output().expect("a tool output")
}

#[tokio::test]
async fn an_accepted_command_runs_and_its_output_reaches_the_model() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("make", Scenario::new().say("I will.").then_exec("echo hi > x && cat x").then_say("Done."));
    let mut codex = untrusting(&model).await;

    let asked = codex.run_answering("make", accept).await;

    assert_eq!(method(&asked[0]), "item/commandExecution/requestApproval");
    let item = &codex.items("commandExecution")[0];
    assert_eq!(item["id"], asked[0]["params"]["itemId"]);
    assert_eq!(item["aggregatedOutput"], "hi\n");
    assert!(codex.work().join("x").exists());
    let requests = model.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(item["id"], requests[1].tool_outputs()[0].0);
    assert!(last_output(&model).ends_with("hi\n"), "{}", last_output(&model));
    assert_eq!(codex.items("agentMessage").last().unwrap()["text"], "Done.");
    codex.end().await;
}

#[tokio::test]
async fn an_escalated_command_carries_its_reason() {
    let model = ScriptedModel::start().await.unwrap();
    model
        .script("up", Scenario::new().call(ToolCall::exec_escalated("echo out", "May I?")).then_say("Done."));
    let thread = json!({"approvalPolicy": "on-request", "sandbox": "workspace-write"});
    let mut codex = Codex::start_with(CodexConfig::new(model.base_url()), thread).await;

    let asked = codex.run_answering("up", accept).await;

    assert_eq!(asked[0]["params"]["reason"], "May I?");
    codex.end().await;
}

#[tokio::test]
async fn a_patch_becomes_a_file_change() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("patch", Scenario::new().call(ToolCall::add_file("new.txt", "one\ntwo")).then_say("Done."));
    let mut codex = untrusting(&model).await;

    let asked = codex.run_answering("patch", accept).await;

    assert_eq!(method(&asked[0]), "item/fileChange/requestApproval");
    let item = &codex.items("fileChange")[0];
    assert_eq!(item["status"], "completed");
    assert_eq!(item["changes"][0]["diff"], "one\ntwo\n");
    assert_eq!(std::fs::read_to_string(codex.work().join("new.txt")).unwrap(), "one\ntwo\n");
    assert!(last_output(&model).contains("A new.txt"), "{}", last_output(&model));
    codex.end().await;
}

#[tokio::test]
async fn two_calls_in_one_response_are_one_round() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("both", Scenario::new().exec("echo one").exec("echo two").then_say("Done."));
    let mut codex = untrusting(&model).await;
    codex.prompt("both").await;

    let first = codex.wait_for("item/commandExecution/requestApproval").await;
    let second = codex.wait_for("item/commandExecution/requestApproval").await;
    codex.answer(&second, accept(&second)).await;
    codex.answer(&first, accept(&first)).await;
    codex.wait_for("turn/completed").await;

    assert_eq!(codex.items("commandExecution").len(), 2);
    assert_eq!(model.requests().len(), 2);
    assert_eq!(model.requests()[1].tool_outputs().len(), 2);
    codex.end().await;
}

#[tokio::test]
async fn a_question_reaches_the_user_and_its_answer_the_model() {
    let model = ScriptedModel::start().await.unwrap();
    let ask = ToolCall::request_user_input(&[Question::yes_no("sure", "Are you sure?")]);
    model.script("ask", Scenario::new().call(ask).then_say("Done."));
    let config = CodexConfig::new(model.base_url()).feature("default_mode_request_user_input", true);
    let mut codex = Codex::start_with(config, json!({})).await;

    let answers = json!({"answers": {"sure": {"answers": ["Yes"]}}});
    let asked = codex.run_answering("ask", |_| answers.clone()).await;

    assert_eq!(method(&asked[0]), "item/tool/requestUserInput");
    assert_eq!(asked[0]["params"]["questions"][0]["question"], "Are you sure?");
    assert_eq!(serde_json::from_str::<Value>(&last_output(&model)).unwrap(), answers);
    codex.end().await;
}

#[tokio::test]
async fn a_wish_for_permissions_is_asked_for() {
    let model = ScriptedModel::start().await.unwrap();
    let wish = ToolCall::request_permissions(&json!({"network": {"enabled": true}}), "to fetch");
    model.script("wish", Scenario::new().call(wish).then_say("Done."));
    let config = CodexConfig::new(model.base_url()).feature("request_permissions_tool", true);
    let thread = json!({"approvalPolicy": "on-request", "sandbox": "workspace-write"});
    let mut codex = Codex::start_with(config, thread).await;

    let asked = codex.run_answering("wish", |_| json!({"permissions": {}})).await;

    assert_eq!(method(&asked[0]), "item/permissions/requestApproval");
    assert_eq!(asked[0]["params"]["reason"], "to fetch");
    assert_eq!(asked[0]["params"]["permissions"]["network"]["enabled"], true);
    codex.end().await;
}

#[tokio::test]
async fn tools_of_an_mcp_server_peek_poke_and_ask() {
    let model = ScriptedModel::start().await.unwrap();
    let call = |tool: &str| ToolCall::mcp("tiny", tool, json!({"text": "it"}));
    let turn = Scenario::new().call(call("peek")).then_call(call("poke")).then_call(call("ask"));
    model.script("mcp", turn.then_say("Done."));
    let program = env!("CARGO_BIN_EXE_scripted-model");
    let config = CodexConfig::new(model.base_url()).mcp_server("tiny", program, &["mcp-server"]);
    let mut codex = Codex::start_with(config, json!({"approvalPolicy": "untrusted"})).await;

    let accepted = json!({"action": "accept", "content": {"answer": "42"}, "_meta": null});
    let asked = codex.run_answering("mcp", |_| accepted.clone()).await;

    let of_what: Vec<_> =
        asked.iter().map(|ask| ask["params"]["_meta"]["codex_approval_kind"].clone()).collect();
    assert_eq!(of_what, [json!("mcp_tool_call"), json!(null)], "to peek is free, to poke is asked for");
    assert_eq!(asked[1]["params"]["message"], "it");
    let said: Vec<_> =
        codex.items("mcpToolCall").iter().map(|item| item["result"]["content"][0]["text"].clone()).collect();
    assert_eq!(said[..2], ["peeked at it", "poked it"]);
    assert!(said[2].as_str().unwrap().contains("42"), "{said:?}");
    codex.end().await;
}

#[tokio::test]
async fn dynamic_tools_are_called_with_and_without_a_namespace() {
    let model = ScriptedModel::start().await.unwrap();
    let plain = ToolCall::function("lookup", json!({"q": "a"}));
    let spaced = ToolCall::namespaced("space", "find", json!({"q": "b"}));
    model.script("look", Scenario::new().call(plain).then_call(spaced).then_say("Done."));
    let tool = |name: &str| json!({"type": "function", "name": name, "description": "d", "inputSchema": {"type": "object"}});
    let space = json!({"type": "namespace", "name": "space", "description": "d", "tools": [tool("find")]});
    let thread = json!({"dynamicTools": [tool("lookup"), space]});
    let mut codex = Codex::start_with(CodexConfig::new(model.base_url()), thread).await;

    let found = json!({"contentItems": [{"type": "inputText", "text": "found"}], "success": true});
    let asked = codex.run_answering("look", |_| found.clone()).await;

    let calls: Vec<_> =
        asked.iter().map(|ask| (&ask["params"]["namespace"], &ask["params"]["tool"])).collect();
    assert_eq!(calls, [(&json!(null), &json!("lookup")), (&json!("space"), &json!("find"))]);
    assert_eq!(asked[1]["params"]["arguments"], json!({"q": "b"}));
    assert_eq!(last_output(&model), "found");
    let offered = model.requests()[0].tool_names();
    for name in ["exec_command", "apply_patch", "lookup", "space/find"] {
        assert!(offered.iter().any(|tool| tool == name), "{name} is not among {offered:?}");
    }
    codex.end().await;
}

#[tokio::test]
async fn an_automatic_reviewer_gets_its_own_script() {
    let model = ScriptedModel::start().await.unwrap();
    let thread = json!({"approvalPolicy": "on-request", "sandbox": "workspace-write", "approvalsReviewer": "auto_review"});
    let mut codex = Codex::start_with(CodexConfig::new(model.base_url()), thread).await;

    codex.run("[play] escalate echo one => say Done.").await;
    model.script_containing(scenario::REVIEW_PROMPT, Scenario::new().say(r#"{"outcome": "allow"}"#));
    codex.run("[play] escalate echo two => say Done.").await;

    let states: Vec<_> = codex.items("commandExecution").iter().map(|item| item["status"].clone()).collect();
    assert_eq!(states, ["declined", "completed"]);
    codex.end().await;
}
