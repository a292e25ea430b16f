//! The scripted server beside the real one: the same client, the same turn, the same messages in the same order.

use scripted_model::scenario::Response;
use scripted_model::{CodexConfig, Question, Scenario, ScriptedModel, ToolCall};
use serde_json::{Value, json};
use testkit::ScriptedServer;
use testkit::rig::Home;
use testkit::script::{self, Script, Step, item};

use crate::client::Client;

/// What one server said in a turn, the answers to our calls included.
type Said = Vec<Value>;

fn settings() -> Value {
    let tool = json!({ "type": "function", "name": "lookup", "description": "d", "inputSchema": { "type": "object" } });
    json!({ "approvalPolicy": "untrusted", "sandbox": "workspace-write", "dynamicTools": [tool] })
}

/// Runs one turn with every question answered in the affirmative.
async fn run_turn(client: &mut Client, mut settings: Value, cwd: &str) -> Said {
    client.initialize().await;
    settings["cwd"] = json!(cwd);
    let started = client.call("thread/start", settings).await;
    let thread = started["result"]["thread"]["id"].as_str().unwrap().to_owned();
    let mut said = vec![started, client.next_of("thread/started").await, client.turn(&thread, "go").await];
    loop {
        let message = client.next().await.unwrap();
        if message.get("id").is_some() {
            client.send(&json!({ "id": message["id"], "result": consent(&message) })).await;
        }
        let ended = message["method"] == "turn/completed";
        said.push(message);
        if ended {
            return said;
        }
    }
}

fn consent(request: &Value) -> Value {
    match request["method"].as_str().unwrap() {
        "item/permissions/requestApproval" => json!({ "permissions": {} }),
        "item/tool/requestUserInput" => json!({ "answers": { "q1": { "answers": ["Yes"] } } }),
        "item/tool/call" => {
            json!({ "contentItems": [{ "type": "inputText", "text": "a" }], "success": true })
        }
        "mcpServer/elicitation/request" => {
            json!({ "action": "accept", "content": { "answer": "42" }, "_meta": null })
        }
        _ => json!({ "decision": "accept" }),
    }
}

async fn real_turn(scenario: Scenario) -> Said {
    real_turn_with(scenario, settings()).await
}

async fn real_turn_with(scenario: Scenario, settings: Value) -> Said {
    let model = ScriptedModel::start().await.unwrap();
    model.script("go", scenario);
    let mcp_server = testkit::bin("scripted-model");
    let config = CodexConfig::new(model.base_url())
        .feature("default_mode_request_user_input", true)
        .feature("request_permissions_tool", true)
        .mcp_server("tiny", mcp_server.to_str().unwrap(), &["mcp-server"]);
    let home = Home::with_config(&config.to_string());
    let mut client = Client::spawn(&mut home.codex(["app-server"]));
    let said = run_turn(&mut client, settings, home.workspace().to_str().unwrap()).await;
    client.finish().await;
    home.assert_no_processes().await;
    said
}

async fn scripted_turn(script: Script) -> Said {
    let server = ScriptedServer::new(script);
    let mut client = Client::spawn(&mut server.command());
    let said = run_turn(&mut client, settings(), "/ws").await;
    client.finish().await;
    said
}

/// What kind of message it is: the method, and the item's type or the thread's status.
fn kind(message: &Value) -> String {
    let params = &message["params"];
    let detail = params["item"]["type"].as_str().or_else(|| params["status"]["type"].as_str());
    format!("{} {}", message["method"].as_str().unwrap_or("answer"), detail.unwrap_or_default())
}

/// The first difference between two values in anything but their content; null may stand for anything.
fn difference(real: &Value, scripted: &Value, at: &str) -> Option<String> {
    match (real, scripted) {
        (Value::Object(real), Value::Object(scripted)) => {
            let lacking = real.keys().find(|key| !scripted.contains_key(*key));
            let extra = scripted.keys().find(|key| !real.contains_key(*key));
            let unlike = || {
                scripted.iter().find_map(|(key, value)| difference(&real[key], value, &format!("{at}.{key}")))
            };
            lacking
                .map(|key| format!("{at} lacks {key}"))
                .or_else(|| extra.map(|key| format!("{at} has {key} in addition")))
                .or_else(unlike)
        }
        (Value::Array(real), Value::Array(scripted)) => {
            let first = real.first().zip(scripted.first());
            first.and_then(|(real, scripted)| difference(real, scripted, &format!("{at}[0]")))
        }
        (Value::Null, _) | (_, Value::Null) => None,
        (real, scripted) => {
            let same = std::mem::discriminant(real) == std::mem::discriminant(scripted);
            (!same).then(|| format!("{at} is {scripted} where the real one has {real}"))
        }
    }
}

/// Every message of the scripted turn is like one of the real turn, in the same order. The status of the
/// thread has an order of its own there: codex 0.166 sends it now before, now after the event it goes with.
fn assert_alike(real: &Said, scripted: &Said) {
    let kinds: Vec<String> = real.iter().map(kind).collect();
    let mut rest = real.iter();
    for message in scripted {
        let wanted = kind(message);
        let is_it = |candidate: &&Value| kind(candidate) == wanted;
        let is_status = wanted.starts_with("thread/status/changed");
        let found = if is_status { real.iter().find(is_it) } else { rest.find(is_it) };
        let found = found.unwrap_or_else(|| panic!("the real turn has no {wanted} there: {kinds:#?}"));
        assert_eq!(difference(found, message, &wanted), None, "\nreal: {found}\nscripted: {message}");
    }
}

fn turn_of(steps: impl IntoIterator<Item = Step>) -> Script {
    let begin = [script::reply_turn(), script::status_active(), script::started()];
    let end = [script::streamed_message(&["done"]), script::status_idle(), script::completed()];
    Script::new().on("turn/start", begin.into_iter().chain(steps).chain(end))
}

#[tokio::test]
async fn a_plain_turn_is_like_a_real_one() {
    let real = real_turn(Scenario::new().say("done")).await;
    assert_alike(&real, &scripted_turn(Script::new()).await);
}

#[tokio::test]
async fn a_turn_with_thoughts_is_like_a_real_one() {
    let real = real_turn(Scenario::new().reason("hm").say("done")).await;
    let thought = item::reasoning("hm");
    let steps = [script::fresh_item([thought.started(), script::reasoning_delta("hm"), thought.completed()])];
    assert_alike(&real, &scripted_turn(turn_of(steps)).await);
}

#[tokio::test]
async fn a_command_approval_is_like_a_real_one() {
    let real = real_turn(Scenario::new().exec("touch x").then_say("done")).await;
    let steps = [script::command_approval(0, "touch x"), script::token_usage(1, 1)];
    assert_alike(&real, &scripted_turn(turn_of(steps)).await);
}

#[tokio::test]
async fn a_file_approval_is_like_a_real_one() {
    let real =
        real_turn(Scenario::new().call(ToolCall::add_file("new.txt", "hello\n")).then_say("done")).await;
    let change = item::added("/ws/new.txt", "hello\n");
    let steps = [script::file_approval(0, [change]), script::diff("diff --git")];
    assert_alike(&real, &scripted_turn(turn_of(steps)).await);
}

#[tokio::test]
async fn a_question_is_like_a_real_one() {
    let ask = ToolCall::request_user_input(&[Question::yes_no("q1", "really?")]);
    let real = real_turn(Scenario::new().call(ask).then_say("done")).await;
    let steps = [script::user_input_request(0, "q1", "really?").asked()];
    assert_alike(&real, &scripted_turn(turn_of(steps)).await);
}

#[tokio::test]
async fn a_wish_for_permissions_is_like_a_real_one() {
    let wish = json!({ "network": { "enabled": true }, "file_system": { "write": ["/var/tmp"] } });
    let wish = Scenario::new().call(ToolCall::request_permissions(&wish, "to write")).then_say("done");
    let mut settings = settings();
    settings["approvalPolicy"] = json!("on-request");
    let real = real_turn_with(wish, settings).await;
    let steps = [script::permissions_request(0, "/var/tmp").asked()];
    assert_alike(&real, &scripted_turn(turn_of(steps)).await);
}

#[tokio::test]
async fn tool_calls_of_an_mcp_server_are_like_real_ones() {
    let call = |tool: &str| ToolCall::mcp("tiny", tool, json!({ "text": "it" }));
    let real = real_turn(Scenario::new().call(call("poke")).then_call(call("ask")).then_say("done")).await;
    let poke = item::mcp_call("tiny", "poke", json!({ "text": "it" }), "poked it");
    let ask = item::mcp_call("tiny", "ask", json!({ "text": "it" }), "42");
    let approval = script::mcp_tool_approval(0, "tiny", "poke").asked();
    let form = script::elicitation_form(1, "tiny", "it").asked();
    let steps = [
        script::fresh_item([poke.started(), approval, poke.completed()]),
        script::fresh_item([ask.started(), form, ask.completed()]),
    ];
    let scripted = scripted_turn(turn_of(steps)).await;
    assert_alike(&real, &scripted);
}

#[tokio::test]
async fn a_call_of_a_dynamic_tool_is_like_a_real_one() {
    let call = ToolCall::function("lookup", json!({ "q": "a" }));
    let real = real_turn(Scenario::new().call(call).then_say("done")).await;
    let lookup = item::dynamic_call("lookup", json!({ "q": "a" }), "a");
    let request = script::tool_call(0, "lookup", json!({ "q": "a" }));
    let steps =
        [script::fresh_item([lookup.started(), request, script::await_answer(0), lookup.completed()])];
    assert_alike(&real, &scripted_turn(turn_of(steps)).await);
}

#[tokio::test]
async fn a_failed_turn_is_like_a_real_one() {
    let real = real_turn(Scenario::new().respond(Response::internal_error())).await;
    let steps = [
        script::reply_turn(),
        script::started(),
        script::error_final("no", "internalServerError"),
        script::status_system_error(),
        script::failed("no", "internalServerError"),
    ];
    assert_alike(&real, &scripted_turn(Script::new().on("turn/start", steps)).await);
}

#[tokio::test]
async fn answers_to_thread_start_are_like_real_ones() {
    let home = Home::without_model();
    let server = ScriptedServer::new(Script::new());
    let mut real = Client::spawn(&mut home.codex(["app-server"]));
    let mut scripted = Client::spawn(&mut server.command());
    assert_eq!(difference(&real.initialize().await, &scripted.initialize().await, "initialize"), None);
    let cwd = home.workspace();
    for params in [
        json!({ "cwd": cwd }),
        json!({ "cwd": cwd, "sandbox": "read-only", "approvalPolicy": "untrusted" }),
        json!({ "cwd": cwd, "sandbox": "workspace-write", "approvalPolicy": "on-request" }),
        json!({ "cwd": cwd, "sandbox": "danger-full-access", "approvalPolicy": "never" }),
        json!({ "cwd": cwd, "ephemeral": true, "approvalsReviewer": "auto_review" }),
    ] {
        let expected = real.call("thread/start", params.clone()).await["result"].clone();
        let got = scripted.call("thread/start", params).await["result"].clone();
        assert_eq!(difference(&expected, &got, "thread/start"), None);
        for echoed in
            ["cwd", "sandbox", "approvalPolicy", "approvalsReviewer", "activePermissionProfile", "model"]
        {
            assert_eq!(got[echoed], expected[echoed], "{echoed}");
        }
        assert_eq!(got["thread"]["path"].is_null(), expected["thread"]["path"].is_null());
    }
    for (method, params) in [("thread/list", json!({})), ("account/read", json!({}))] {
        let expected = real.call(method, params.clone()).await["result"].clone();
        let got = scripted.call(method, params).await["result"].clone();
        assert_eq!(difference(&expected, &got, method), None);
    }
    real.finish().await;
    scripted.finish().await;
}

/// Runs a turn to its end and a second one into silence, then asks for everything that is known of them.
async fn memories(client: &mut Client, cwd: &str) -> Vec<(String, Value)> {
    client.initialize().await;
    let started = client.call("thread/start", json!({ "cwd": cwd })).await;
    let thread = started["result"]["thread"]["id"].as_str().unwrap().to_owned();
    client.turn(&thread, "go").await;
    client.next_of("turn/completed").await;
    client.turn(&thread, "stall").await;
    client.next_of("item/agentMessage/delta").await;
    let mut memories = Vec::new();
    for (method, extra) in [
        ("thread/read", json!({ "includeTurns": true })),
        ("thread/read", json!({})),
        ("thread/turns/list", json!({})),
        ("thread/turns/list", json!({ "itemsView": "full" })),
        ("thread/items/list", json!({})),
        ("thread/resume", json!({})),
        ("thread/resume", json!({ "excludeTurns": true })),
        ("thread/fork", json!({})),
    ] {
        let mut params = extra.clone();
        params["threadId"] = json!(thread);
        let result = client.call(method, params).await["result"].clone();
        memories.push((format!("{method} {extra}"), result));
    }
    memories
}

/// The turns in an answer, wherever they are: status, view and the types of the items.
fn outline(result: &Value) -> Vec<Value> {
    let list = result["data"].as_array().or_else(|| result["thread"]["turns"].as_array()).unwrap();
    let types = |turn: &Value| -> Vec<Value> {
        turn["items"].as_array().into_iter().flatten().map(|item| item["type"].clone()).collect()
    };
    list.iter()
        .map(|turn| json!([turn["status"], turn["itemsView"], turn["item"]["type"], types(turn)]))
        .collect()
}

#[tokio::test]
async fn what_is_remembered_of_turns_is_like_the_real_memory() {
    let model = ScriptedModel::start().await.unwrap();
    model.script("go", Scenario::new().say("done"));
    model.script("stall", Scenario::new().delta("par").stall("x"));
    let home = Home::new(&model.base_url());
    let mut real = Client::spawn(&mut home.codex(["app-server"]));
    let stalled = item::agent("partial");
    let user = item::user("stall").with("clientId", "$client_id");
    let second = [
        script::reply_turn(),
        script::started(),
        user.lifecycle(),
        script::fresh_item([stalled.started(), script::delta("par"), script::hang()]),
    ];
    let server = ScriptedServer::new(Script::new().on_nth("turn/start", 2, second));
    let mut scripted = Client::spawn(&mut server.command());
    let expected = memories(&mut real, home.workspace().to_str().unwrap()).await;
    let got = memories(&mut scripted, "/ws").await;
    for ((what, expected), (_, got)) in expected.iter().zip(&got) {
        assert_eq!(difference(expected, got, what), None, "\nreal: {expected}\nscripted: {got}");
        assert_eq!(outline(got), outline(expected), "{what}");
        assert_eq!(got["thread"]["status"], expected["thread"]["status"], "{what}");
        assert_eq!(got["thread"]["forkedFromId"].is_null(), expected["thread"]["forkedFromId"].is_null());
    }
    model.release("x");
    real.finish().await;
    scripted.finish().await;
}
