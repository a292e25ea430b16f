//! The example for hermes-agent, in a real Python with a stand-in for hermes's registry.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::shell::{Said, Shell};

/// What of hermes's registry the example needs: it keeps what is registered, and calls it as hermes does.
const REGISTRY: &str = "
class Registry:
    tools = {}
    def register(self, name, toolset, schema, handler, check_fn=None, **more):
        assert isinstance(schema, dict) and isinstance(schema['parameters'], dict)
        self.tools[name] = (toolset, schema, handler, check_fn)
registry = Registry()
";
/// Imports the example as hermes does, and makes one call from stdin.
const CALLER: &str = "
import importlib, json, sys
from tools.registry import registry
importlib.import_module('tools.codex_bridge_tool')
toolset, schema, handler, check = registry.tools['codex_bridge']
call = json.load(sys.stdin)
print(json.dumps({'toolset': toolset, 'schema': schema, 'available': check(),
                  'reply': json.loads(handler(call, task_id='t', session_id='s'))}))
";

/// A folder that looks like hermes-agent's, with the example in it.
fn hermes(shell: &Shell) -> PathBuf {
    let dir = shell.home.dir().join("hermes");
    fs::create_dir_all(dir.join("tools")).unwrap();
    fs::write(dir.join("tools/__init__.py"), "").unwrap();
    fs::write(dir.join("tools/registry.py"), REGISTRY).unwrap();
    fs::write(dir.join("caller.py"), CALLER).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/hermes/codex_bridge_tool.py");
    fs::copy(example, dir.join("tools/codex_bridge_tool.py")).unwrap();
    dir
}

async fn call(shell: &Shell, dir: &Path, program: &str, call: Value) -> Value {
    let mut python = std::process::Command::new("python3");
    python.arg("caller.py").env_clear().envs(shell.env()).env("CODEX_BRIDGE_BIN", program).current_dir(dir);
    python
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let output = tokio::task::spawn_blocking(move || {
        let mut child = python.spawn().expect("python3 runs");
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), call.to_string().as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    });
    let output = output.await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
        .ok()
        .json()
}

#[tokio::test]
async fn hermes_finds_the_tool_with_its_schema_and_hands_work_over() {
    let shell = Shell::new().await;
    let dir = hermes(&shell);
    let program = env!("CARGO_BIN_EXE_codex-bridge");
    let start = json!({"action": "start", "prompt": "hello [play] say Hello."});
    let told = call(&shell, &dir, program, start).await;
    assert_eq!((&told["toolset"], &told["available"]), (&json!("codex_bridge"), &json!(true)));
    assert_eq!(told["schema"], shell.run(&["tool", "--schema"]).await.ok().json());
    assert_eq!(told["reply"]["success"], true, "{told:#}");
    let wait = json!({"action": "wait", "task_id": told["reply"]["task_id"]});
    let ended = call(&shell, &dir, program, wait).await;
    assert_eq!(ended["reply"]["task"]["final_text"], "Hello.", "{ended:#}");
    let refused = call(
        &shell,
        &dir,
        program,
        json!({"action": "start", "prompt": "x", "sandbox": "danger-full-access"}),
    )
    .await;
    assert_eq!(refused["reply"]["code"], "sandbox_refused", "{refused:#}");
    shell.end().await;
}

#[tokio::test]
async fn without_the_program_the_tool_is_not_offered_and_says_why() {
    let shell = Shell::new().await;
    let dir = hermes(&shell);
    let told = call(&shell, &dir, "/nowhere/codex-bridge", json!({"action": "list"})).await;
    assert_eq!((&told["available"], &told["reply"]["code"]), (&json!(false), &json!("not_installed")));
}
