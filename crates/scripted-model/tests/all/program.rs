//! The program: scenarios from a file, releases over HTTP, a line for each request; and its MCP server.

use std::process::Stdio;
use std::time::Duration;

use scripted_model::{CodexConfig, Scenario};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::codex::Codex;

const DEADLINE: Duration = Duration::from_mins(2);

fn program(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_scripted-model"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

/// Sends a bare HTTP request; returns the whole answer.
async fn http(address: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    timeout(DEADLINE, stream.read_to_string(&mut answer)).await.unwrap().unwrap();
    answer
}

#[tokio::test]
async fn the_program_plays_scenarios_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("scenarios.json");
    let scenarios = json!({"greet": Scenario::new().stall("gate").say("Hello from a file.")});
    std::fs::write(&file, scenarios.to_string()).unwrap();
    let mut program = program(&["--port", "0", "--scenarios", file.to_str().unwrap()]);
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let base_url = lines.next_line().await.unwrap().unwrap();
    let address = base_url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap().to_owned();
    let mut codex = Codex::start_with(CodexConfig::new(base_url), json!({})).await;

    codex.prompt("please [scenario:greet]").await;
    let released = http(&address, "POST", "/release/gate").await;
    codex.wait_for("turn/completed").await;

    assert!(released.starts_with("HTTP/1.1 204"), "{released}");
    assert_eq!(codex.items("agentMessage")[0]["text"], "Hello from a file.");
    let shown = http(&address, "GET", "/requests").await;
    let requests: Value = serde_json::from_str(shown.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(requests[0]["path"], "/v1/responses");
    let mut logged = String::new();
    while !logged.contains("/v1/responses") {
        logged = timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(logged, r#"0 POST /v1/responses round 0 prompt "please [scenario:greet]""#);
    codex.end().await;
    program.kill().await.unwrap();
}

#[tokio::test]
async fn models_are_listed_and_unknown_paths_are_recorded() {
    let model = scripted_model::ScriptedModel::start().await.unwrap();
    let base_url = model.base_url();
    let address = base_url.strip_prefix("http://").unwrap().strip_suffix("/v1").unwrap();

    let models = http(address, "GET", "/v1/models").await;
    let unknown = http(address, "GET", "/v1/unheard/of?x=1").await;

    assert!(models.starts_with("HTTP/1.1 200") && models.contains("gpt-5.5"), "{models}");
    assert!(unknown.starts_with("HTTP/1.1 404"), "{unknown}");
    let paths: Vec<_> = model.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/v1/models", "/v1/unheard/of?x=1"]);
    model.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "a stopped model takes no connection");
}

#[tokio::test]
async fn a_file_that_is_no_scenario_is_refused_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.json");
    std::fs::write(&file, r#"{"x": [{"steps": ["jump"]}]}"#).unwrap();

    let output = program(&["--scenarios", file.to_str().unwrap()]).wait_with_output().await.unwrap();

    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("bad.json") && said.contains("jump"), "{said}");
}

#[tokio::test]
async fn an_mcp_server_leaves_when_its_input_ends_unless_told_to_stay() {
    let mut leaving = program(&["mcp-server"]);
    drop(leaving.stdin.take());
    assert!(timeout(DEADLINE, leaving.wait()).await.unwrap().unwrap().success());

    let mut staying = program(&["mcp-server", "--ignore-eof"]);
    let mut stdin = staying.stdin.take().unwrap();
    stdin.write_all(b"{\"id\": 1, \"method\": \"ping\"}\n").await.unwrap();
    let mut lines = BufReader::new(staying.stdout.take().unwrap()).lines();
    assert!(timeout(DEADLINE, lines.next_line()).await.unwrap().unwrap().is_some());
    drop(stdin);
    let gone = timeout(Duration::from_millis(300), staying.wait()).await;
    assert!(gone.is_err(), "it left: {gone:?}");
    staying.kill().await.unwrap();
}
