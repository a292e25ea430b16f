//! Real clients of the MCP server: the official SDKs for Python and TypeScript on stdio and HTTP, the MCP inspector, and
//! Codex itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use scripted_model::{CodexConfig, Scenario};
use serde_json::{Value, json};
use testkit::rig;

use crate::http_rig::Port;
use crate::shell::{Said, Shell, until};

const TOUCHING: &str = "go [play] exec touch made.txt => say Done.";

/// Where `cargo xtask setup` has put something.
pub fn tools(part: &str) -> PathBuf {
    let tools = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.tools").join(part);
    assert!(tools.exists(), "{} is missing: `cargo xtask setup` makes it", tools.display());
    tools.canonicalize().unwrap()
}

fn client(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(file)
}

fn python() -> Command {
    let mut command = Command::new(tools("mcp-python").join("bin/python"));
    command.arg(client("mcp_client.py"));
    command
}

fn typescript() -> Command {
    let mut command = Command::new("node");
    command.arg(client("mcp_client.mjs"));
    command
}

/// How a client reaches the server on stdio. It gets an environment of its own, as clients do.
fn by_stdio(shell: &Shell) -> Value {
    let env: serde_json::Map<String, Value> =
        shell.env().into_iter().map(|(name, value)| (name, value.into())).collect();
    json!({"command": [env!("CARGO_BIN_EXE_codex-bridge"), "mcp", "--role", "approver"], "env": env, "cwd": shell.home.workspace()})
}

/// Runs a client and gives what it printed.
async fn run(shell: &Shell, mut client: Command, mut told: Value) -> Value {
    told["arguments"] = json!({"prompt": TOUCHING, "sandbox": "workspace-write", "cwd": shell.home.workspace(), "approval_wait_s": 0});
    told["modules"] = json!(tools("mcp-typescript"));
    client.env_clear().envs(shell.env()).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = client.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), told.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
        .ok()
        .json()
}

/// The user was asked once, said yes, and the answer came.
fn assert_done(seen: &Value) {
    assert_eq!(seen["tools"], json!(["codex", "codex-reply", "codex_bridge"]));
    assert_eq!(seen["asked"].as_array().unwrap().len(), 1, "{seen:#}");
    assert!(seen["asked"][0].as_str().unwrap().contains("touch made.txt"), "{seen:#}");
    assert_eq!(
        (&seen["is_error"], &seen["told"]["content"], &seen["text"]),
        (&json!(false), &json!("Done."), &json!("Done.")),
        "{seen:#}"
    );
    let progress = seen["progress"].as_array().unwrap();
    assert!(progress.iter().any(|line| line == "working") && progress.len() > 3, "{seen:#}");
}

/// One call by the Python SDK on stdio.
async fn serves_python(mode: &str) {
    let shell = Shell::new().await;
    let mut told = by_stdio(&shell);
    (told["mode"], told["answer"]) = (json!(mode), json!("accept"));
    assert_done(&run(&shell, python(), told).await);
    shell.end().await;
}

#[tokio::test]
async fn the_python_sdk_is_served_on_stdio_in_an_old_revision() {
    serves_python("legacy").await;
}

#[tokio::test]
async fn the_python_sdk_is_served_on_stdio_in_the_new_revision() {
    serves_python("2026-07-28").await;
}

#[tokio::test]
async fn the_python_sdk_is_served_on_stdio_in_the_revision_that_it_chooses() {
    serves_python("auto").await;
}

#[tokio::test]
async fn the_typescript_sdk_is_served_on_stdio() {
    let shell = Shell::new().await;
    let mut told = by_stdio(&shell);
    told["answer"] = json!("accept");
    assert_done(&run(&shell, typescript(), told).await);
    shell.end().await;
}

#[tokio::test]
async fn both_sdks_are_served_over_http_with_a_token() {
    for (client, mode) in [("python", "legacy"), ("python", "2026-07-28"), ("typescript", "")] {
        let port = Port::new().await;
        let token = port.token("boss", "approver").await;
        let url = format!("http://127.0.0.1:{}/mcp", port.number);
        let told = json!({"url": url, "token": token, "mode": mode, "answer": "accept"});
        let command = if client == "python" { python() } else { typescript() };
        assert_done(&run(&port.shell, command, told).await);
        let audit = port.shell.run(&["--json", "audit"]).await.ok().out;
        assert!(audit.contains("token boss"), "{audit}");
        port.shell.end().await;
    }
}

#[tokio::test]
async fn an_agents_token_cannot_answer_for_a_person() {
    for mode in ["legacy", "2026-07-28"] {
        let port = Port::new().await;
        let token = port.token("agent", "operator").await;
        let url = format!("http://127.0.0.1:{}/mcp", port.number);
        let told = json!({"url": url, "token": token, "mode": mode, "answer": "accept"});
        let seen = run(&port.shell, python(), told).await;
        assert_eq!(
            (&seen["asked"], &seen["told"]["status"]),
            (&json!([]), &json!("waiting_for_approval")),
            "{seen:#}"
        );
        assert!(!port.shell.home.workspace().join("made.txt").exists());
        port.shell.end().await;
    }
}

#[tokio::test]
async fn without_a_token_or_with_too_little_there_is_no_way_in() {
    let port = Port::new().await;
    let viewer = port.token("viewer", "viewer").await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}});
    assert_eq!(port.post("/mcp", &hello).send().await.status, 401);
    assert_eq!(port.post("/mcp", &hello).token("cbt_wrong").send().await.status, 401);
    let url = format!("http://127.0.0.1:{}/mcp", port.number);
    let told = json!({"url": url, "token": viewer, "mode": "2026-07-28"});
    let seen = run(&port.shell, python(), told).await;
    assert_eq!((&seen["is_error"], &seen["told"]["code"]), (&json!(true), &json!("forbidden")), "{seen:#}");
    port.shell.end().await;
}

/// The inspector's command line, and what it printed.
async fn inspect(shell: &Shell, server: &[&str], asked: &[&str]) -> Value {
    let mut inspector = Command::new(tools("mcp-inspector").join("node_modules/.bin/mcp-inspector"));
    inspector.arg("--cli").args(server).args(asked);
    inspector.env_clear().envs(shell.env()).current_dir(shell.home.workspace()).stdin(Stdio::null());
    shell.output(move || inspector.output().unwrap()).await.ok().json()
}

#[tokio::test]
async fn the_inspector_lists_the_tools_and_calls_one_on_stdio_and_over_http() {
    let port = Port::new().await;
    let url = format!("http://127.0.0.1:{}/mcp", port.number);
    let header = format!("Authorization: Bearer {}", port.token("inspector", "operator").await);
    // It gives the server none of its own environment.
    let env: Vec<String> = port.shell.env().iter().map(|(name, value)| format!("{name}={value}")).collect();
    let mut by_stdio: Vec<&str> = env.iter().flat_map(|pair| ["-e", pair.as_str()]).collect();
    by_stdio.extend([env!("CARGO_BIN_EXE_codex-bridge"), "mcp"]);
    let by_http = vec![url.as_str(), "--transport", "http", "--header", header.as_str()];
    let cwd = format!("cwd={}", port.shell.home.workspace().display());
    for server in [by_stdio, by_http] {
        let listed = inspect(&port.shell, &server, &["--method", "tools/list"]).await;
        let names: Vec<&Value> = listed["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(names, ["codex", "codex-reply", "codex_bridge"]);
        let call =
            ["--method", "tools/call", "--tool-name", "codex", "--tool-arg", "prompt=hi [play] say Hello."];
        let called = inspect(&port.shell, &server, &[&call[..], &["--tool-arg", &cwd]].concat()).await;
        assert_eq!(called["structuredContent"]["content"], "Hello.", "{called:#}");
    }
    port.shell.end().await;
}

/// A home for a Codex that has our server among its MCP servers, and needs no approval to call it.
fn outer_home(shell: &Shell, home: &Path) {
    fs::create_dir(home).unwrap();
    let env: Vec<String> =
        shell.env().into_iter().map(|(name, value)| format!("{name} = {value:?}")).collect();
    let servers = format!(
        "[mcp_servers.bridge]\ncommand = {:?}\nargs = [\"mcp\", \"--role\", \"approver\"]\ndefault_tools_approval_mode = \"approve\"\n\
         [mcp_servers.bridge.env]\n{}\n",
        env!("CARGO_BIN_EXE_codex-bridge"),
        env.join("\n")
    );
    fs::write(home.join("config.toml"), CodexConfig::new(shell.model.base_url()).extra(&servers).to_string())
        .unwrap();
}

async fn codex_exec(shell: &Shell, prompt: &str) -> Said {
    let home = shell.home.dir().join("outer");
    outer_home(shell, &home);
    let mut codex = Command::new(rig::codex_path());
    codex.args(["exec", "--json", "--skip-git-repo-check", prompt]);
    codex.env_clear().envs(shell.env()).env("CODEX_HOME", &home).current_dir(shell.home.workspace());
    codex.stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || codex.output().unwrap()).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
}

#[tokio::test]
async fn codex_itself_hands_work_to_codex() {
    let shell = Shell::new().await;
    let arguments = json!({"prompt": "inner [play] say Inner here.", "cwd": shell.home.workspace()});
    let said = codex_exec(&shell, &format!("outer [play] mcp bridge codex {arguments} => say Outer done."))
        .await
        .ok();
    let call = said
        .json_lines()
        .into_iter()
        .find(|line| line["type"] == "item.completed" && line["item"]["type"] == "mcp_tool_call");
    let call = call.unwrap_or_else(|| panic!("{}", said.out));
    assert_eq!(call["item"]["result"]["structured_content"]["content"], "Inner here.", "{call:#}");
    shell.end().await;
}

#[tokio::test]
async fn a_codex_that_says_no_without_asking_anyone_declines_nothing() {
    let shell = Shell::new().await;
    shell.model.script("inner", Scenario::new().exec("touch made.txt").then_say("Done."));
    let arguments = json!({"prompt": "inner", "cwd": shell.home.workspace(), "sandbox": "workspace-write", "approval_wait_s": 0});
    codex_exec(&shell, &format!("outer [play] mcp bridge codex {arguments} => say Outer done.")).await.ok();
    let open = shell.run(&["--json", "requests"]).await.ok().json();
    assert_eq!(open.as_array().unwrap().len(), 1, "{open:#}");
    shell.approve(open[0]["task_id"].as_str().unwrap()).await.ok();
    until("the file", || shell.home.workspace().join("made.txt").exists().then_some(())).await;
    shell.end().await;
}
