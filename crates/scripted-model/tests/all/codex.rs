//! A real `codex app-server` on stdio with a home of its own: as small as these tests allow.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use scripted_model::{CodexConfig, ScriptedModel};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

/// Long enough for a busy machine; a test that waits this long has failed.
const DEADLINE: Duration = Duration::from_mins(1);

/// Codex with the thread that it works on, and all that it said.
pub struct Codex {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
    folder: TempDir,
    pub thread_id: String,
    pub seen: Vec<Value>,
    next_id: u64,
}

impl Codex {
    /// Boots Codex on the model with the default configuration and starts a thread.
    pub async fn start(model: &ScriptedModel) -> Self {
        Self::start_with(CodexConfig::new(model.base_url()), json!({})).await
    }

    /// Boots Codex with this configuration and starts a thread with these parameters on top of the defaults:
    /// nothing asked, nothing sandboxed.
    pub async fn start_with(config: CodexConfig, thread: Value) -> Self {
        let folder = TempDir::new_in(target_folder()).unwrap();
        for name in ["home", "codex", "work", "tmp"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        std::fs::write(folder.path().join("codex/config.toml"), config.to_string()).unwrap();
        let mut child = Command::new(binary())
            .arg("app-server")
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", folder.path().join("home"))
            .env("CODEX_HOME", folder.path().join("codex"))
            .env("TMPDIR", folder.path().join("tmp"))
            .env("SCRIPTED_KEY", "sk-scripted")
            .current_dir(folder.path().join("work"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(std::fs::File::create(folder.path().join("stderr.txt")).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        let (thread_id, seen) = (String::new(), Vec::new());
        let mut codex = Self { child, stdin, stdout, folder, thread_id, seen, next_id: 0 };
        let initialize = json!({
            "clientInfo": {"name": "scripted_model_tests", "version": "0"},
            "capabilities": {"experimentalApi": true},
        });
        codex.request("initialize", initialize).await;
        let mut start = json!({
            "cwd": codex.work(), "approvalPolicy": "never", "sandbox": "danger-full-access",
        });
        start.as_object_mut().unwrap().extend(thread.as_object().unwrap().clone());
        let started = codex.request("thread/start", start).await;
        started["thread"]["id"].as_str().expect("a thread").clone_into(&mut codex.thread_id);
        codex
    }

    /// The folder that the thread works in.
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub async fn prompt(&mut self, text: &str) {
        let input = json!([{"type": "text", "text": text}]);
        let params = json!({"threadId": self.thread_id, "input": input});
        self.request("turn/start", params).await;
    }

    /// Runs a turn to its end; returns the turn as `turn/completed` reports it.
    pub async fn run(&mut self, prompt: &str) -> Value {
        self.prompt(prompt).await;
        self.wait_for("turn/completed").await["params"]["turn"].clone()
    }

    /// Runs a turn, answers what Codex asks in it; returns the requests that it made.
    pub async fn run_answering(&mut self, prompt: &str, answer: impl Fn(&Value) -> Value) -> Vec<Value> {
        self.prompt(prompt).await;
        let mut asked = Vec::new();
        loop {
            let message = self.read().await;
            if message["method"] == "turn/completed" {
                return asked;
            }
            if message.get("id").is_some() && message.get("method").is_some() {
                self.answer(&message, answer(&message)).await;
                asked.push(message);
            }
        }
    }

    /// Reads on to the next message with this method.
    pub async fn wait_for(&mut self, method: &str) -> Value {
        loop {
            let message = self.read().await;
            if message["method"] == method {
                return message;
            }
        }
    }

    pub async fn request(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        self.write(&json!({"id": id, "method": method, "params": params})).await;
        loop {
            let message = self.read().await;
            if message["id"] == id && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{method}: {message}");
                return message["result"].clone();
            }
        }
    }

    /// Answers a request of Codex's.
    pub async fn answer(&mut self, request: &Value, result: Value) {
        self.write(&json!({"id": request["id"], "result": result})).await;
    }

    /// The completed items of a type, in order.
    pub fn items(&self, kind: &str) -> Vec<Value> {
        let completed = self.seen.iter().filter(|message| message["method"] == "item/completed");
        completed.map(|m| m["params"]["item"].clone()).filter(|item| item["type"] == kind).collect()
    }

    /// Parameters of all notifications of a method so far.
    pub fn notified(&self, method: &str) -> Vec<Value> {
        self.seen.iter().filter(|m| m["method"] == method).map(|m| m["params"].clone()).collect()
    }

    /// Closes stdin and waits until Codex has left.
    pub async fn end(mut self) {
        drop(self.stdin);
        timeout(DEADLINE, self.child.wait()).await.expect("codex leaves").unwrap();
    }

    async fn write(&mut self, message: &Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn read(&mut self) -> Value {
        let line = timeout(DEADLINE, self.stdout.next_line()).await;
        let line = line.unwrap_or_else(|_| panic!("silence after {:#?}", self.seen.last())).unwrap();
        let message: Value = serde_json::from_str(&line.expect("codex lives")).unwrap();
        self.seen.push(message.clone());
        message
    }
}

/// codex 0.166 makes no helper links under the system's temporary directory, so its home is elsewhere.
fn target_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
}

fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("CODEX_TEST_BIN") {
        return path.into();
    }
    let package = "../../.tools/codex/node_modules/@openai/codex-linux-x64";
    let binary = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join(package)
        .join("vendor/x86_64-unknown-linux-musl/bin/codex");
    assert!(binary.exists(), "no codex: run `cargo xtask setup`, or set CODEX_TEST_BIN");
    binary
}
