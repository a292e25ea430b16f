//! An MCP client on stdio that reads and writes plain JSON lines, without an SDK.

use std::collections::VecDeque;
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::shell::{PATIENCE, Shell};

/// The arguments of a server whose clients may also approve.
pub const APPROVER: [&str; 2] = ["--role", "approver"];
/// The revision without `initialize`.
pub const MODERN: &str = "2026-07-28";

/// How long a person takes to answer. A faster answer is ignored.
pub async fn take_a_moment() {
    tokio::time::sleep(Duration::from_millis(350)).await;
}

/// A running `codex-bridge mcp` and its client.
pub struct Mcp {
    pub child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
    last_id: u64,
    /// Messages that arrived while another one was awaited.
    aside: VecDeque<Value>,
    /// The `_meta` of every request.
    meta: Option<Value>,
}

impl Shell {
    /// A client of an older revision that declares these capabilities.
    pub async fn mcp(&self, capabilities: Value) -> Mcp {
        self.mcp_with(&[], capabilities).await
    }

    /// As above, with these arguments for the server.
    pub async fn mcp_with(&self, args: &[&str], capabilities: Value) -> Mcp {
        let mut mcp = Mcp::start(self, args, None);
        let hello = json!({
            "protocolVersion": "2025-06-18", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let welcome = mcp.call("initialize", hello).await;
        assert_eq!(welcome["result"]["protocolVersion"], "2025-06-18", "{welcome:#}");
        assert_eq!(welcome["result"]["serverInfo"]["name"], "codex-bridge");
        mcp.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        mcp
    }

    /// A client of the newest revision that declares these capabilities with every request, and may approve.
    pub fn modern_mcp(&self, capabilities: &Value) -> Mcp {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        Mcp::start(self, &APPROVER, Some(meta))
    }
}

impl Mcp {
    fn start(shell: &Shell, args: &[&str], meta: Option<Value>) -> Self {
        let mut command = Command::from(shell.command(&[&["mcp"], args].concat()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, stdin, lines, last_id: 0, aside: VecDeque::new(), meta }
    }

    pub async fn send(&mut self, message: Value) {
        self.write(&format!("{message}\n")).await;
    }

    /// Writes a raw line.
    pub async fn write(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).await.unwrap();
    }

    /// Sends a request and returns its id.
    pub async fn ask(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_id += 1;
        if let Some(meta) = &self.meta {
            let mut whole = meta.clone();
            let own = params["_meta"].as_object().cloned().unwrap_or_default();
            whole.as_object_mut().unwrap().extend(own);
            params["_meta"] = whole;
        }
        self.send(json!({"jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params})).await;
        self.last_id
    }

    /// The first matching message, already received or not.
    pub async fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(found) = self.aside.iter().position(&fits) {
            return self.aside.remove(found).unwrap();
        }
        let waiting = async {
            loop {
                let line = self.lines.next_line().await.unwrap();
                let line = line.unwrap_or_else(|| panic!("the server ended before {what}"));
                let message: Value = serde_json::from_str(&line).unwrap();
                if fits(&message) {
                    return message;
                }
                self.aside.push_back(message);
            }
        };
        let found = timeout(PATIENCE, waiting).await;
        found.unwrap_or_else(|_| panic!("waited in vain for {what}"))
    }

    /// The answer to a request.
    pub async fn answer(&mut self, id: u64) -> Value {
        self.until(&format!("the answer to {id}"), |it| it["id"] == id && it.get("method").is_none()).await
    }

    /// A request and its answer.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.ask(method, params).await;
        self.answer(id).await
    }

    /// Begins a call of a tool and returns its id. Its progress comes under that id too.
    pub async fn begin(&mut self, tool: &str, arguments: Value) -> u64 {
        let token = self.last_id + 1;
        self.ask(
            "tools/call",
            json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": token}}),
        )
        .await
    }

    /// A call of a tool and its result.
    pub async fn tool(&mut self, tool: &str, arguments: Value) -> Value {
        let id = self.begin(tool, arguments).await;
        self.result(id).await
    }

    /// The result of a request.
    pub async fn result(&mut self, id: u64) -> Value {
        let answer = self.answer(id).await;
        assert!(answer["result"].is_object(), "{answer:#}");
        answer["result"].clone()
    }

    /// The next request from the server with this method.
    pub async fn asked(&mut self, method: &str) -> Value {
        self.until(method, |it| it["method"] == method && it.get("id").is_some()).await
    }

    /// Answers a request from the server.
    pub async fn reply(&mut self, request: &Value, result: Value) {
        self.send(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).await;
    }

    /// Waits for a progress message of a call with this text.
    pub async fn progress(&mut self, id: u64, says: &str) -> String {
        let fits = |it: &Value| {
            it["method"] == "notifications/progress"
                && it["params"]["progressToken"] == id
                && it["params"]["message"].as_str().is_some_and(|message| message.contains(says))
        };
        let told = self.until(&format!("progress that says {says:?}"), fits).await;
        told["params"]["message"].as_str().unwrap().to_owned()
    }

    /// Stops the server by closing its stdin, as clients do.
    pub async fn end(self) {
        let Self { mut child, stdin, .. } = self;
        drop(stdin);
        let ended = timeout(PATIENCE, child.wait()).await.expect("the server does not end with its stdin");
        assert!(ended.unwrap().success());
    }

    /// Kills the server.
    pub async fn kill(mut self) {
        self.child.kill().await.unwrap();
    }
}
