//! A Codex host that has our MCP server among its servers must not start tasks without limit.

use std::fs;

use scripted_model::CodexConfig;
use serde_json::{Value, json};

use crate::shell::Shell;

/// A shell whose tasks' own Codex has our server in its configuration.
async fn shell(keys: &str) -> Shell {
    let shell = Shell::new().await;
    let env: Vec<String> =
        shell.env().into_iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
    let servers = format!(
        "[mcp_servers.bridge]\ncommand = {:?}\nargs = [\"mcp\", \"--role\", \"approver\"]\ndefault_tools_approval_mode = \"approve\"\n\
         [mcp_servers.bridge.env]\n{}\n",
        env!("CARGO_BIN_EXE_codex-bridge"),
        env.join("\n")
    );
    shell.home.write_config(&CodexConfig::new(shell.model.base_url()).extra(&servers).to_string());
    let config = shell.home.dir().join("config.toml");
    let workspace = shell.home.workspace();
    let rest = fs::read_to_string(&config).unwrap();
    let keys = format!("roots = [\"{}\"]\n{keys}{rest}", workspace.display());
    fs::write(&config, keys).unwrap();
    shell
}

/// What the calls of a prompt gave, as the model was told.
fn heard(shell: &Shell, prompt: &str) -> String {
    let requests = shell.model.requests();
    let of_prompt =
        requests.iter().rev().find(|request| request.prompt().as_deref() == Some(prompt)).unwrap();
    of_prompt.tool_outputs().iter().map(|(_, output)| output.to_string()).collect::<Vec<_>>().join("\n")
}

fn calls(tool: &str, arguments: &Value) -> String {
    format!("outer [play] mcp bridge {tool} {arguments} => say Outer done.")
}

async fn run(shell: &Shell, prompt: &str) {
    let id = shell.begin(prompt).await;
    let ended = shell.ended(&id).await;
    assert_eq!(
        (&ended["status"], &ended["final_text"]),
        (&json!("completed"), &json!("Outer done.")),
        "{ended:#}"
    );
}

#[tokio::test]
async fn a_task_works_without_the_server_that_would_start_more_tasks() {
    let shell = shell("").await;
    let prompt = calls("codex", &json!({"prompt": "inner", "cwd": shell.home.workspace()}));
    run(&shell, &prompt).await;
    assert_eq!(shell.run(&["--json", "ps", "--all"]).await.ok().json().as_array().unwrap().len(), 1);
    shell.end().await;
}

#[tokio::test]
async fn where_the_operator_allows_it_a_task_starts_a_task_and_approves_nothing() {
    let shell = shell("allow_nested_mcp = true\n").await;
    let waiting = shell.begin_asking("wait [play] exec touch made.txt => say Done.").await;
    let start =
        calls("codex", &json!({"prompt": "inner [play] say Inner here.", "cwd": shell.home.workspace()}));
    run(&shell, &start).await;
    assert!(heard(&shell, &start).contains("Inner here."), "{}", heard(&shell, &start));

    let outside = calls("codex", &json!({"prompt": "inner", "cwd": "/"}));
    run(&shell, &outside).await;
    assert!(heard(&shell, &outside).contains("cwd_outside_roots"), "{}", heard(&shell, &outside));
    let respond =
        json!({"action": "respond", "task_id": waiting.0, "request_id": waiting.1, "decision": "accept"});
    let approve = calls("codex_bridge", &shell.seen(respond).await);
    run(&shell, &approve).await;
    assert!(heard(&shell, &approve).contains("forbidden"), "{}", heard(&shell, &approve));
    let open = shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open[0]["request_id"], waiting.1.as_str(), "{open:#}");
    shell.end().await;
}
