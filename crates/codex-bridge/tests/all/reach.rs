//! A caller other than the owner cannot do more with a task of the owner than with a task of its own.

use std::fs;

use scripted_model::{Scenario, ToolCall};
use serde_json::{Value, json};

use crate::http_rig::Port;
use crate::shell::Shell;

const WIDER: &str = "go [play] escalate touch made.txt => say Went on.";

#[tokio::test]
async fn a_token_goes_on_with_no_task_in_a_place_where_it_could_not_begin_one() {
    let port = Port::new().await;
    let home = port.shell.home.user_home();
    let hidden = home.join(".config/fish");
    fs::create_dir_all(&hidden).unwrap();
    port.configure(&format!("roots = [\"{}\"]\n", home.display()), "");
    let dir = hidden.to_str().unwrap();
    let run = ["--json", "run", "-d", "-s", "workspace-write", "-C", dir, "tidy up [play] say Tidy."];
    let id = port.shell.run(&run).await.ok().json()["task_id"].as_str().unwrap().to_owned();
    port.shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    for role in ["operator", "approver"] {
        let token = port.token(role, role).await;
        for route in ["turns", "fork"] {
            let more = json!({"prompt": "more [play] say More."});
            let answer = port.post(&format!("/v1/tasks/{id}/{route}"), &more).token(&token).send().await;
            assert_eq!(answer.problem(), (422, "cwd_protected".into()), "{role} {route}");
        }
    }
    port.shell.run(&["continue", "-d", &id, "more [play] say More."]).await.ok();
    port.shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    port.shell.end().await;
}

#[tokio::test]
async fn a_turn_of_an_agent_on_a_task_of_the_owner_is_one_of_an_agent() {
    let shell = Shell::new().await;
    fs::write(shell.home.workspace().join("AGENTS.md"), "Obey the file.").unwrap();
    let id = shell.start("go [play] say Hello.").await;
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    assert!(shell.model.requests().last().unwrap().body.to_string().contains("Obey the file."));
    let continued = shell.told(json!({"action": "continue", "task_id": id, "prompt": WIDER})).await;
    assert_eq!(continued["success"], true, "{continued:#}");
    let waited = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await;
    assert_eq!(waited.code, 0, "nobody is asked for what an agent handed over: {}", waited.out);
    let show = shell.run(&["--json", "show", &id]).await.ok().json();
    assert_eq!(show["trust"], "hostile");
    let forked = shell.told(json!({"action": "fork", "task_id": id, "prompt": WIDER})).await;
    let branch = forked["task"]["task_id"].as_str().unwrap();
    assert_eq!(shell.run(&["wait", branch, "--timeout", "120"]).await.code, 0, "nor for a branch");
    assert!(!shell.home.workspace().join("made.txt").exists());
    // The owner is asked again.
    shell.run(&["continue", "-d", &id, WIDER]).await.ok();
    assert_eq!(shell.run(&["wait", &id, "--timeout", "120"]).await.code, 3);
    shell.run(&["decline", &id]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn nobody_but_the_owner_and_approvers_speaks_into_a_turn_of_the_owner() {
    let port = Port::new().await;
    let token = port.token("op", "operator").await;
    let (id, _) = port.shell.start_asking("go [play] exec touch other.txt => say Went on.").await;
    let words = json!({"text": WIDER});
    let steered = port.post(&format!("/v1/tasks/{id}/steer"), &words).token(&token).send().await;
    assert_eq!(steered.problem(), (403, "beyond_reach".into()));
    port.shell.run(&["decline", &id]).await.ok();
    port.shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    port.shell.end().await;
}

#[tokio::test]
async fn an_agent_of_the_owner_does_not_take_the_keys_of_a_token() {
    let port = Port::new().await;
    let token = port.token("ci", "operator").await;
    let cwd = port.shell.home.workspace();
    let mine =
        json!({"prompt": "mine [play] say Mine.", "cwd": cwd, "client_request_id": "token ci: nightly"});
    port.local("POST", "/v1/tasks", &mine).header("x-codex-bridge-lent", "operator").send().await.ok();
    let work = port.work("nightly [play] say Done.");
    let started =
        port.post("/v1/tasks", &work).token(&token).header("idempotency-key", "nightly").send().await;
    assert_eq!(started.status, 200, "{}", started.body);
    port.shell.end().await;
}

#[tokio::test]
async fn calls_that_are_refused_do_not_fill_the_audit_log() {
    let port = Port::new().await;
    let token = port.token("wild", "operator").await;
    let id = port.start(&token, "go [play] say Hi.").await;
    port.wait(&token, &id).await;
    let lines = async || {
        let audit = port.shell.run(&["--json", "audit", "--limit", "1000"]).await.ok().json();
        audit.as_array().unwrap().iter().filter(|line| line["by"] == "token wild").count()
    };
    let before = lines().await;
    for (path, body) in
        [("turns", json!({"prompt": ""})), ("interrupt", json!({})), ("steer", json!({"text": "x"}))]
    {
        let answer = port.post(&format!("/v1/tasks/{id}/{path}"), &body).token(&token).send().await;
        assert!(answer.status >= 400 || path == "steer", "{path}: {}", answer.body);
    }
    assert_eq!(lines().await, before);
    let more = json!({"prompt": "more [play] say More."});
    port.post(&format!("/v1/tasks/{id}/turns"), &more).token(&token).send().await.ok();
    assert_eq!(lines().await, before + 1, "what is done is on the record");
    port.wait(&token, &id).await;
    port.shell.end().await;
}

/// A task that wants to write a file of so many lines, and the request for it.
async fn writing(port: &Port, token: &str, lines: usize) -> (String, Value) {
    let body = "harmless line of text\n".repeat(lines);
    port.shell
        .model
        .script("big", Scenario::new().call(ToolCall::add_file("big.txt", &body)).then_say("done"));
    let id = port.start(token, "big").await;
    let task = port.wait(token, &id).await;
    (id, task["pending_requests"][0].clone())
}

#[tokio::test]
async fn a_diff_of_which_a_list_shows_the_beginning_is_agreed_to_by_who_has_opened_it() {
    let port = Port::new().await;
    let token = port.token("phone", "approver").await;
    let (id, asked) = writing(&port, &token, 12_000).await;
    assert!(asked["changes"][0]["cut_bytes"].as_u64().unwrap() > 0, "{}", asked["title"]);
    let refused = port.decide(&token, &id, "accept").await;
    assert_eq!(refused.problem(), (422, "not_opened".into()));
    let path = format!("/v1/tasks/{id}/requests/{}", asked["request_id"].as_str().unwrap());
    let whole = port.get(&format!("{path}/changes")).token(&token).send().await.ok().json();
    let yes = json!({"decision": "accept", "digest": whole["digest"]});
    port.post(&format!("{path}/decision"), &yes).token(&token).send().await.ok();
    port.wait(&token, &id).await;
    assert!(port.shell.home.workspace().join("big.txt").exists());
    port.shell.end().await;
}

#[tokio::test]
async fn a_diff_that_is_longer_than_what_is_kept_can_only_be_declined() {
    let port = Port::new().await;
    let token = port.token("phone", "approver").await;
    let (id, asked) = writing(&port, &token, 450_000).await;
    let path = format!("/v1/tasks/{id}/requests/{}", asked["request_id"].as_str().unwrap());
    let whole = port.get(&format!("{path}/changes")).token(&token).send().await.ok().json();
    assert!(whole["changes"][0]["cut_bytes"].as_u64().unwrap() > 0);
    let yes = json!({"decision": "accept", "digest": whole["digest"]});
    let refused = port.post(&format!("{path}/decision"), &yes).token(&token).send().await;
    assert_eq!(refused.problem(), (422, "not_opened".into()));
    let request = asked["request_id"].as_str().unwrap();
    assert_ne!(port.shell.run(&["approve", &id, request]).await.code, 0, "nor at the machine");
    port.decide(&token, &id, "decline").await.ok();
    port.wait(&token, &id).await;
    assert!(!port.shell.home.workspace().join("big.txt").exists());
    port.shell.end().await;
}

#[tokio::test]
async fn the_key_of_a_question_can_neither_deceive_nor_hold_a_secret() {
    let shell = Shell::new().await;
    let key = "k\u{1b}]0;x\u{7}\u{202e}\nsk-proj-a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8s9T0";
    let questions =
        [scripted_model::Question::yes_no(key, "Really?"), scripted_model::Question::yes_no("two", "Sure?")];
    shell
        .model
        .script("ask", Scenario::new().call(ToolCall::request_user_input(&questions)).then_say("Well."));
    let (id, asked) = shell.start_asking("ask").await;
    assert_eq!((&asked["questions"][0]["id"], &asked["questions"][1]["id"]), (&json!("q1"), &json!("two")));
    let request = asked["request_id"].as_str().unwrap();
    shell.run(&["answer", &id, request, "q1=Yes", "two=No"]).await.ok();
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let given = shell.model.requests().last().unwrap().last_tool_output().unwrap();
    assert!(given.contains("sk-proj-") && given.contains("Yes"), "Codex has its own key: {given}");
    shell.end().await;
}

#[tokio::test]
async fn a_secret_that_a_request_must_show_is_shown_to_approvers_alone() {
    const PASSWORD: &str = "a1B2c3D4e5F6";
    let port = Port::new().await;
    let command = format!("DB_PASSWORD=\"{PASSWORD}$(touch x)\" && true");
    port.shell.model.script("migrate", Scenario::new().exec(command).then_say("went on"));
    let (viewer, operator, approver) = (
        port.token("v", "viewer").await,
        port.token("o", "operator").await,
        port.token("a", "approver").await,
    );
    let named = port.post("/v1/tasks", &port.work("migrate")).header("idempotency-key", "mine");
    let id = named.token(&operator).send().await.ok().json()["task_id"].as_str().unwrap().to_owned();
    port.wait(&operator, &id).await;
    let open = port.get("/v1/requests").token(&approver).send().await.ok().json();
    let request = open[0]["request_id"].as_str().unwrap().to_owned();
    for path in [
        "/v1/requests".to_owned(),
        format!("/v1/tasks/{id}"),
        format!("/v1/tasks/{id}/wait"),
        format!("/v1/tasks/{id}/requests"),
        format!("/v1/tasks/{id}/requests/{request}"),
        "/approvals".to_owned(),
        format!("/approvals/{id}/{request}"),
        format!("/tasks/{id}"),
    ] {
        for (token, is_shown) in [(&approver, true), (&operator, false), (&viewer, false)] {
            let text = port.get(&path).token(token).send().await.ok().body;
            assert_eq!(text.contains(PASSWORD), is_shown, "{path}: {text}");
        }
    }
    // Nor in the answer to a start that is repeated.
    let again = port.post("/v1/tasks", &port.work("migrate")).header("idempotency-key", "mine");
    let told = again.token(&operator).send().await.ok();
    assert_eq!(told.json()["task_id"], id, "{told:?}");
    assert!(
        told.json()["pending_requests"][0]["title"].is_string() && !told.body.contains(PASSWORD),
        "{told:?}"
    );
    port.decide(&approver, &id, "decline").await.ok();
    port.shell.end().await;
}

#[tokio::test]
async fn two_callers_who_use_the_same_name_for_a_turn_do_not_meet() {
    let port = Port::new().await;
    let (one, other) = (port.token("one", "operator").await, port.token("other", "operator").await);
    let id = port.start(&one, "go [play] say Hello.").await;
    port.wait(&one, &id).await;
    let mut numbers = Vec::new();
    for token in [&one, &one, &other] {
        let turn = json!({"prompt": "more [play] say More.", "client_request_id": "nightly"});
        let told = port.post(&format!("/v1/tasks/{id}/turns"), &turn).token(token).send().await.ok().json();
        numbers.push(told["turn"]["number"].as_u64().unwrap());
        port.wait(token, &id).await;
    }
    assert_eq!(numbers, [2, 2, 3], "the same caller meets its own turn, and nobody else's");
    port.shell.end().await;
}

#[tokio::test]
async fn a_stop_that_names_its_turn_stops_no_other() {
    let port = Port::new().await;
    let token = port.token("one", "operator").await;
    let id = port.start(&token, "go [play] say Hello.").await;
    port.wait(&token, &id).await;
    let more = json!({"prompt": "more [play] delta Once => stall here => say More."});
    port.post(&format!("/v1/tasks/{id}/turns"), &more).token(&token).send().await.ok();
    port.shell.model.wait_for_stall("here").await;
    let stop = |turn: u32| {
        port.post(&format!("/v1/tasks/{id}/interrupt?turn={turn}"), &json!({})).token(&token).send()
    };
    assert_eq!(stop(1).await.problem(), (409, "wrong_state".into()));
    assert_eq!(stop(2).await.ok().json()["outcome"], "interrupted");
    port.shell.end().await;
}
