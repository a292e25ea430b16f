//! The ready-made steps have the shapes of the installed Codex's own schema.

use serde_json::{Value, json};
use testkit::ScriptedServer;
use testkit::schema::Schema;
use testkit::script::{self, Script, Step, item};

use crate::client::Client;

fn items() -> Vec<Step> {
    let changes = [item::added("/a", "x"), item::updated("/b", "y"), item::deleted("/c", "z")];
    [
        item::user("hello"),
        item::agent("hi").with("phase", "final_answer"),
        item::reasoning("thinking"),
        item::plan("first this"),
        item::command("ls", "a\n", 0),
        item::command("false", "", 1),
        item::file_change(changes),
        item::mcp_call("server", "tool", json!({ "a": 1 }), "text"),
        item::dynamic_call("tool", json!({}), "text"),
        item::spawned_agent("child", "do it"),
        item::web_search("rust"),
        item::compaction(),
    ]
    .iter()
    .map(item::Item::lifecycle)
    .collect()
}

fn events() -> Vec<Step> {
    vec![
        script::started(),
        script::status_active(),
        script::status_waiting_on_approval(),
        script::status_idle(),
        script::status_system_error(),
        script::message("hi"),
        script::message_in_phase("so far", "commentary"),
        script::streamed_message(&["a", "b"]),
        script::reasoning_delta("hm"),
        script::token_usage(1, 2),
        script::rate_limits(99, 1_800_000_000),
        script::diff("diff"),
        script::warning("careful"),
        script::compacted(),
        script::child_started("child"),
        script::error_retried(
            "Reconnecting... 1/5",
            json!({ "responseStreamDisconnected": { "httpStatusCode": null } }),
        ),
        script::error_final("no", "usageLimitExceeded"),
        script::failed("no", json!({ "httpConnectionFailed": { "httpStatusCode": 401 } })),
        script::failed_without_error(),
        script::interrupted(),
        script::completed_without_message(),
        script::resolved(0),
        script::resolved("s-1"),
    ]
}

fn requests() -> Vec<Step> {
    vec![
        script::command_request(0, "touch x"),
        script::file_request(1),
        script::permissions_request(2, "/p"),
        script::user_input_request(3, "q1", "really?"),
        script::elicitation_form(4, "server", "name?"),
        script::elicitation_url("s-5", "server", "https://example.org"),
        script::mcp_tool_approval(6, "server", "tool"),
        script::tool_call(7, "tool", json!({})),
        script::current_time(8),
        script::token_refresh(9),
        script::attestation(10),
    ]
}

#[tokio::test]
async fn every_ready_made_step_fits_the_schema() {
    let schema = Schema::of_installed_codex();
    let mut steps = vec![script::reply_turn()];
    steps.extend(items().into_iter().chain(events()).chain(requests()));
    steps.push(script::completed());
    let server = ScriptedServer::new(Script::new().on("turn/start", steps));
    let mut client = Client::of(&server).await;
    let thread = client.thread().await;
    client.turn(&thread, "hello").await;
    let mut seen = (0, 0);
    loop {
        let message = client.next().await.unwrap();
        let fits = if message.get("id").is_some() {
            seen.0 += 1;
            schema.check_server_request(&message)
        } else {
            seen.1 += 1;
            schema.check_notification(&message)
        };
        assert_eq!(fits, Ok(()), "{message}");
        let turn = &message["params"]["turn"];
        if turn["status"] == "completed" && turn["items"] != json!([]) {
            break;
        }
    }
    assert_eq!(seen.0, requests().len());
    assert!(seen.1 > events().len() + 2 * items().len());
    client.finish().await;
}

#[tokio::test]
async fn default_answers_fit_the_schema() {
    let schema = Schema::of_installed_codex();
    let server = ScriptedServer::new(Script::new());
    let mut client = Client::spawn(&mut server.command());
    assert_eq!(schema.check("InitializeResponse", &client.initialize().await), Ok(()));
    let thread = client.thread().await;
    let of_thread = json!({ "threadId": thread });
    let with = |name: &str, value: Value| {
        let mut params = of_thread.clone();
        params[name] = value;
        params
    };
    let calls = [
        ("thread/start", "ThreadStartResponse", json!({ "cwd": "/ws", "sandbox": "workspace-write" })),
        ("thread/start", "ThreadStartResponse", json!({ "cwd": "/ws", "sandbox": "danger-full-access" })),
        ("thread/start", "ThreadStartResponse", json!({ "ephemeral": true })),
        ("thread/fork", "ThreadForkResponse", of_thread.clone()),
        ("thread/resume", "ThreadResumeResponse", of_thread.clone()),
        ("thread/read", "ThreadReadResponse", of_thread.clone()),
        ("thread/turns/list", "ThreadTurnsListResponse", of_thread.clone()),
        ("thread/items/list", "ThreadItemsListResponse", of_thread.clone()),
        ("thread/loaded/list", "ThreadLoadedListResponse", json!({})),
        ("thread/list", "ThreadListResponse", json!({})),
        ("model/list", "ModelListResponse", json!({})),
        ("account/read", "GetAccountResponse", json!({})),
        ("thread/unsubscribe", "ThreadUnsubscribeResponse", of_thread.clone()),
        ("turn/start", "TurnStartResponse", with("input", json!([]))),
        ("turn/interrupt", "TurnInterruptResponse", with("turnId", json!(""))),
        ("thread/compact/start", "ThreadCompactStartResponse", of_thread.clone()),
    ];
    for (method, answer, params) in calls {
        let message = client.call(method, params.clone()).await;
        assert_eq!(schema.check(answer, &message["result"]), Ok(()), "{method}: {message}");
        let request = json!({ "id": 1, "method": method, "params": params });
        assert_eq!(schema.check_client_request(&request), Ok(()));
    }
    client.finish().await;
}

#[test]
fn the_schema_check_sees_what_is_wrong() {
    let schema = Schema::of_installed_codex();
    let unknown = json!({ "method": "turn/begun", "params": {} });
    assert!(schema.check_notification(&unknown).is_err());
    let status = |status: &str| {
        let turn = json!({ "id": "t", "items": [], "status": status });
        json!({ "method": "turn/completed", "params": { "threadId": "x", "turn": turn } })
    };
    assert_eq!(schema.check_notification(&status("completed")), Ok(()));
    let complaint = schema.check_notification(&status("finished")).unwrap_err();
    assert!(
        complaint.starts_with("turn/completed.params.turn.status: \"finished\" is none of"),
        "{complaint}"
    );
    let lacking = json!({ "method": "turn/completed", "params": { "threadId": "x" } });
    let complaint = schema.check_notification(&lacking).unwrap_err();
    assert_eq!(complaint, "turn/completed.params: turn is missing");
}
