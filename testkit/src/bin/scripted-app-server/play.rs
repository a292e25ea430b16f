//! Plays the steps of a rule, one after the other, beside all other rules that are being played.

use std::collections::HashMap;
use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::script::Step;
use tokio::sync::oneshot;

use crate::defaults::{self, Situation};
use crate::server::Server;
use crate::state::{Output, Thread};
use crate::template::{Names, now_ms, rollout};

/// A client that does not read cannot keep the process from its scripted exit for longer than this.
const LAST_WORDS_LIMIT: Duration = Duration::from_secs(5);
const FILE_POLL: Duration = Duration::from_millis(5);

/// The client's message that a rule is played for.
#[derive(Default)]
pub struct Call {
    /// Where it came from.
    pub connection: u64,
    /// Its id; a notification has none.
    pub id: Option<Value>,
    /// Its method.
    pub method: String,
    /// Its parameters.
    pub params: Value,
    /// The thread that it is about.
    pub thread: String,
    /// The turn that it is about.
    pub turn: String,
    /// How often the method was called by now.
    pub nth: u64,
    /// Whether the connection had called `initialize` before.
    pub was_initialized: bool,
}

impl Call {
    /// What stands in for a message when a connection is opened.
    pub fn opening(connection: u64) -> Self {
        Self { connection, ..Self::default() }
    }
}

/// Begins to play steps for a call.
pub fn begin(server: &Arc<Server>, call: Call, steps: &[Step]) {
    let calls_before = server.state().calls.clone();
    let n = call.nth.saturating_sub(1);
    let item = "item_000000".to_owned();
    let mut player = Player { server: Arc::clone(server), call, calls_before, n, item };
    let steps = steps.to_vec();
    tokio::spawn(async move { player.play(&steps).await });
}

struct Player {
    server: Arc<Server>,
    call: Call,
    /// How many calls of each method were seen when the rule began, and those that a step has waited for.
    calls_before: HashMap<String, u64>,
    n: u64,
    item: String,
}

impl Player {
    fn play<'a>(&'a mut self, steps: &'a [Step]) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        Box::pin(async move {
            for step in steps {
                self.step(step).await;
            }
        })
    }

    async fn step(&mut self, step: &Step) {
        match step {
            Step::Reply(result) => self.reply("result", &self.fill(result)),
            Step::ReplyError { code, message, data } => {
                self.reply("error", &self.error(*code, message, data.as_ref()));
            }
            Step::Default => self.play(&self.default_steps()).await,
            Step::Notify { method, params } => self.notify(method, &self.fill(params)),
            Step::Request { id, method, params } => self.request(&self.fill(id), method, &self.fill(params)),
            Step::Raw(bytes) => self.write(Output::Raw(bytes.clone())),
            Step::BigLine { bytes } => self.write(Output::Message(big_line(*bytes))),
            Step::HalfLine(text) => self.write(Output::Half(self.fill_text(text))),
            Step::Stderr(text) => eprintln!("{}", self.fill_text(text)),
            Step::Exit { code } => self.exit(*code).await,
            Step::CloseStdout => self.write(Output::Close),
            Step::Repeat { count, steps } => self.repeat(*count, steps).await,
            Step::Group(steps) => self.play(steps).await,
            Step::FreshItem(steps) => self.fresh_item(steps).await,
            waiting => self.wait(waiting).await,
        }
    }

    async fn wait(&mut self, step: &Step) {
        match step {
            Step::AwaitAnswer(id) => {
                let id = self.fill(id);
                self.server.until(|state| state.answered.contains(&id)).await;
            }
            Step::AwaitMethod(method) => {
                let seen = self.calls_before.entry(method.clone()).or_default();
                self.server.until(|state| state.calls.get(method).is_some_and(|count| count > seen)).await;
                *seen += 1;
            }
            Step::AwaitFile(path) => {
                let path = self.fill_text(path);
                while !Path::new(&path).exists() {
                    tokio::time::sleep(FILE_POLL).await;
                }
            }
            Step::AwaitDisconnect => {
                let connection = self.call.connection;
                self.server.until(|state| !state.connections.contains_key(&connection)).await;
            }
            Step::Pause { millis } => tokio::time::sleep(Duration::from_millis(*millis)).await,
            _ => std::future::pending().await,
        }
    }

    async fn repeat(&mut self, count: u64, steps: &[Step]) {
        let outer = self.n;
        for round in 0..count {
            self.n = round;
            self.play(steps).await;
            // lets the reader and the writer of this one thread have their turn in a flood
            tokio::task::yield_now().await;
        }
        self.n = outer;
    }

    async fn fresh_item(&mut self, steps: &[Step]) {
        let fresh = self.server.state().fresh_item();
        let outer = std::mem::replace(&mut self.item, fresh);
        self.play(steps).await;
        self.item = outer;
    }

    fn default_steps(&self) -> Vec<Step> {
        let thread = self.thread();
        let situation =
            Situation { initialized: self.call.was_initialized, params: &self.call.params, thread: &thread };
        defaults::steps(&self.call.method, &situation)
    }

    fn reply(&self, member: &str, content: &Value) {
        if let Some(id) = &self.call.id {
            self.write(Output::Message(json!({ "id": id, member: content }).to_string()));
        }
    }

    fn error(&self, code: i64, message: &str, data: Option<&Value>) -> Value {
        let mut error = json!({ "code": code, "message": self.fill_text(message) });
        if let Some(data) = data {
            error["data"] = self.fill(data);
        }
        error
    }

    fn notify(&self, method: &str, params: &Value) {
        self.server.state().observe(method, params);
        let message = json!({ "method": method, "params": params, "emittedAtMs": now_ms() });
        self.publish(method, params, &message);
    }

    fn request(&self, id: &Value, method: &str, params: &Value) {
        self.record_call(params);
        self.server.state().answered.retain(|answered| answered != id);
        self.publish(method, params, &json!({ "method": method, "id": id, "params": params }));
    }

    /// Writes the model's call behind a command to the rollout of its thread, as codex 0.166 does before it asks. The call
    /// of a command whose item is named `exec-…` stands nowhere, as in code mode.
    fn record_call(&self, params: &Value) {
        let (Some(command), Some(item)) = (params["command"].as_str(), params["itemId"].as_str()) else {
            return;
        };
        if item.starts_with("exec-") {
            return;
        }
        let arguments = json!({ "cmd": command }).to_string();
        let call = json!({ "type": "function_call", "name": "exec_command", "arguments": arguments, "call_id": item });
        let line = json!({ "type": "response_item", "payload": call });
        let rollout = rollout(&self.server.dir, params["threadId"].as_str().unwrap_or_default());
        let written = File::options()
            .append(true)
            .create(true)
            .open(rollout)
            .and_then(|mut file| writeln!(file, "{line}"));
        if let Err(error) = written {
            eprintln!("scripted-app-server: the rollout cannot be written: {error}");
        }
    }

    fn publish(&self, method: &str, params: &Value, message: &Value) {
        let text = message.to_string();
        let state = self.server.state();
        for connection in state.audience(method, params, self.call.connection) {
            if let Some(output) = state.connections.get(&connection) {
                // a connection that closed meanwhile misses it, as it would in life
                let _ = output.send(Output::Message(text.clone()));
            }
        }
    }

    fn write(&self, output: Output) {
        if let Some(connection) = self.server.state().connections.get(&self.call.connection) {
            let _ = connection.send(output);
        }
    }

    async fn exit(&self, code: i32) {
        let (written, is_written) = oneshot::channel();
        self.write(Output::Flush(written));
        let _ = tokio::time::timeout(LAST_WORDS_LIMIT, is_written).await;
        std::process::exit(code);
    }

    fn thread(&self) -> Thread {
        self.server.state().threads.get(&self.call.thread).cloned().unwrap_or_default()
    }

    fn fill(&self, value: &Value) -> Value {
        self.with_names(|names| names.fill(value))
    }

    fn fill_text(&self, text: &str) -> String {
        self.with_names(|names| names.fill_text(text))
    }

    fn with_names<T>(&self, fill: impl FnOnce(&Names<'_>) -> T) -> T {
        let unknown = Thread::default();
        let state = self.server.state();
        fill(&Names {
            thread: &self.call.thread,
            turn: &self.call.turn,
            item: &self.item,
            n: self.n,
            version: &self.server.script.version,
            dir: &self.server.dir,
            params: &self.call.params,
            known: state.threads.get(&self.call.thread).unwrap_or(&unknown),
        })
    }
}

/// A valid notification whose text has just this many bytes.
fn big_line(bytes: usize) -> String {
    let empty = json!({ "method": "test/bigLine", "params": { "filler": "" } }).to_string();
    let filler = "x".repeat(bytes.saturating_sub(empty.len()));
    json!({ "method": "test/bigLine", "params": { "filler": filler } }).to_string()
}
