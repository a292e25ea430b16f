//! hermes-agent itself, as it is on PyPI: with the tool file of the example in its `tools` folder, and as an MCP client.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::mcp_clients::tools;
use crate::shell::{Said, Shell};

/// What hermes does with a tool: it finds it, offers it to its model, and makes the call that the model asked for.
const CALLER: &str = "
import json, sys
import model_tools
from tools.registry import registry
call = json.load(sys.stdin)
entry = registry.get_entry('codex_bridge')
offered = model_tools.get_tool_definitions(enabled_toolsets=['codex_bridge'], quiet_mode=True)
reply = model_tools.handle_function_call('codex_bridge', call, task_id='t', session_id='s')
print(json.dumps({'toolset': entry.toolset, 'schema': entry.schema, 'reply': json.loads(reply),
                  'offered': [tool['function'] for tool in offered]}))
";

/// A copy of hermes's `tools` folder, which comes before its own, with the example in it.
fn hermes(shell: &Shell) -> PathBuf {
    let dir = shell.home.dir().join("hermes");
    fs::create_dir_all(dir.join("tools")).unwrap();
    let lib = fs::read_dir(tools("hermes").join("lib")).unwrap().next().unwrap().unwrap().path();
    let copied =
        Command::new("cp").arg("-r").arg(lib.join("site-packages/tools")).arg(&dir).status().unwrap();
    assert!(copied.success());
    fs::write(dir.join("caller.py"), CALLER).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hermes/codex_bridge_tool.py");
    fs::copy(example, dir.join("tools/codex_bridge_tool.py")).unwrap();
    dir
}

async fn call(shell: &Shell, dir: &Path, program: &str, call: Value) -> Value {
    let mut python = Command::new(tools("hermes").join("bin/python"));
    python.arg("caller.py").env_clear().envs(shell.env()).env("CODEX_BRIDGE_BIN", program).current_dir(dir);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let said = shell.output(move || {
        let mut child = python.spawn().expect("python runs");
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), call.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    said.await.ok().json()
}

#[tokio::test]
async fn hermes_finds_the_tool_with_its_schema_and_hands_work_over() {
    let shell = Shell::new().await;
    let dir = hermes(&shell);
    let program = env!("CARGO_BIN_EXE_codex-bridge");
    let start = json!({"action": "start", "prompt": "hello [play] say Hello."});
    let told = call(&shell, &dir, program, start).await;
    let schema = shell.run(&["tool", "--schema"]).await.ok().json();
    assert_eq!((&told["toolset"], &told["schema"]), (&json!("codex_bridge"), &schema));
    // Hermes adds to a schema what some models need, and takes nothing away.
    let offered = &told["offered"][0];
    assert_eq!(
        (&offered["name"], &offered["description"]),
        (&schema["name"], &schema["description"]),
        "{told:#}"
    );
    let names = |schema: &Value| {
        schema["parameters"]["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(names(offered), names(&schema));
    assert_eq!(told["reply"]["success"], true, "{told:#}");
    let wait = json!({"action": "wait", "task_id": told["reply"]["task_id"]});
    let ended = call(&shell, &dir, program, wait).await;
    assert_eq!(ended["reply"]["task"]["final_text"], "Hello.", "{ended:#}");
    let refused = json!({"action": "start", "prompt": "x", "sandbox": "danger-full-access"});
    let refused = call(&shell, &dir, program, refused).await;
    assert_eq!(refused["reply"]["code"], "sandbox_refused", "{refused:#}");
    shell.end().await;
}

#[tokio::test]
async fn without_the_program_the_tool_is_not_offered_and_says_why() {
    let shell = Shell::new().await;
    let dir = hermes(&shell);
    let told = call(&shell, &dir, "/nowhere/codex-bridge", json!({"action": "list"})).await;
    assert_eq!((&told["offered"], &told["reply"]["code"]), (&json!([]), &json!("not_installed")));
}

#[tokio::test]
async fn hermes_reaches_the_mcp_server_by_the_lines_of_the_manual() {
    let shell = Shell::new().await;
    let home = shell.home.dir().join("hermes-home");
    fs::create_dir(&home).unwrap();
    let manual = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/mcp.md")).unwrap();
    let lines = manual.split("```").find_map(|block| block.strip_prefix("yaml\n")).unwrap();
    let program = format!("command: {}", env!("CARGO_BIN_EXE_codex-bridge"));
    assert!(lines.contains("command: codex-bridge\n"), "{lines}");
    fs::write(home.join("config.yaml"), lines.replace("command: codex-bridge", &program)).unwrap();
    let mut hermes = Command::new(tools("hermes").join("bin/hermes"));
    hermes.args(["mcp", "test", "codex"]).env_clear().envs(shell.env()).env("HERMES_HOME", &home);
    hermes.stdin(Stdio::null()).current_dir(shell.home.workspace());
    let said: Said = shell.output(move || hermes.output().unwrap()).await.ok();
    assert!(said.out.contains("Tools discovered: 3"), "{}{}", said.out, said.err);
}
