//! Refused calls of the tool: each has a code, a message and a hint.

use std::fs;

use serde_json::{Value, json};

use crate::shell::Shell;

fn start(more: &Value) -> Value {
    let mut call = json!({"action": "start", "prompt": "hello [play] say Hello."});
    call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    call
}

// peer: T11, T28
#[tokio::test]
async fn what_an_agent_may_not_ask_for_is_refused_before_anything_is_started() {
    let shell = Shell::new().await;
    let file = shell.home.workspace().join("file");
    fs::write(&file, "").unwrap();
    let cases = [
        (json!({"sandbox": "danger-full-access"}), "sandbox_refused"),
        (json!({"sandbox": "full"}), "unknown_sandbox"),
        (json!({"approval_policy": "never"}), "approval_policy_refused"),
        (json!({"approval_policy": "on-failure"}), "unknown_approval_policy"),
        (json!({"prompt": " \n "}), "empty_prompt"),
        (json!({"prompt": null}), "empty_prompt"),
        (json!({"cwd": "/no/such/place"}), "bad_cwd"),
        (json!({"cwd": file}), "bad_cwd"),
        (json!({"cwd": "/etc"}), "cwd_outside_roots"),
        (json!({"cwd": "../../.."}), "cwd_outside_roots"),
        (json!({"codex_home": "/tmp"}), "home_not_listed"),
        (json!({"profile": "open"}), "unknown_profile"),
        (json!({"prompt": 7}), "bad_call"),
    ];
    for (more, code) in cases {
        let (found, error) = shell.refused(start(&more)).await;
        assert_eq!(found, code, "{more}: {error}");
        assert!(!error.contains("panicked") && !error.contains("Error {"), "{error}");
    }
    assert_eq!(shell.told(json!({"action": "list"})).await["tasks"], json!([]));
    assert!(shell.model.requests().is_empty());
    shell.end().await;
}

// peer: T34
#[tokio::test]
async fn calls_that_make_no_sense_say_what_would() {
    let shell = Shell::new().await;
    let cases = [
        (json!({"action": "dance"}), "unknown_action"),
        (json!({}), "unknown_action"),
        (json!([1]), "bad_call"),
        (json!({"action": "status"}), "missing_parameter"),
        (json!({"action": "status", "task_id": "codex-ffffffffffff"}), "unknown_task"),
        (json!({"action": "steer", "task_id": "codex-1"}), "unknown_task"),
        (json!({"action": "respond", "task_id": "codex-1"}), "missing_parameter"),
        (json!({"action": "interrupt", "task_id": "codex-1"}), "unknown_task"),
        (json!({"action": "continue", "task_id": "codex-1"}), "unknown_task"),
        (json!({"action": "result", "task_id": "codex-1"}), "unknown_task"),
        (json!({"action": "fork", "task_id": "codex-1"}), "unknown_task"),
        (json!({"action": "events", "task_id": "codex-1"}), "unknown_task"),
        (json!({"action": "list", "limit": 0}), "bad_limit"),
        (json!({"action": "list", "limit": -1}), "bad_limit"),
        (json!({"action": "notify_completed", "limit": 101}), "bad_limit"),
        (json!({"action": "wait", "task_id": "codex-1", "timeout_s": 51}), "bad_timeout"),
        (json!({"action": "wait", "task_id": "codex-1", "timeout_s": -1}), "bad_timeout"),
    ];
    for (call, code) in cases {
        assert_eq!(shell.refused(call.clone()).await.0, code, "{call}");
    }
    let blank =
        json!({"action": " List ", "limit": "", "timeout_s": " ", "answers": "", "dry_run": "", "cwd": ""});
    assert_eq!(shell.told(blank).await["tasks"], json!([]), "what is empty has its default");
    let said = shell.run(&["tool", "{not json"]).await;
    assert_eq!((said.code, &said.json()["code"]), (1, &json!("bad_call")));
    shell.end().await;
}

// peer: T28
#[tokio::test]
async fn who_responds_second_is_told_what_was_decided_by_whom_and_when() {
    let shell = Shell::new().await;
    // A sandbox in which the command can do it.
    let prompt = "go [play] exec touch made.txt => say Done.";
    let call = start(&json!({"prompt": prompt, "sandbox": "workspace-write"}));
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    let waited = shell.told(json!({"action": "wait", "task_id": id})).await;
    let request = waited["task"]["pending_requests"][0]["request_id"].as_str().unwrap().to_owned();
    let respond = |decision: &str| {
        json!({
            "action": "respond", "task_id": id, "request_id": request, "decision": decision,
        })
    };
    for decision in ["yes", "acceptAlways", "ACCEPT"] {
        assert_eq!(shell.refused(respond(decision)).await.0, "unknown_decision", "{decision}");
    }
    let unknown = json!({"action": "respond", "task_id": id, "request_id": "req-none", "decision": "accept"});
    assert_eq!(shell.refused(unknown).await.0, "unknown_request");

    assert_eq!(shell.refused(respond("accept")).await.0, "digest_missing");
    let mut other = respond("accept");
    other["digest"] = "0123456789abcdef0123456789abcdef".into();
    assert_eq!(shell.refused(other).await.0, "digest_mismatch");
    let accept = shell.seen(respond("accept")).await;
    assert_eq!(shell.told(accept).await["response"]["outcome"], "resolved");
    let (code, error) = shell.refused(respond("decline")).await;
    assert_eq!(code, "already_resolved");
    assert!(error.ends_with("was already answered: approved, by agent"), "{error}");
    shell.ended(&id).await;
    assert!(shell.home.workspace().join("made.txt").exists(), "the first decision counts");
    shell.end().await;
}

#[tokio::test]
async fn a_finished_task_is_neither_steered_nor_interrupted() {
    let shell = Shell::new().await;
    let id = shell.begin("hello [play] say Hello.").await;
    shell.ended(&id).await;
    let (code, error) = shell.refused(json!({"action": "steer", "task_id": id, "instruction": "more"})).await;
    assert_eq!(code, "wrong_state");
    assert!(error.contains("completed") && error.contains("continue"), "{error}");
    assert_eq!(shell.refused(json!({"action": "interrupt", "task_id": id})).await.0, "wrong_state");
    shell.end().await;
}

// peer: T10
#[tokio::test]
async fn another_home_is_taken_only_if_the_operator_lists_it() {
    let shell = Shell::new().await;
    let other = shell.home.dir().join("other");
    fs::create_dir(&other).unwrap();
    fs::copy(shell.home.codex_home().join("config.toml"), other.join("config.toml")).unwrap();
    assert_eq!(shell.refused(start(&json!({"codex_home": other}))).await.0, "home_not_listed");
    assert!(fs::read_dir(&other).unwrap().count() == 1, "nothing was made in it");

    shell.run(&["stop"]).await.ok();
    let config = shell.home.dir().join("config.toml");
    let listed = format!("{}other_homes = [{other:?}]\n", fs::read_to_string(&config).unwrap());
    fs::write(&config, listed).unwrap();
    let id = shell.told(start(&json!({"codex_home": other}))).await["task_id"].as_str().unwrap().to_owned();
    assert_eq!(shell.ended(&id).await["status"], "completed");
    assert!(other.join("sessions").is_dir(), "its thread is in that home");
    shell.end().await;
}

#[tokio::test]
async fn only_a_profile_of_the_operators_goes_beyond_the_sandbox() {
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    let profiles = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\nagents = true\n\
        [profiles.mine]\nsandbox = \"danger-full-access\"\n";
    fs::write(&config, format!("{}{profiles}", fs::read_to_string(&config).unwrap())).unwrap();
    assert_eq!(shell.refused(start(&json!({"profile": "mine"}))).await.0, "profile_refused");
    let call = json!({
        "action": "start", "profile": "open", "prompt": "go [play] exec touch made.txt => say Done.",
    });
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    let task = shell.ended(&id).await;
    assert_eq!((&task["sandbox"], &task["approval_policy"]), (&json!("danger-full-access"), &json!("never")));
    assert!(shell.home.workspace().join("made.txt").exists(), "nobody was asked");
    shell.end().await;
}
