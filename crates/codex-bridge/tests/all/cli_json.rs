//! The contract that scripts may rely on: what each command prints with `--json`, and its exit code.

use codex_bridge_core::id::short;
use serde_json::{Value, json};

use crate::shell::Shell;

const TASK: [&str; 17] = [
    "task_id",
    "status",
    "prompt_summary",
    "thread_id",
    "turn_id",
    "cwd",
    "model",
    "sandbox",
    "approval_policy",
    "final_text",
    "error",
    "usage",
    "pending_requests",
    "created_at",
    "updated_at",
    "completed_at",
    "host",
];

fn assert_has(value: &Value, fields: &[&str]) {
    let object = value.as_object().unwrap_or_else(|| panic!("no object: {value}"));
    for field in fields {
        assert!(object.contains_key(*field), "{field} is missing in {value:#}");
    }
}

fn assert_time(value: &Value) {
    let text = value.as_str().unwrap_or_else(|| panic!("no time: {value}"));
    assert!(text.len() == 24 && text.ends_with('Z') && text.as_bytes()[10] == b'T', "{text} is not RFC 3339");
}

#[tokio::test]
async fn a_task_runs_to_its_end_and_every_view_of_it_keeps_the_contract() {
    let shell = Shell::new().await;
    let started = shell.run(&["run", "-d", "hello [play] say Hello to you.", "--json"]).await.ok().json();
    assert_has(&started, &["task_id", "status"]);
    let id = started["task_id"].as_str().unwrap();
    assert_eq!((id.len(), id.starts_with("codex-")), (6 + 32, true), "{id}");

    let waited = shell.run(&["--json", "wait", id, "--timeout", "120"]).await.ok().json();
    assert_has(&waited, &TASK);
    assert_eq!(waited["status"], "completed");
    assert_eq!(waited["final_text"], "Hello to you.");
    assert_eq!(waited["sandbox"], "read-only");
    assert_eq!(waited["approval_policy"], "untrusted");
    assert_eq!(waited["cwd"], shell.home.workspace().to_str().unwrap());
    for time in ["created_at", "updated_at", "completed_at"] {
        assert_time(&waited[time]);
    }
    for verb in ["show", "result"] {
        assert_eq!(shell.run(&["--json", verb, id]).await.ok().json(), waited, "{verb}");
    }
    // any unique beginning of an id will do, with its first word and without
    assert_eq!(shell.run(&["--json", "show", &id[..10]]).await.ok().json()["task_id"], id);
    assert_eq!(shell.run(&["--json", "show", &id[6..10]]).await.ok().json()["task_id"], id);

    let listed = shell.run(&["--json", "ps"]).await.ok().json();
    assert_has(&listed[0], &["task_id", "status", "prompt_summary", "cwd", "created_at", "updated_at"]);
    assert_eq!(listed.as_array().unwrap().len(), 1);

    let events = shell.run(&["events", id]).await.ok().json_lines();
    let numbers: Vec<i64> = events.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    assert_eq!(numbers, (1..=i64::try_from(events.len()).unwrap()).collect::<Vec<_>>(), "no gaps");
    for event in &events {
        assert_time(&event["at"]);
    }
    let after = shell.run(&["--json", "events", id, "--after", "2", "-f"]).await.ok().json_lines();
    assert_eq!(after[..], events[2..], "a cursor goes on where it was");
    assert_eq!(shell.run(&["--json", "logs", id]).await.ok().json_lines(), events);
    shell.end().await;
}

#[tokio::test]
async fn run_with_json_prints_the_task_once_it_is_at_rest() {
    let shell = Shell::new().await;
    let task = shell.run_with_input(&["--json", "run", "-"], "from stdin [play] say Read.").await.ok().json();
    assert_has(&task, &TASK);
    assert_eq!(task["final_text"], "Read.");
    assert_eq!(task["prompt_summary"], "from stdin [play] say Read.");
    shell.end().await;
}

#[tokio::test]
async fn a_request_is_listed_in_full_and_an_approval_returns_once_codex_took_it() {
    let shell = Shell::new().await;
    let (id, request) = shell.start_asking("go [play] exec touch made.txt => say Made.").await;
    let requests = shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(requests, json!([request]));
    let fields =
        ["task_id", "request_id", "kind", "title", "reason", "command", "cwd", "decisions", "created_at"];
    assert_has(&request, &fields);
    assert_eq!(request["kind"], "command");
    assert!(request["command"].as_str().unwrap().contains("touch made.txt"), "{request:#}");
    assert_eq!(request["cwd"], shell.home.workspace().to_str().unwrap());

    let decided = shell.approve(&id).await.ok().json();
    assert_has(&decided, &["task_id", "request_id", "decision", "outcome", "decided_by", "decided_at"]);
    assert_eq!((&decided["outcome"], &decided["decision"]), (&json!("resolved"), &json!("accept")));
    assert_eq!(decided["request_id"], request["request_id"]);
    assert_time(&decided["decided_at"]);

    let again = shell.run(&["--json", "decline", &id, request["request_id"].as_str().unwrap()]).await;
    assert_eq!(again.code, 1);
    let failure = again.failure();
    assert_eq!(failure["code"], "already_resolved");
    assert!(
        failure["message"].as_str().unwrap().contains("approved, by"),
        "it says what was decided: {failure}"
    );

    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let logged = shell.run(&["logs", &id]).await.out;
    assert!(shell.home.workspace().join("made.txt").exists(), "{logged}");
    shell.end().await;
}

#[tokio::test]
async fn a_declined_command_does_not_run_and_the_task_goes_on() {
    let shell = Shell::new().await;
    let (id, _) = shell.start_asking("go [play] exec touch made.txt => say Very well.").await;
    let decided = shell.run(&["--json", "decline", &id]).await.ok().json();
    assert_eq!((&decided["outcome"], &decided["decision"]), (&json!("resolved"), &json!("decline")));
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["final_text"], "Very well.");
    assert!(!shell.home.workspace().join("made.txt").exists());
    shell.end().await;
}

#[tokio::test]
async fn an_approval_for_the_session_covers_the_same_command_again() {
    let shell = Shell::new().await;
    let (id, request) =
        shell.start_asking("go [play] exec touch made.txt => exec touch made.txt => say Twice.").await;
    let decided = shell
        .run(&["--json", "approve", &id, request["request_id"].as_str().unwrap(), "--session"])
        .await
        .ok()
        .json();
    assert_eq!(decided["decision"], "acceptForSession");
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["final_text"], "Twice.");
    shell.end().await;
}

#[tokio::test]
async fn a_question_is_answered_by_its_key() {
    let shell = Shell::new().await;
    let (id, request) = shell.start_asking("go [play] ask Shall it be? => say So be it.").await;
    assert_eq!(request["kind"], "question");
    assert_eq!(request["questions"][0]["id"], "answer");
    let request_id = request["request_id"].as_str().unwrap();
    let yes = shell.run(&["--json", "approve", &id, request_id]).await;
    assert_eq!(
        (yes.code, yes.failure()["code"].as_str()),
        (1, Some("is_question")),
        "nobody has answered it"
    );
    let wrong = shell.run(&["--json", "answer", &id, request_id, "a", "b=c"]).await;
    assert_eq!(wrong.code, 0, "a single question takes all as its answers: {}", wrong.err);
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["final_text"], "So be it.");
    shell.end().await;
}

#[tokio::test]
async fn a_task_is_steered_interrupted_and_continued() {
    let shell = Shell::new().await;
    let id = shell.start("go [play] delta Once upon => stall here => say a time.").await;
    shell.model.wait_for_stall("here").await;
    let late = shell.run(&["--json", "wait", &id, "--timeout", "0.2"]).await;
    assert_eq!(late.code, 4);
    assert_eq!(late.json()["status"], "working");

    let steered = shell
        .run(&["--json", "steer", &id, "and be quick [play] delta Well => stall there"])
        .await
        .ok()
        .json();
    assert_eq!(steered["outcome"], "accepted");
    assert_has(&steered["task"], &TASK);
    shell.model.wait_for_stall("there").await;

    let stopped = shell.run(&["--json", "interrupt", &id]).await.ok().json();
    assert_eq!(stopped["outcome"], "interrupted", "{stopped:#}");
    assert_eq!(stopped["task"]["status"], "cancelled");
    let waited = shell.run(&["--json", "wait", &id]).await;
    assert_eq!(waited.code, 130);

    let refused = shell.run(&["--json", "steer", &id, "more"]).await;
    assert_eq!((refused.code, refused.failure()["code"].as_str()), (1, Some("wrong_state")));

    let queued = shell.run(&["--json", "continue", &id, "again [play] say Here I am."]).await.ok().json();
    assert_eq!(queued["task"]["task_id"], id);
    assert_has(&queued, &["outcome", "task"]);
    let task = shell.run(&["--json", "wait", &id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["final_text"], "Here I am.");
    shell.end().await;
}

#[tokio::test]
async fn a_failed_task_exits_with_one_and_says_why() {
    let shell = Shell::new().await;
    let failed = shell.run(&["--json", "run", "go [play] http 400"]).await;
    assert_eq!(failed.code, 1, "{}{}", failed.out, failed.err);
    let task = failed.json();
    assert_eq!(task["status"], "failed");
    assert_has(&task["error"], &["kind", "message"]);
    let id = task["task_id"].as_str().unwrap();
    let result = shell.run(&["result", id]).await;
    assert_eq!(result.code, 1);
    assert!(result.err.starts_with("error: "), "{}", result.err);
    shell.end().await;
}

#[tokio::test]
async fn every_failure_has_a_code_a_sentence_and_an_exit_code() {
    let shell = Shell::new().await;
    let check = async |args: &[&str], exit: i32, code: &str| {
        let said = shell.run(args).await;
        assert_eq!(said.code, exit, "{args:?}: {}{}", said.out, said.err);
        let failure = said.failure();
        assert_eq!(failure["code"], code, "{args:?}: {failure}");
        assert!(!failure["message"].as_str().unwrap().is_empty());
        assert_has(&failure, &["code", "message", "hint"]);
        assert_eq!(said.out, "", "{args:?}");
    };
    check(&["--json", "--no-autostart", "ps"], 1, "daemon_not_running").await;
    check(&["--json", "show", "codex-none"], 2, "unknown_task").await;
    check(&["--json", "run", "  "], 2, "empty_prompt").await;
    check(&["--json", "frobnicate"], 2, "usage").await;
    check(&["run", "--json"], 2, "usage").await;
    check(&["--json", "wait", "x", "--timeout", "-1"], 2, "usage").await;
    let (first, second) = (shell.start("one").await, shell.start("two").await);
    check(&["--json", "show", "codex-"], 2, "ambiguous_id").await;
    check(&["--json", "approve", &first], 2, "unknown_request").await;
    for id in [first, second] {
        shell.run(&["wait", &id]).await.ok();
    }
    shell.end().await;
}

#[tokio::test]
async fn a_branch_has_an_id_of_its_own_and_a_released_thread_is_named() {
    let shell = Shell::new().await;
    let id = shell.start("hello [play] say Hello.").await;
    shell.run(&["wait", &id]).await.ok();
    let branch = shell.run(&["--json", "fork", &id, "more [play] say More."]).await.ok().json();
    assert_has(&branch, &TASK);
    let branch_id = branch["task_id"].as_str().unwrap();
    assert_ne!(branch_id, id);
    let task = shell.run(&["--json", "wait", branch_id, "--timeout", "120"]).await.ok().json();
    assert_eq!(task["final_text"], "More.");
    assert_ne!(task["thread_id"], shell.run(&["--json", "show", &id]).await.ok().json()["thread_id"]);
    let released = shell.run(&["--json", "release", &id]).await.ok().json();
    assert_has(&released, &TASK);
    shell.end().await;
}

#[tokio::test]
async fn a_patch_that_waits_can_be_read_as_a_diff() {
    let shell = Shell::new().await;
    let lines: String =
        (1..=60).flat_map(|number| ["+line ".to_owned(), number.to_string(), "\n".to_owned()]).collect();
    let patch = format!("*** Begin Patch\n*** Add File: new.txt\n{lines}*** End Patch\n");
    shell.model.script("patch it", scripted_model::Scenario::new().apply_patch(patch).then_say("done"));
    let (id, request) = shell.start_asking("patch it").await;
    assert_eq!(request["kind"], "file_change", "{request:#}");
    let change = &request["changes"][0];
    assert!(change["path"].as_str().unwrap().ends_with("/new.txt"), "{change}");
    assert_eq!((&change["kind"], &change["cut_bytes"]), (&json!("add"), &json!(0)));
    assert!(change["diff"].as_str().unwrap().contains("@@ -0,0 +1,60 @@\n+line 1\n"), "{change}");
    let call = json!({"action": "status", "task_id": id}).to_string();
    let told = shell.run(&["tool", &call]).await.ok().json();
    let payload = &told["task"]["pending_requests"][0]["payload"];
    assert_eq!(payload["changes"], request["changes"], "{told:#}");
    let folded = shell.run(&["requests"]).await.ok().out;
    assert!(
        !folded.contains("+line 60") && folded.contains(&format!("requests {}` shows all", short(&id))),
        "{folded}"
    );
    let whole = shell.run(&["requests", &id]).await.ok().out;
    assert!(whole.contains("+line 60"), "{whole}");
    shell.approve(&id).await.ok();
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    shell.end().await;
}
