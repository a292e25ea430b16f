//! A shell of one's own: the built program on the real Codex with the scripted model, in a home of its own.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use scripted_model::{CodexConfig, Scenario, ScriptedModel, ToolCall};
use serde_json::{Value, json};
use testkit::rig::{self, Home};

/// Nothing here takes longer.
pub const PATIENCE: Duration = Duration::from_mins(2);

/// A home, a model, and a state directory.
pub struct Shell {
    pub model: ScriptedModel,
    pub home: Home,
}

/// What a command said.
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// The built program, as it lies beside the running test: `cargo xtask ordinary-user` runs copies of both, where everybody can
/// read them.
pub fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().parent().unwrap().join("codex-bridge")
}

impl Shell {
    /// The daemon's log once it has this text. The daemon writes its log beside its work, so a line may come later.
    pub async fn log_with(&self, text: &str) -> String {
        let file = self.home.dir().join("st/daemon.log");
        let read = || std::fs::read_to_string(&file).ok().filter(|log| log.contains(text));
        until(&format!("{text:?} in the log"), read).await
    }

    pub async fn new() -> Self {
        let model = ScriptedModel::start().await.unwrap();
        let config = CodexConfig::new(model.base_url()).feature("default_mode_request_user_input", true);
        let home = Home::with_config(&config.to_string());
        let config = format!("codex_bin = \"{}\"\n", rig::codex_path().display());
        fs::create_dir(home.dir().join("st")).unwrap();
        fs::write(home.dir().join("config.toml"), config).unwrap();
        Self { model, home }
    }

    /// The whole environment of a command.
    pub fn env(&self) -> Vec<(String, String)> {
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let mut env = self.home.env();
        env.push(("CODEX_BRIDGE_STATE_DIR".into(), text(self.home.dir().join("st"))));
        env.push(("CODEX_BRIDGE_CONFIG".into(), text(self.home.dir().join("config.toml"))));
        env.push(("XDG_DATA_HOME".into(), text(self.home.dir().join("data"))));
        env
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.args(args).env_clear().envs(self.env()).current_dir(self.home.workspace());
        command.stdin(Stdio::null());
        command
    }

    /// Runs a command to its end, outside the runtime that the model lives on.
    pub async fn run(&self, args: &[&str]) -> Said {
        let mut command = self.command(args);
        self.output(move || command.output().unwrap()).await
    }

    /// Approves the only open request of a task, as somebody who read it.
    pub async fn approve(&self, id: &str) -> Said {
        let open = self.run(&["--json", "requests", id]).await.ok().json();
        let request_id = open[0]["request_id"].as_str().unwrap_or_else(|| panic!("nothing is open: {open}"));
        self.run(&["--json", "approve", id, request_id]).await
    }

    /// The same with something on its stdin.
    pub async fn run_with_input(&self, args: &[&str], input: &str) -> Said {
        let mut command = self.command(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let input = input.to_owned();
        self.output(move || {
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
            child.wait_with_output().unwrap()
        })
        .await
    }

    pub async fn output(&self, run: impl FnOnce() -> Output + Send + 'static) -> Said {
        let output = tokio::task::spawn_blocking(run).await.unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code().unwrap_or(-1), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Hands over work and returns its id.
    pub async fn start(&self, prompt: &str) -> String {
        let said = self.run(&["--json", "run", "-d", "-s", "workspace-write", prompt]).await.ok();
        said.json()["task_id"].as_str().unwrap().to_owned()
    }

    /// Hands over work and waits until it asks for something.
    pub async fn start_asking(&self, prompt: &str) -> (String, Value) {
        let id = self.start(prompt).await;
        let task = self.run(&["--json", "wait", &id, "--timeout", "120"]).await;
        assert_eq!(task.code, 3, "{}{}", task.out, task.err);
        let request = task.json()["pending_requests"][0].clone();
        (id, request)
    }

    /// Lets a prompt ask the user by a form of an MCP server, whose name is `desk`.
    pub fn script_form(&self, prompt: &str, schema: &Value) {
        let program = testkit::bin("scripted-model");
        let config = CodexConfig::new(self.model.base_url());
        let config = config.mcp_server("desk", program.to_str().unwrap(), &["mcp-server"]);
        self.home.write_config(&config.to_string());
        let call = ToolCall::mcp("desk", "ask", json!({"text": "Which colour?", "schema": schema}));
        self.model.script(prompt, Scenario::new().call(call).then_say("Painted."));
    }

    /// Whether the MCP server was told exactly this content of a form.
    pub fn is_told(&self, content: &str) -> bool {
        let told = |body: &str| {
            let body = body.replace('\\', "");
            body.contains("the user answered") && body.contains(&format!("\"content\":{content}"))
        };
        self.model.requests().iter().any(|request| told(&request.body.to_string()))
    }

    /// Ends the daemon and its hosts.
    pub async fn end(self) {
        let said = self.run(&["stop", "--hosts"]).await;
        assert_eq!(said.code, 0, "{}{}", said.out, said.err);
        self.home.assert_no_processes().await;
    }
}

impl Said {
    /// It went well.
    pub fn ok(self) -> Self {
        assert_eq!(self.code, 0, "out: {}\nerr: {}", self.out, self.err);
        self
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error}\nout: {}\nerr: {}", self.out, self.err))
    }

    pub fn json_lines(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The failure on stderr.
    pub fn failure(&self) -> Value {
        let line = self.err.lines().last().unwrap_or_default();
        let told: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {}", self.err));
        told["error"].clone()
    }
}

/// Looks again and again until it is so.
pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < PATIENCE, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
