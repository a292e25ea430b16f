//! What the tests of hosts share: a launch on the real Codex, a bare client, and a look at processes.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use codex_wire::host::{EnvPolicy, Host, Identity, KeeperCommand, Launch};
use codex_wire::os::process::{self, Process};
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use testkit::rig::{Home, codex};
use testkit::wait_until;
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Longer than anything here takes, shorter than the patience of whoever runs the tests.
pub const LONG: Duration = Duration::from_mins(2);

/// An MCP server that heeds neither the end of its input nor a polite signal.
pub const STUBBORN_MCP: &str = r#"
[mcp_servers.stubborn]
command = "sh"
args = ["-c", "trap '' HUP TERM INT; while :; do sleep 1; done"]
"#;

/// A home whose Codex has no model that it can reach and this at the end of its configuration.
pub fn home_with(extra: &str) -> Home {
    Home::with_config(&scripted_model::codex_config("http://127.0.0.1:9/v1", extra))
}

/// A program of ours that is built as an example.
pub fn example(name: &str) -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let path = this.parent().unwrap().parent().unwrap().join("examples").join(name);
    assert!(path.is_file(), "{} is not built", path.display());
    path
}

/// A launch of the real Codex in this home, in a directory of this name.
pub fn launch_in(home: &Home, name: &str) -> Launch {
    let codex = codex();
    Launch {
        keeper: KeeperCommand { program: example("keeper"), args: Vec::new() },
        codex: codex.executable,
        version: codex.version.to_string(),
        identity: Identity { codex_home: Some(home.codex_home()), ..Identity::default() },
        dir: home.dir().join(name),
        parent_env: home.env().into_iter().collect::<BTreeMap<_, _>>(),
        env: EnvPolicy::default(),
        config: Vec::new(),
        ready_timeout: LONG,
    }
}

/// Another program that does this launch and lives until its stdin is closed.
pub fn launching_program(launch: &Launch, home: &Home) -> Command {
    let mut command = Command::new(example("launch_host"));
    command.args([&launch.keeper.program, &launch.codex]).arg(&launch.version);
    command.args([&home.codex_home(), &launch.dir]).env_clear().envs(&launch.parent_env);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    command
}

/// Starts the real Codex in this home.
pub async fn host_in(home: &Home) -> Host {
    Host::launch(&launch_in(home, "h")).await.unwrap()
}

/// A client that knows as little as possible.
pub struct Client {
    socket: WebSocketStream<UnixStream>,
    last_id: u64,
}

impl Client {
    /// Connects and shakes hands.
    pub async fn connect(host: &Host) -> Client {
        let stream = host.connect_stream().await.unwrap();
        let (socket, _) = tokio_tungstenite::client_async("ws://localhost/", stream).await.unwrap();
        let mut client = Client { socket, last_id: 0 };
        let info = json!({"name": "host-test", "version": "1"});
        let capabilities = json!({"experimentalApi": true});
        client.call("initialize", json!({"clientInfo": info, "capabilities": capabilities})).await;
        client.send_text(json!({"method": "initialized"}).to_string()).await;
        client
    }

    /// Sends one frame.
    pub async fn send_text(&mut self, text: String) {
        self.socket.send(Message::text(text)).await.unwrap();
    }

    /// Sends a request and does not wait.
    pub async fn send(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send_text(json!({"id": self.last_id, "method": method, "params": params}).to_string()).await;
        self.last_id
    }

    /// Sends a request and waits for its result.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        let answer = self.until(|message| message["id"] == id && message["method"].is_null()).await;
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Waits for a message.
    pub async fn until(&mut self, found: impl Fn(&Value) -> bool) -> Value {
        let wanted = async {
            loop {
                let message = self.socket.next().await.expect("the connection stays open").unwrap();
                let Ok(message) = serde_json::from_str::<Value>(message.to_text().unwrap_or("")) else {
                    continue;
                };
                if found(&message) {
                    return message;
                }
            }
        };
        tokio::time::timeout(LONG, wanted).await.expect("the message comes in time")
    }

    /// Starts a thread that may do anything unasked.
    pub async fn start_thread(&mut self, home: &Home) -> String {
        let params =
            json!({"cwd": home.workspace(), "sandbox": "danger-full-access", "approvalPolicy": "never"});
        let result = self.call("thread/start", params).await;
        result["thread"]["id"].as_str().unwrap().to_owned()
    }
}

/// What Codex has below it: an MCP server, and a command in a session of its own. Neither wants to go.
pub struct Children {
    mcp_server: Process,
    command: Process,
    // codex 0.166 ends such a command together with the connection that asked for it.
    _client: Client,
}

/// Makes Codex start both.
pub async fn start_children(host: &Host, home: &Home) -> Children {
    let mut client = Client::connect(host).await;
    client.start_thread(home).await;
    // codex 0.166: the kernel sends commands a SIGTERM when codex dies.
    let stubborn = ["sh", "-c", "trap '' HUP TERM; sleep 600"];
    let command = json!({"command": stubborn, "processId": "p", "disableTimeout": true,
        "sandboxPolicy": {"type": "dangerFullAccess"}});
    client.send("command/exec", command).await;
    let keeper = host.record().keeper.pid;
    let below = |text: &str, in_session: bool| {
        let mut all = process::descendants(host.record().codex.pid).into_iter();
        all.find(|process| {
            let stat = process::stat(process.pid);
            let line = process::command_line(process.pid);
            line.is_some_and(|line| line.starts_with(text))
                && stat.is_some_and(|stat| (stat.session == keeper) == in_session)
        })
    };
    // The command's own child: once it runs, the shell above it has set its trap.
    let both = || below("sh -c trap '' HUP TERM INT", true).zip(below("sleep 600", false));
    wait_until(LONG, "an MCP server in the session and a command in its own", || both().is_some()).await;
    let (mcp_server, command) = both().unwrap();
    Children { mcp_server, command, _client: client }
}

impl Children {
    pub fn alive(&self) -> [bool; 2] {
        [self.mcp_server.is_alive(), self.command.is_alive()]
    }
}

/// The environment that a process was started with.
pub fn environment_of(pid: u32) -> BTreeMap<String, String> {
    let text = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    let entries = text.split(|byte| *byte == 0).filter_map(|entry| {
        let (name, value) = std::str::from_utf8(entry).unwrap().split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    });
    entries.collect()
}
