//! Requests to leave the sandbox: who is asked, what the card says, what the log contains.

use scripted_model::{Scenario, ToolCall};
use serde_json::json;

use crate::shell::Shell;

const WIDER: &str = "go [play] escalate touch made.txt => say Went on.";

fn is_made(shell: &Shell) -> bool {
    shell.home.workspace().join("made.txt").exists()
}

#[tokio::test]
async fn a_person_at_the_command_line_is_asked_in_plain_words_and_says_yes_once() {
    let shell = Shell::new().await;
    let (id, request) = shell.start_asking(WIDER).await;
    assert_eq!(request["escalation"], "asked", "{request:#}");
    assert_eq!(request["decisions"], json!(["accept", "decline", "cancel"]), "{request:#}");
    let card = shell.run(&["requests", &id]).await.ok().out;
    let careful = card.find("Careful").unwrap_or_else(|| panic!("{card}"));
    assert!(careful < card.find("Command  ").unwrap(), "{card}");
    assert!(card.contains("asks to leave the sandbox (workspace-write)"), "{card}");
    let request_id = request["request_id"].as_str().unwrap();
    let lasting = shell.run(&["--json", "approve", "--session", &id, request_id]).await;
    assert_ne!(lasting.code, 0, "{}", lasting.out);
    assert!(lasting.failure()["message"].as_str().unwrap().contains("accepted only once"), "{}", lasting.err);
    shell.approve(&id).await.ok();
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    assert!(is_made(&shell));

    let (id, request) = shell.start_asking("go [play] exec touch other.txt => say Went on.").await;
    assert_eq!(request["escalation"], "none", "{request:#}");
    let card = shell.run(&["requests", &id]).await.ok().out;
    assert!(!card.contains("Careful") && card.contains("Session"), "{card}");
    shell.run(&["decline", &id]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn an_agent_is_declined_unasked_and_cannot_choose_and_the_log_says_why() {
    let shell = Shell::new().await;
    let call = json!({
        "action": "start", "prompt": WIDER, "sandbox": "workspace-write", "approval_policy": "on-request",
    });
    let id = shell.told(call).await["task_id"].as_str().unwrap().to_owned();
    assert_eq!(shell.ended(&id).await["status"], "completed");
    assert!(!is_made(&shell));
    let log = shell.run(&["logs", &id]).await.ok().out;
    let line = "→ declined without asking: commands that ask to leave the sandbox are declined for this task";
    assert!(log.contains(line), "{log}");
    shell.end().await;
}

#[tokio::test]
async fn the_operators_file_decides_for_all() {
    let shell = Shell::new().await;
    shell.configure("escalations = \"decline\"\n[profiles.open]\nescalations = \"ask\"\n");
    let id = shell.start(WIDER).await;
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    assert!(!is_made(&shell));
    let run = ["--json", "run", "-d", "-s", "workspace-write", "--profile", "open", WIDER];
    let id = shell.run(&run).await.ok().json()["task_id"].as_str().unwrap().to_owned();
    assert_eq!(shell.run(&["wait", &id, "--timeout", "120"]).await.code, 3, "its profile has people asked");
    shell.run(&["decline", &id]).await.ok();
    shell.end().await;
}

#[tokio::test]
async fn what_is_typed_into_a_running_command_is_in_the_log_for_people_and_programs() {
    let shell = Shell::new().await;
    let run = Scenario::new().call(ToolCall::exec_in_terminal("cat")).then_say("Runs.");
    shell.model.script("begin", run);
    let (id, _) = shell.start_asking("begin").await;
    shell.approve(&id).await.ok();
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let told = shell.model.requests().last().unwrap().last_tool_output().unwrap();
    let session: String =
        told.split("session ID ").nth(1).unwrap().chars().take_while(char::is_ascii_digit).collect();
    let typed = ToolCall::write_stdin(session.parse().unwrap(), "rm -r build\n");
    shell.model.script("type", Scenario::new().call(typed).then_say("Typed."));
    shell.run(&["continue", "-d", &id, "type"]).await.ok();
    shell.run(&["wait", &id, "--timeout", "120"]).await.ok();
    let log = shell.run(&["logs", &id]).await.ok().out;
    assert!(log.contains("$ input to a running command: rm -r build"), "{log}");
    let events = shell.run(&["events", &id]).await.ok().json_lines();
    let line = events.iter().find(|event| event["kind"] == "terminal_input").unwrap();
    assert_eq!((&line["text"], &line["text_cut_bytes"]), (&json!("rm -r build\n"), &json!(0)));
    shell.end().await;
}
