//! `codex` and `codex-reply` over MCP on stdio, for users of `codex mcp-server`.

use std::fs;

use serde_json::{Value, json};

use crate::shell::Shell;

/// The beginning of what every thread is told.
const OURS: &str = "You run under codex-bridge.";

#[tokio::test]
async fn a_thread_is_started_answered_and_continued() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let first = mcp.tool("codex", json!({"prompt": "hello [play] say Hello."})).await;
    assert_eq!(
        (&first["isError"], &first["content"][0]["text"]),
        (&json!(false), &json!("Hello.")),
        "{first:#}"
    );
    let told = &first["structuredContent"];
    assert_eq!((&told["content"], &told["status"]), (&json!("Hello."), &json!("completed")));
    let thread = told["threadId"].as_str().unwrap().to_owned();
    assert_eq!(thread.len(), 36, "a thread of Codex's: {thread}");

    let again = mcp.tool("codex-reply", json!({"threadId": thread, "prompt": "more [play] say More."})).await;
    assert_eq!(again["structuredContent"]["content"], "More.", "{again:#}");
    assert_eq!(
        (&again["structuredContent"]["threadId"], &again["structuredContent"]["taskId"]),
        (&told["threadId"], &told["taskId"])
    );
    let older =
        mcp.tool("codex-reply", json!({"conversationId": thread, "prompt": "last [play] say Last."})).await;
    assert_eq!(older["structuredContent"]["content"], "Last.");
    let heard = shell.model.requests().last().map(|request| format!("{request:?}")).unwrap();
    assert!(heard.contains("hello [play]") && heard.contains("More."), "one thread has all three turns");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn the_tools_are_listed_with_their_schemas() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let listed = mcp.call("tools/list", json!({})).await["result"]["tools"].clone();
    let names: Vec<&str> = listed.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["codex", "codex-reply", "codex_bridge"]);
    let properties: Vec<&String> =
        listed[0]["inputSchema"]["properties"].as_object().unwrap().keys().collect();
    for known in [
        "prompt",
        "model",
        "profile",
        "cwd",
        "approval-policy",
        "sandbox",
        "config",
        "base-instructions",
        "developer-instructions",
        "compact-prompt",
    ] {
        assert!(properties.iter().any(|it| *it == known), "{known}");
    }
    for drop_in in [&listed[0], &listed[1]] {
        assert_eq!(drop_in["inputSchema"]["required"], json!(["prompt"]));
        assert_eq!(drop_in["outputSchema"]["required"], json!(["threadId", "content"]));
    }
    let by_hand = shell.run(&["tool", "--schema"]).await.ok().json();
    assert_eq!(listed[2]["inputSchema"], by_hand["parameters"]);
    mcp.end().await;
}

#[tokio::test]
async fn the_bridge_tool_answers_as_it_does_by_hand() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let reply =
        mcp.tool("codex_bridge", json!({"action": "start", "prompt": "hello [play] say Hello."})).await;
    let id = reply["structuredContent"]["task_id"].clone();
    assert_eq!(
        (&reply["isError"], &reply["structuredContent"]["success"]),
        (&json!(false), &json!(true)),
        "{reply:#}"
    );
    let text: Value = serde_json::from_str(reply["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text, reply["structuredContent"]);
    let waited = mcp.tool("codex_bridge", json!({"action": "wait", "task_id": id})).await;
    assert_eq!(waited["structuredContent"]["task"]["final_text"], "Hello.");
    let refused = mcp.tool("codex_bridge", json!({"action": "fly"})).await;
    assert_eq!(
        (&refused["isError"], &refused["structuredContent"]["code"]),
        (&json!(true), &json!("unknown_action"))
    );
    let unknown = mcp.call("tools/call", json!({"name": "nothing", "arguments": {}})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown:#}");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn what_a_caller_may_not_choose_is_refused_and_what_is_harmless_is_said() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let prompt = "hello [play] say Hello.";
    for (arguments, code) in [
        (json!({"prompt": prompt, "sandbox": "danger-full-access"}), "sandbox_refused"),
        (json!({"prompt": prompt, "approval-policy": "never"}), "approval_policy_refused"),
        (json!({"prompt": prompt, "approval-policy": "on-failure"}), "unknown_approval_policy"),
        (json!({"prompt": prompt, "config": {"sandbox_mode": "danger-full-access"}}), "sandbox_refused"),
        (
            json!({"prompt": prompt, "config": {"shell_environment_policy": {"inherit": "all"}}}),
            "config_refused",
        ),
        (json!({"prompt": prompt, "config": {"mcp_servers.x.command": "sh"}}), "config_refused"),
        (json!({"prompt": prompt, "cwd": "/etc"}), "cwd_outside_roots"),
        (json!({"prompt": prompt, "profile": "nobody"}), "unknown_profile"),
        (
            json!({"prompt": prompt, "developer-instructions": format!("key sk-proj-{}", "a1B2".repeat(12))}),
            "instructions_refused",
        ),
        (json!({"prompt": prompt, "developer-instructions": "long ".repeat(20_000)}), "instructions_refused"),
        (json!({"prompt": " "}), "empty_prompt"),
        (json!({"prompt": 7}), "bad_call"),
    ] {
        let refused = mcp.tool("codex", arguments.clone()).await;
        let told = &refused["structuredContent"];
        assert_eq!(
            (&refused["isError"], told["code"].as_str()),
            (&json!(true), Some(code)),
            "{arguments}: {refused:#}"
        );
        assert_eq!((&told["threadId"], &told["success"]), (&json!(""), &json!(false)));
    }
    let nobody = mcp.tool("codex-reply", json!({"prompt": prompt})).await;
    assert_eq!(nobody["structuredContent"]["code"], "missing_parameter");
    let unknown = mcp.tool("codex-reply", json!({"prompt": prompt, "threadId": "0198"})).await;
    assert_eq!(unknown["structuredContent"]["code"], "unknown_task");
    assert_eq!(shell.run(&["--json", "ps", "--all"]).await.ok().json(), json!([]), "nothing was begun");

    let harmless = json!({
        "prompt": prompt, "base-instructions": "be brief", "compact-prompt": "", "sandbox": "workspace-write",
        "config": {"model_reasoning_effort": "high"},
    });
    let done = mcp.tool("codex", harmless).await;
    let told = &done["structuredContent"];
    assert_eq!(
        (&told["content"], &told["notes"]),
        (&json!("Hello."), &json!(["base-instructions is not supported and was ignored"])),
        "{done:#}"
    );
    let task = shell.run(&["--json", "show", told["taskId"].as_str().unwrap()]).await.ok().json();
    assert_eq!((&task["effort"], &task["sandbox"]), (&json!("high"), &json!("workspace-write")));
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn developer_instructions_reach_codex_behind_our_own_and_last_for_the_thread() {
    const OWN: &str = "Speak like a pirate, whatever is asked.";
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let call = json!({"prompt": "hello [play] say Hello.", "developer-instructions": OWN});
    let told = mcp.tool("codex", call).await["structuredContent"].clone();
    assert_eq!((&told["content"], &told["notes"]), (&json!("Hello."), &Value::Null), "{told:#}");
    // The thread is opened anew by another daemon and another host.
    shell.run(&["stop", "--hosts"]).await.ok();
    let more = json!({"threadId": told["threadId"], "prompt": "more [play] say More."});
    assert_eq!(mcp.tool("codex-reply", more).await["structuredContent"]["content"], "More.");
    let requests = shell.model.requests();
    for prompt in ["hello [play] say Hello.", "more [play] say More."] {
        let heard = requests.iter().find(|it| it.prompt().as_deref() == Some(prompt)).unwrap();
        let heard = format!("{heard:?}");
        let ours = heard.find(OURS).unwrap_or_else(|| panic!("not ours: {heard}"));
        let theirs = heard.find(OWN).unwrap_or_else(|| panic!("not theirs: {heard}"));
        assert!(ours < theirs, "{heard}");
    }
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_long_call_tells_what_codex_does() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let prompt = "go [play] exec echo hi => delta Once => stall here => say upon a time.";
    let arguments = json!({"prompt": prompt, "sandbox": "workspace-write", "approval-policy": "on-request"});
    let id = mcp.begin("codex", arguments).await;
    let first = mcp.until("progress", |it| it["method"] == "notifications/progress").await;
    let message = first["params"]["message"].as_str().unwrap();
    assert!(message.contains("task codex-") && message.contains("client_request_id \"mcp-"), "{message}");
    mcp.progress(id, "working").await;
    mcp.progress(id, "echo hi").await;
    shell.model.wait_for_stall("here").await;
    shell.model.release("here");
    let result = mcp.result(id).await;
    assert_eq!(result["structuredContent"]["content"], "upon a time.", "{result:#}");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_failed_turn_is_an_error_that_says_why() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let failed = mcp.tool("codex", json!({"prompt": "go [play] fail 400"})).await;
    assert_eq!(
        (&failed["isError"], &failed["structuredContent"]["status"]),
        (&json!(true), &json!("failed")),
        "{failed:#}"
    );
    assert!(!failed["content"][0]["text"].as_str().unwrap().is_empty());
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn below_one_of_our_own_hosts_it_does_not_run_unless_the_operator_says_so() {
    let shell = Shell::new().await;
    let run = |shell: &Shell| {
        let mut command = shell.command(&["--json", "mcp"]);
        command.env("CODEX_BRIDGE_HOST", "some-host");
        tokio::task::spawn_blocking(move || command.output().unwrap())
    };
    let refused = run(&shell).await.unwrap();
    let told: Value = serde_json::from_slice(&refused.stderr).unwrap();
    assert_eq!(told["error"]["code"], "nested");
    assert!(!refused.status.success() && refused.stdout.is_empty());
    let config = shell.home.dir().join("config.toml");
    fs::write(&config, format!("allow_nested_mcp = true\n{}", fs::read_to_string(&config).unwrap())).unwrap();
    let allowed = run(&shell).await.unwrap();
    assert!(allowed.status.success(), "{}", String::from_utf8_lossy(&allowed.stderr));
    shell.home.assert_no_processes().await;
}
