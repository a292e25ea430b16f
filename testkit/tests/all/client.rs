//! The smallest client that can talk to an app-server, scripted or real.

use std::path::Path;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::ScriptedServer;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

const LIMIT: Duration = Duration::from_secs(20);

pub struct Client {
    wire: Wire,
    next_id: u64,
    /// Messages that came while an answer was awaited.
    early: Vec<Value>,
}

enum Wire {
    Stdio { child: Child, input: ChildStdin, output: BufReader<ChildStdout> },
    Socket(WebSocketStream<UnixStream>),
}

impl Client {
    pub fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { wire: Wire::Stdio { child, input, output }, next_id: 0, early: Vec::new() }
    }

    pub async fn connect(socket: &Path) -> Self {
        let stream = UnixStream::connect(socket).await.unwrap();
        let unlimited = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, _) =
            tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(unlimited))
                .await
                .unwrap();
        Self { wire: Wire::Socket(socket), next_id: 0, early: Vec::new() }
    }

    /// A client of a scripted server on stdio, after the handshake.
    pub async fn of(server: &ScriptedServer) -> Self {
        let mut client = Self::spawn(&mut server.command());
        client.initialize().await;
        client
    }

    pub async fn initialize(&mut self) -> Value {
        let client_info = json!({ "name": "tiny", "title": "Tiny", "version": "1.0" });
        let capabilities = json!({ "experimentalApi": true });
        let params = json!({ "clientInfo": client_info, "capabilities": capabilities });
        let result = self.call("initialize", params).await["result"].clone();
        self.send(&json!({ "method": "initialized" })).await;
        result
    }

    /// Starts a thread and gives its id.
    pub async fn thread(&mut self) -> String {
        let answer = self.call("thread/start", json!({ "cwd": "/ws" })).await;
        answer["result"]["thread"]["id"].as_str().unwrap().to_owned()
    }

    /// Starts a turn with a prompt.
    pub async fn turn(&mut self, thread: &str, prompt: &str) -> Value {
        self.call("turn/start", turn_params(thread, prompt)).await
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_text(message.to_string()).await;
    }

    pub async fn send_text(&mut self, text: String) {
        match &mut self.wire {
            Wire::Stdio { input, .. } => input.write_all(format!("{text}\n").as_bytes()).await.unwrap(),
            Wire::Socket(socket) => socket.send(Message::text(text)).await.unwrap(),
        }
    }

    /// Sends a request and gives its answer; what comes before it is kept for [`Client::next`].
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.post(method, params).await;
        let mut before = Vec::new();
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("no answer to {method}"));
            if message["id"] == id && message.get("method").is_none() {
                self.early.splice(0..0, before);
                return message;
            }
            before.push(message);
        }
    }

    /// Sends a request without waiting for its answer.
    pub async fn post(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        self.send(&json!({ "id": id, "method": method, "params": params })).await;
        id
    }

    /// The next message; none when the server has closed the connection.
    pub async fn next(&mut self) -> Option<Value> {
        if self.early.is_empty() {
            self.next_text().await.map(|text| serde_json::from_str(&text).expect(&text))
        } else {
            Some(self.early.remove(0))
        }
    }

    /// The next line or frame as it is.
    pub async fn next_text(&mut self) -> Option<String> {
        tokio::time::timeout(LIMIT, self.wire.next_text()).await.expect("the server sends something")
    }

    /// The next message with this method; what comes before it is passed over.
    pub async fn next_of(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await.unwrap_or_else(|| panic!("the connection ended before {method}"));
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Whether nothing more comes within a moment.
    pub async fn is_silent(&mut self) -> bool {
        self.early.is_empty()
            && tokio::time::timeout(Duration::from_millis(200), self.wire.next_text()).await.is_err()
    }

    /// Closes stdin, waits for the end, and gives the exit code and what stderr said.
    pub async fn finish(self) -> (Option<i32>, String) {
        let Wire::Stdio { mut child, input, .. } = self.wire else { panic!("a socket has no process") };
        drop(input);
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        let status = tokio::time::timeout(LIMIT, child.wait()).await.expect("the server ends").unwrap();
        (status.code(), said)
    }
}

impl Wire {
    async fn next_text(&mut self) -> Option<String> {
        match self {
            Self::Stdio { output, .. } => {
                let mut line = Vec::new();
                let count = output.read_until(b'\n', &mut line).await.unwrap();
                (count > 0).then(|| String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned())
            }
            Self::Socket(socket) => match socket.next().await {
                Some(Ok(Message::Text(text))) => Some(text.to_string()),
                _ => None,
            },
        }
    }
}

pub fn turn_params(thread: &str, prompt: &str) -> Value {
    let input = json!([{ "type": "text", "text": prompt, "text_elements": [] }]);
    json!({ "threadId": thread, "input": input, "clientUserMessageId": "mine-1" })
}
