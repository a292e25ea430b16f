//! MCP 2026-07-28: results that ask for input, and the Tasks extension.

use std::fs;
use std::time::Duration;

use codex_bridge_core::id::short;
use scripted_model::{Response, Scenario};
use serde_json::{Value, json};

use crate::mcp_rig::{MODERN, Mcp, take_a_moment};
use crate::shell::{PATIENCE, Shell};

const TOUCHING: &str = "go [play] exec touch made.txt => say Done.";

fn tasks_and_forms() -> Value {
    json!({"elicitation": {"form": {}}, "extensions": {"io.modelcontextprotocol/tasks": {}}})
}

/// Looks at a task until it is no longer working.
async fn settled(mcp: &mut Mcp, id: &str) -> Value {
    let began = std::time::Instant::now();
    loop {
        let answer = mcp.call("tasks/get", json!({"taskId": id})).await;
        let task = &answer["result"];
        assert!(task.is_object(), "{answer:#}");
        if task["status"] != "working" {
            return task.clone();
        }
        assert!(began.elapsed() < PATIENCE, "still {task:#}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

async fn handed_over(mcp: &mut Mcp, tool: &str, arguments: Value) -> String {
    let handle = mcp.tool(tool, arguments).await;
    assert_eq!((&handle["resultType"], &handle["status"]), (&json!("task"), &json!("working")), "{handle:#}");
    handle["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_call_that_needs_a_person_asks_for_input_and_goes_on_when_it_comes_again() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&json!({"elicitation": {"form": {}}}));
    let arguments = json!({"prompt": TOUCHING, "sandbox": "workspace-write"});
    let asked = mcp.tool("codex", arguments.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked:#}");
    let requests = asked["inputRequests"].as_object().unwrap();
    let (key, form) = requests.iter().next().unwrap();
    assert_eq!(form["method"], "elicitation/create");
    assert!(form["params"]["message"].as_str().unwrap().contains("touch made.txt"), "{form:#}");
    let again = json!({
        "name": "codex", "arguments": arguments, "requestState": asked["requestState"],
        "inputResponses": {key: {"action": "accept", "content": {"decision": "accept"}}},
    });
    take_a_moment().await;
    let id = mcp.ask("tools/call", again).await;
    let done = mcp.result(id).await;
    assert_eq!(
        (&done["resultType"], &done["structuredContent"]["content"]),
        (&json!("complete"), &json!("Done.")),
        "{done:#}"
    );
    assert!(shell.home.workspace().join("made.txt").exists());
    assert_eq!(shell.run(&["--json", "ps", "--all"]).await.ok().json().as_array().unwrap().len(), 1);
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn input_that_is_no_choice_or_no_persons_leaves_the_request_open() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&json!({"elicitation": {"form": {}}}));
    let arguments = json!({
        "prompt": TOUCHING, "sandbox": "workspace-write", "approval_wait_s": 0, "client_request_id": "mine",
    });
    let at_once = json!({"action": "accept", "content": {"decision": "accept"}});
    for (is_at_once, answer) in [(false, json!({"action": "cancel"})), (true, at_once)] {
        let asked = mcp.tool("codex", arguments.clone()).await;
        let key = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
        let again = json!({
            "name": "codex", "arguments": arguments, "requestState": asked["requestState"],
            "inputResponses": {key.clone(): answer},
        });
        if !is_at_once {
            take_a_moment().await;
        }
        let id = mcp.ask("tools/call", again).await;
        let pending = mcp.result(id).await;
        let told = &pending["structuredContent"];
        assert_eq!(told["status"], "waiting_for_approval", "{pending:#}");
        let open = &told["pendingRequests"][0];
        let named = [&open["request_id"], &open["digest"]].map(|word| word.as_str().unwrap()).join(".");
        assert_eq!(named, key, "{pending:#}");
        assert_eq!(told["notes"].is_array(), is_at_once, "{pending:#}");
    }
    assert!(!shell.home.workspace().join("made.txt").exists());
    let forged = json!({"name": "codex", "arguments": arguments, "requestState": "{}"});
    let id = mcp.ask("tools/call", forged).await;
    assert_eq!(mcp.result(id).await["structuredContent"]["code"], "bad_call");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_task_survives_its_server_and_the_daemon_and_is_answered_by_an_update() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&tasks_and_forms());
    let id = handed_over(&mut mcp, "codex", json!({"prompt": TOUCHING, "sandbox": "workspace-write"})).await;
    let waiting = settled(&mut mcp, &id).await;
    assert_eq!(waiting["status"], "input_required", "{waiting:#}");
    mcp.kill().await;
    shell.kill_daemon_for_good().await;

    let mut next = shell.modern_mcp(&tasks_and_forms());
    let still = settled(&mut next, &id).await;
    assert_eq!(still["inputRequests"], waiting["inputRequests"]);
    let key = still["inputRequests"].as_object().unwrap().keys().next().unwrap();
    let update = json!({"taskId": id, "inputResponses": {key: {"action": "accept", "content": {"decision": "accept"}}}});
    let ack = next.call("tasks/update", update).await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack:#}");
    let done = settled(&mut next, &id).await;
    assert_eq!(
        (&done["status"], &done["result"]["structuredContent"]["content"]),
        (&json!("completed"), &json!("Done.")),
        "{done:#}"
    );
    assert!(shell.home.workspace().join("made.txt").exists());

    // Another turn is a task of its own; the first one's end stays what it was.
    let thread = &done["result"]["structuredContent"]["threadId"];
    let more =
        handed_over(&mut next, "codex-reply", json!({"threadId": thread, "prompt": "more [play] say More."}))
            .await;
    assert_ne!(more, id);
    assert_eq!(settled(&mut next, &more).await["result"]["structuredContent"]["content"], "More.");
    assert_eq!(settled(&mut next, &id).await["result"]["structuredContent"]["content"], "Done.");
    next.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_task_is_cancelled_and_an_unknown_one_is_an_error() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&tasks_and_forms());
    let id =
        handed_over(&mut mcp, "codex", json!({"prompt": "go [play] delta Once => stall here => say it."}))
            .await;
    shell.model.wait_for_stall("here").await;
    for _ in 0..2 {
        let ack = mcp.call("tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(ack["result"]["resultType"], "complete", "{ack:#}");
    }
    assert_eq!(settled(&mut mcp, &id).await["status"], "cancelled");
    let unknown = mcp.call("tasks/get", json!({"taskId": "codex-000000000000"})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown:#}");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn cancelling_what_has_ended_stops_nobody_elses_turn() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&tasks_and_forms());
    let first = handed_over(&mut mcp, "codex", json!({"prompt": "one [play] say One."})).await;
    settled(&mut mcp, &first).await;
    let more = json!({"threadId": first, "prompt": "go [play] delta Once => stall here => say Two."});
    let second = handed_over(&mut mcp, "codex-reply", more).await;
    shell.model.wait_for_stall("here").await;
    let ack = mcp.call("tasks/cancel", json!({"taskId": first})).await;
    assert_eq!(ack["result"]["resultType"], "complete", "{ack:#}");
    shell.model.release("here");
    let done = settled(&mut mcp, &second).await;
    assert_eq!(
        (&done["status"], &done["result"]["structuredContent"]["content"]),
        (&json!("completed"), &json!("Two.")),
        "{done:#}"
    );
    assert_eq!(settled(&mut mcp, &first).await["result"]["structuredContent"]["content"], "One.");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_log_that_was_shortened_does_not_keep_a_task_from_ending() {
    for keep_events in [1, 2] {
        let shell = Shell::new().await;
        let config = shell.home.dir().join("config.toml");
        let rest = fs::read_to_string(&config).unwrap();
        fs::write(&config, format!("keep_events = {keep_events}\n{rest}")).unwrap();
        let mut mcp = shell.modern_mcp(&tasks_and_forms());
        let call = json!({"prompt": "one [play] say One.", "client_request_id": "mine"});
        let id = handed_over(&mut mcp, "codex", call.clone()).await;
        settled(&mut mcp, &id).await;
        shell.run(&["gc"]).await.ok();
        let left = shell.run(&["--json", "logs", &id]).await.ok().json_lines();
        assert_eq!(left.len(), 1 + keep_events, "{left:#?}");
        assert_eq!((&left[0]["kind"], &left[0]["from"]), (&json!("gap"), &json!(1)), "{left:#?}");
        assert_eq!(left[0]["to"].as_i64().unwrap() + 1, left[1]["seq"], "{left:#?}");
        let done = settled(&mut mcp, &id).await;
        assert_eq!(done["result"]["structuredContent"]["content"], "One.", "{done:#}");
        let mut old = shell.mcp(json!({})).await;
        let again = old.tool("codex", call).await;
        assert_eq!(again["structuredContent"]["content"], "One.", "{again:#}");

        // A turn that runs now is another than the one whose lines are gone, and is not cancelled with it.
        let more = json!({"threadId": id, "prompt": "go [play] delta Once => stall here => say Two."});
        let second = handed_over(&mut mcp, "codex-reply", more).await;
        shell.model.wait_for_stall("here").await;
        shell.run(&["gc"]).await.ok();
        let finished = mcp.call("tasks/cancel", json!({"taskId": id})).await;
        assert_eq!(finished["result"]["resultType"], "complete", "{finished:#}");
        shell.model.release("here");
        let done = settled(&mut mcp, &second).await;
        assert_eq!(done["result"]["structuredContent"]["content"], "Two.", "{done:#}");
        old.end().await;
        mcp.end().await;
        shell.end().await;
    }
}

#[tokio::test]
async fn a_task_that_waits_for_its_account_is_under_way_and_gives_its_answer_later() {
    let shell = Shell::new().await;
    let limit = Response::usage_limit_reached(Duration::from_secs(3));
    shell.model.script("work", Scenario::new().respond(limit));
    shell.model.script_containing("account limit or login", Scenario::new().say("Finished."));
    let mut old = shell.mcp(json!({})).await;
    let call = json!({"prompt": "work", "client_request_id": "mine"});
    let parked = old.tool("codex", call.clone()).await;
    assert_eq!(parked["structuredContent"]["status"], "paused", "{parked:#}");
    let said = parked["structuredContent"]["content"].as_str().unwrap();
    assert!(said.contains("continues by itself"), "{said}");
    let id = parked["structuredContent"]["taskId"].as_str().unwrap().to_owned();
    let shown = shell.run(&["--json", "show", &id]).await.ok().json();
    if shown["status"] == "paused" {
        assert_eq!(shown["parked"]["waits_for"], "usage_limit", "{shown:#}");
        assert!(shown["parked"]["resume_at"].is_string(), "{shown:#}");
    }
    let mut mcp = shell.modern_mcp(&tasks_and_forms());
    let done = settled(&mut mcp, &id).await;
    assert_eq!(done["result"]["structuredContent"]["content"], "Finished.", "{done:#}");
    let again = old.tool("codex", call).await;
    assert_eq!(again["structuredContent"]["content"], "Finished.", "{again:#}");
    old.end().await;
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn what_was_left_out_is_said_with_the_task() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&tasks_and_forms());
    let call = json!({"prompt": "one [play] say One.", "compact-prompt": "be brief"});
    let handle = mcp.tool("codex", call).await;
    assert_eq!(handle["statusMessage"], "compact-prompt is not supported and was ignored", "{handle:#}");
    settled(&mut mcp, handle["taskId"].as_str().unwrap()).await;
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn who_cannot_show_forms_is_told_in_the_task_how_to_answer() {
    let shell = Shell::new().await;
    let mut mcp = shell.modern_mcp(&json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    let id = handed_over(&mut mcp, "codex", json!({"prompt": TOUCHING, "sandbox": "workspace-write"})).await;
    shell.run(&["wait", &id, "--timeout", "120"]).await;
    let task = mcp.call("tasks/get", json!({"taskId": id})).await["result"].clone();
    assert_eq!(task["status"], "working");
    let message = task["statusMessage"].as_str().unwrap();
    assert!(message.contains(&format!("codex-bridge approve {} ", short(&id))), "{message}");
    shell.run(&["decline", &id]).await.ok();
    assert_eq!(settled(&mut mcp, &id).await["status"], "completed");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn old_and_new_revisions_are_served_side_by_side() {
    let shell = Shell::new().await;
    // It declares the extension, as some do, and could not take a task for an answer.
    let mut old = shell.mcp(json!({"extensions": {"io.modelcontextprotocol/tasks": {}}})).await;
    let mut new = shell.modern_mcp(&tasks_and_forms());
    let about = new.call("server/discover", json!({})).await;
    let versions = about["result"]["supportedVersions"].as_array().unwrap_or_else(|| panic!("{about:#}"));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN] {
        assert!(versions.contains(&json!(version)), "{version} of {about:#}");
    }
    let id = handed_over(&mut new, "codex", json!({"prompt": "one [play] say One."})).await;
    let done = old.tool("codex", json!({"prompt": "two [play] say Two."})).await;
    assert_eq!(done["structuredContent"]["content"], "Two.");
    assert_eq!(done.get("resultType"), None, "an older client knows no such field");
    assert_eq!(settled(&mut new, &id).await["result"]["structuredContent"]["content"], "One.");
    // The extension is only for those who declared it.
    let mut other = shell.mcp(json!({})).await;
    let refused = other.call("tasks/get", json!({"taskId": id})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused:#}");
    other.end().await;
    old.end().await;
    new.end().await;
    shell.end().await;
}
