//! Requests of Codex over MCP: the client's user is asked if the client can ask; otherwise the request stays open, and the
//! result says how to decide it.

use serde_json::{Value, json};

use crate::mcp_rig::{APPROVER, Mcp, take_a_moment};
use crate::shell::Shell;

/// A call whose one command needs a yes.
fn touching() -> Value {
    json!({"prompt": "go [play] exec touch made.txt => say Done.", "sandbox": "workspace-write"})
}

fn was_made(shell: &Shell) -> bool {
    shell.home.workspace().join("made.txt").exists()
}

/// A client that can ask its user, a call that needs it, and the form that came.
async fn asking(shell: &Shell, arguments: Value) -> (Mcp, u64, Value) {
    let mut mcp = shell.mcp_with(&APPROVER, json!({"elicitation": {}})).await;
    let id = mcp.begin("codex", arguments).await;
    let form = mcp.asked("elicitation/create").await;
    (mcp, id, form)
}

#[tokio::test]
async fn a_yes_by_elicitation_lets_the_command_run() {
    let shell = Shell::new().await;
    let (mut mcp, id, form) = asking(&shell, touching()).await;
    let message = form["params"]["message"].as_str().unwrap();
    assert!(message.contains("touch made.txt") && message.contains("task codex-"), "{message}");
    let offered = &form["params"]["requestedSchema"]["properties"]["decision"]["enum"];
    assert!(offered.as_array().unwrap().contains(&json!("decline")), "{form:#}");
    assert!(!was_made(&shell), "it ran before anyone said yes");
    take_a_moment().await;
    mcp.reply(&form, json!({"action": "accept", "content": {"decision": "accept"}})).await;
    let result = mcp.result(id).await;
    assert_eq!(result["structuredContent"]["content"], "Done.", "{result:#}");
    assert!(was_made(&shell));
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_no_by_elicitation_keeps_the_command_from_running() {
    let shell = Shell::new().await;
    let (mut mcp, id, form) = asking(&shell, touching()).await;
    take_a_moment().await;
    mcp.reply(&form, json!({"action": "decline"})).await;
    let result = mcp.result(id).await;
    assert_eq!(result["structuredContent"]["content"], "Done.", "{result:#}");
    assert!(!was_made(&shell));
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_question_is_asked_by_elicitation_and_its_answer_reaches_the_model() {
    let shell = Shell::new().await;
    let (mut mcp, id, form) =
        asking(&shell, json!({"prompt": "go [play] ask Shall it be? => say So be it."})).await;
    let fields = form["params"]["requestedSchema"]["properties"].as_object().unwrap().clone();
    let key = fields.keys().next().unwrap().clone();
    assert!(fields[&key]["title"].as_str().unwrap().contains("Shall it be?"), "{form:#}");
    take_a_moment().await;
    mcp.reply(&form, json!({"action": "accept", "content": {key: "by all means"}})).await;
    assert_eq!(mcp.result(id).await["structuredContent"]["content"], "So be it.");
    let heard = shell.model.requests().last().map(|request| format!("{request:?}")).unwrap();
    assert!(heard.contains("by all means"), "{heard}");
    mcp.end().await;
    shell.end().await;
}

/// A form with a choice, limits and a default.
fn paint_form() -> Value {
    json!({"type": "object", "required": ["colour"], "properties": {
        "colour": {"type": "string", "enum": ["red", "green"], "enumNames": ["Red", "Green"]},
        "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2},
        "sure": {"type": "boolean"},
    }})
}

#[tokio::test]
async fn a_form_of_an_mcp_server_is_passed_on_by_elicitation() {
    let shell = Shell::new().await;
    shell.script_form("paint it", &paint_form());
    let (mut mcp, id, form) = asking(&shell, json!({"prompt": "paint it"})).await;
    assert_eq!(form["params"]["requestedSchema"], paint_form());
    let message = form["params"]["message"].as_str().unwrap();
    assert!(
        message.contains("MCP server desk asks for input") && message.contains("Which colour?"),
        "{message}"
    );
    take_a_moment().await;
    mcp.reply(&form, json!({"action": "accept", "content": {"colour": "green"}})).await;
    assert_eq!(mcp.result(id).await["structuredContent"]["content"], "Painted.");
    assert!(shell.is_told("{\"colour\":\"green\",\"count\":2}"), "the default was taken");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_form_of_an_mcp_server_is_answered_by_the_tool_of_a_client_that_cannot_ask() {
    let shell = Shell::new().await;
    shell.script_form("paint it", &paint_form());
    let mut mcp = shell.mcp_with(&APPROVER, json!({})).await;
    let call = json!({"prompt": "paint it", "approval_wait_s": 0, "client_request_id": "mine"});
    let waiting = mcp.tool("codex", call.clone()).await["structuredContent"].clone();
    let content = waiting["content"].as_str().unwrap();
    for part in [
        "colour (string, required, one of: red (Red) | green (Green))",
        "count (integer, at least 1, at most 5, default 2)",
        "FIELD=VALUE",
        "\"answers\": {\"KEY\": \"ANSWER\"}",
    ] {
        assert!(content.contains(part), "{part:?} is missing in {content}");
    }
    let asked = &waiting["pendingRequests"][0];
    let count = json!({"name": "count", "type": "integer", "required": false, "minimum": 1.0, "maximum": 5.0, "default": 2});
    assert_eq!(asked["fields"][1], count);
    let respond = |answers: Value| {
        json!({
            "action": "respond", "task_id": waiting["taskId"], "request_id": asked["request_id"],
            "digest": asked["digest"], "answers": answers,
        })
    };
    let refused = mcp.tool("codex_bridge", respond(json!({"colour": "green", "count": 9}))).await;
    assert_eq!(refused["structuredContent"]["code"], "bad_answers", "{refused:#}");
    assert!(refused.to_string().contains("count must be at most 5"), "{refused:#}");
    let taken =
        mcp.tool("codex_bridge", respond(json!({"colour": "green", "count": 3, "sure": false}))).await;
    assert_eq!(taken["structuredContent"]["success"], true, "{taken:#}");
    assert_eq!(mcp.tool("codex", call).await["structuredContent"]["content"], "Painted.");
    assert!(shell.is_told("{\"colour\":\"green\",\"count\":3,\"sure\":false}"));
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_form_that_nobody_answered_decides_nothing() {
    let no_at_once = json!({"result": {"action": "decline"}});
    let yes_at_once = json!({"result": {"action": "accept", "content": {"decision": "accept"}}});
    let dismissed = json!({"result": {"action": "cancel"}});
    let failed = json!({"error": {"code": -32601, "message": "no"}});
    for refusal in [no_at_once, yes_at_once, dismissed, failed] {
        let shell = Shell::new().await;
        let mut arguments = touching();
        arguments["approval_wait_s"] = 0.into();
        let (mut mcp, id, form) = asking(&shell, arguments).await;
        let mut reply = refusal;
        (reply["jsonrpc"], reply["id"]) = (json!("2.0"), form["id"].clone());
        mcp.send(reply.clone()).await;
        let result = mcp.result(id).await;
        assert_eq!(result["structuredContent"]["status"], "waiting_for_approval", "{result:#}");
        let task = result["structuredContent"]["taskId"].as_str().unwrap();
        let open = shell.run(&["--json", "requests"]).await.ok().json();
        assert_eq!(open[0]["task_id"], task, "it is still open: {open:#}");
        assert!(!was_made(&shell), "{reply}");
        shell.approve(task).await.ok();
        shell.run(&["wait", task, "--timeout", "120"]).await.ok();
        assert!(was_made(&shell));
        mcp.end().await;
        shell.end().await;
    }
}

#[tokio::test]
async fn a_form_is_taken_back_when_someone_else_was_first() {
    let shell = Shell::new().await;
    let (mut mcp, id, form) = asking(&shell, touching()).await;
    let open = shell.run(&["--json", "requests"]).await.ok().json();
    shell.approve(open[0]["task_id"].as_str().unwrap()).await.ok();
    let back = mcp.until("the form to be taken back", |it| it["method"] == "notifications/cancelled").await;
    assert_eq!(back["params"]["requestId"], form["id"], "{back:#}");
    assert_eq!(mcp.result(id).await["structuredContent"]["content"], "Done.");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_form_is_taken_back_when_its_call_is_cancelled() {
    let shell = Shell::new().await;
    let (mut mcp, id, form) = asking(&shell, touching()).await;
    mcp.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}))
        .await;
    let back = mcp.until("the form to be taken back", |it| it["method"] == "notifications/cancelled").await;
    assert_eq!(back["params"]["requestId"], form["id"], "{back:#}");
    // It is open as before, for whoever asks next.
    let open = shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open.as_array().unwrap().len(), 1, "{open:#}");
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn who_cannot_be_asked_waits_for_an_answer_given_elsewhere() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({})).await;
    let id = mcp.begin("codex", touching()).await;
    let told = mcp.progress(id, "codex-bridge approve").await;
    let command = told.split('`').find(|part| part.starts_with("codex-bridge approve")).unwrap();
    // To the letter.
    let words: Vec<&str> = command.split_whitespace().skip(1).collect();
    shell.run(&words).await.ok();
    assert_eq!(mcp.result(id).await["structuredContent"]["content"], "Done.");
    assert!(was_made(&shell));
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn who_cannot_be_asked_is_told_what_is_open_and_finds_the_answer_later() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp_with(&APPROVER, json!({})).await;
    let mut call = touching();
    call["approval_wait_s"] = json!(0.1);
    call["client_request_id"] = json!("mine");
    let waiting = mcp.tool("codex", call.clone()).await;
    let told = &waiting["structuredContent"];
    assert_eq!(
        (&waiting["isError"], &told["status"]),
        (&json!(false), &json!("waiting_for_approval")),
        "{waiting:#}"
    );
    let content = told["content"].as_str().unwrap();
    assert!(content.contains("touch made.txt") && content.contains("codex-bridge approve"), "{content}");
    assert!(content.contains("client_request_id \"mine\""), "{content}");
    assert!(
        told["threadId"].as_str().unwrap().len() == 36
            && told["pendingRequests"][0]["request_id"].is_string()
    );

    // A person says yes to the agent, which passes it on.
    let respond = json!({
        "action": "respond", "task_id": told["taskId"], "request_id": told["pendingRequests"][0]["request_id"],
        "digest": told["pendingRequests"][0]["digest"], "decision": "accept",
    });
    assert_eq!(mcp.tool("codex_bridge", respond).await["structuredContent"]["success"], true);
    let done = mcp.tool("codex", call).await;
    assert_eq!(
        (&done["structuredContent"]["content"], &done["structuredContent"]["taskId"]),
        (&json!("Done."), &told["taskId"]),
        "{done:#}"
    );
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_server_decides_nothing_unless_its_role_says_so() {
    let shell = Shell::new().await;
    let mut mcp = shell.mcp(json!({"elicitation": {}})).await;
    let mut call = touching();
    call["approval_wait_s"] = json!(0);
    let pending = mcp.tool("codex", call).await;
    let told = &pending["structuredContent"];
    assert_eq!(told["status"], "waiting_for_approval", "{pending:#}");
    let respond = json!({
        "action": "respond", "task_id": told["taskId"],
        "request_id": told["pendingRequests"][0]["request_id"],
        "digest": told["pendingRequests"][0]["digest"], "decision": "accept",
    });
    for word in ["respond", " Respond"] {
        let mut respond = respond.clone();
        respond["action"] = word.into();
        let refused = mcp.tool("codex_bridge", respond).await;
        assert_eq!(refused["structuredContent"]["code"], "forbidden", "{refused:#}");
    }
    assert_eq!(shell.run(&["--json", "requests"]).await.ok().json().as_array().unwrap().len(), 1);
    assert!(!was_made(&shell));
    mcp.end().await;
    shell.end().await;
}

#[tokio::test]
async fn a_server_that_was_lent_to_an_operator_goes_on_with_no_task_beyond_its_reach() {
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    let open = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n";
    std::fs::write(&config, std::fs::read_to_string(&config).unwrap() + open).unwrap();
    let started =
        shell.run(&["--json", "run", "-d", "--profile", "open", "look [play] say Seen."]).await.ok().json();
    let id = started["task_id"].as_str().unwrap();
    shell.ended(id).await;
    let mut mcp = shell.mcp(json!({})).await;
    let more = json!({"threadId": id, "prompt": "escape [play] exec touch made.txt => say Out."});
    let refused = mcp.tool("codex-reply", more.clone()).await;
    assert_eq!(refused["structuredContent"]["code"], "beyond_reach", "{refused:#}");
    assert!(!was_made(&shell));
    mcp.end().await;
    let mut owner = shell.mcp_with(&APPROVER, json!({})).await;
    assert_eq!(owner.tool("codex-reply", more).await["structuredContent"]["content"], "Out.");
    owner.end().await;
    shell.end().await;
}
