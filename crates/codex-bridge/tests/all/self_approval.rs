//! Commands of Codex may not use the daemon, because they could approve their own requests.

use std::fs;

use serde_json::{Value, json};

use crate::shell::{Shell, program, until};

/// A command line that calls the daemon as a person would, from inside a task.
fn calls_the_daemon(shell: &Shell, words: &str) -> String {
    let state_dir = shell.home.dir().join("st");
    format!("{} --json --no-autostart --state-dir {} {words} 2>&1", program().display(), state_dir.display())
}

/// What the commands of a prompt printed, as the model was told. (codex 0.166: a sandboxed command that ends at once may
/// leave no item behind, neither in the stream nor in the history; the model always gets its output.)
fn printed(shell: &Shell, prompt: &str) -> String {
    let requests = shell.model.requests();
    let of_prompt =
        requests.iter().rev().find(|request| request.prompt().as_deref() == Some(prompt)).unwrap();
    of_prompt.tool_outputs().iter().map(|(_, output)| output.to_string()).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_prompt_that_approves_itself_fails() {
    let shell = Shell::new().await;
    let waiting = shell.begin_asking("wait [play] exec touch made.txt => say Done.").await;
    // A person lets the command run; it is tried in the sandbox and, blocked there, outside of it.
    let approve = calls_the_daemon(&shell, &format!("approve {}", waiting.0));
    let prompt = format!("go [play] exec {approve} => say Tried.");
    let (id, request) = shell.begin_asking(&prompt).await;
    let yes = json!({"action": "respond", "task_id": id, "request_id": request, "decision": "accept"});
    shell.told(shell.seen(yes).await).await;
    shell.ended(&id).await;
    let printed = printed(&shell, &prompt);
    assert!(printed.contains("peer_refused") || printed.contains("daemon_not_running"), "{printed}");
    assert_still_waiting(&shell, &waiting).await;
    shell.end().await;
}

#[tokio::test]
async fn a_command_outside_the_sandbox_is_refused_by_name() {
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    let profile = "[profiles.open]\nsandbox = \"danger-full-access\"\napproval_policy = \"never\"\n";
    fs::write(&config, format!("{}{profile}", fs::read_to_string(&config).unwrap())).unwrap();
    let waiting = shell.begin_asking("wait [play] exec touch made.txt => say Done.").await;
    let words = format!("approve {}", waiting.0);
    // Nor by leaving its parents, its session and its environment behind. What each said is in a file: Codex shows the model
    // only what came soon.
    let calls = calls_the_daemon(&shell, &words).replace(" 2>&1", "");
    let said = |name: &str| shell.home.workspace().join(name);
    let plain = format!("{calls} > {} 2>&1", said("plain").display());
    let escaped = format!("setsid -f env -i {calls} > {} 2>&1", said("escaped").display());
    let prompt = format!("go [play] exec {plain} => exec {escaped} => say Tried.");
    let id = shell.run(&["--json", "run", "-d", "--profile", "open", &prompt]).await.ok().json()["task_id"]
        .clone();
    let id = id.as_str().unwrap();
    shell.run(&["wait", id, "--timeout", "120"]).await.ok();
    for (name, why) in [("plain", "started by Codex"), ("escaped", "peer_refused")] {
        let whole = || fs::read_to_string(said(name)).ok().filter(|said| said.contains("\"code\""));
        let printed = until("the refusal", whole).await;
        assert!(printed.contains("peer_refused") && printed.contains(why), "{printed}");
    }
    assert_still_waiting(&shell, &waiting).await;
    shell.end().await;
}

#[tokio::test]
async fn a_sandboxed_command_with_network_access_does_not_reach_the_daemon() {
    let shell = Shell::new().await;
    let config = shell.home.dir().join("config.toml");
    let profile = "[profiles.net]\nnetwork = true\nagents = true\n";
    fs::write(&config, format!("{}{profile}", fs::read_to_string(&config).unwrap())).unwrap();
    let waiting = shell.begin_asking("wait [play] exec touch made.txt => say Done.").await;
    let call =
        json!({"action": "respond", "task_id": waiting.0, "request_id": waiting.1, "decision": "accept"});
    let call = shell.seen(call).await;
    fs::write(shell.home.workspace().join("call.json"), call.to_string()).unwrap();
    let tool = calls_the_daemon(&shell, "tool - < call.json");
    let prompt = format!("go [play] exec {tool} => say Tried.");
    let start = json!({
        "action": "start", "prompt": prompt, "profile": "net",
        "sandbox": "workspace-write", "approval_policy": "on-request",
    });
    let id = shell.told(start).await["task_id"].as_str().unwrap().to_owned();
    shell.ended(&id).await;
    let printed = printed(&shell, &prompt);
    // The directory of the socket is denied to it.
    assert!(printed.contains("Permission denied"), "{printed}");
    assert_still_waiting(&shell, &waiting).await;
    shell.end().await;
}

#[tokio::test]
async fn a_daemon_is_not_started_by_what_codex_runs() {
    let shell = Shell::new().await;
    let mut command = shell.command(&["--json", "serve"]);
    command.env("CODEX_BRIDGE_HOST", "some-host");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let failure: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(failure["error"]["code"], "peer_refused");
    shell.home.assert_no_processes().await;
}

async fn assert_still_waiting(shell: &Shell, (id, request): &(String, String)) {
    let task = shell.told(json!({"action": "status", "task_id": id})).await["task"].clone();
    assert_eq!(task["pending_requests"][0]["request_id"], request.as_str(), "{task:#}");
    assert!(!shell.home.workspace().join("made.txt").exists());
}
