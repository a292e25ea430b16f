//! Records what the real Codex says in a few turns of everyday work, as JSON lines on stdout: the input of the bench
//! `wire`. The model is scripted, so a new recording differs from the last in ids and times alone.
//!
//! `cargo run -p codex-wire --example record > crates/codex-session/benches/recording.jsonl`
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use codex_wire::Epoch;
use codex_wire::call::{ThreadSettings, ThreadStart, TurnStart, UserInput};
use codex_wire::connection::{Connection, Handshake};
use codex_wire::envelope::{Envelope, Kind};
use codex_wire::peer::{Delivery, inbox};
use codex_wire::transport::stdio::{self, Spawn};
use futures_util::StreamExt;
use scripted_model::{CodexConfig, Phase, Response, Scenario, ScriptedModel, Step, ToolCall, Usage};
use testkit::rig::{Home, codex_path};

const LIMIT: Duration = Duration::from_mins(1);

const THOUGHTS: &str = "The failing test compares two timestamps that come from different clocks. I should look at \
    how the deadline is computed before I change anything, because the retry loop depends on the same value.";

const REMARK: &str = "I'll look at the retry loop and at its tests first, then change the one place where the \
    deadline is computed.";

const ANSWER: &str = "The deadline was computed twice, once when the job was queued and once when it was started, and \
    the second time from the *wall clock*. When the clock was set back in between, `remaining()` came out larger \
    than the limit and the loop never gave up.\n\nWhat I changed:\n\n1. `Deadline::new` takes an `Instant` and keeps \
    it; nothing else reads a clock.\n2. `remaining()` saturates at zero instead of wrapping.\n3. The retry loop asks \
    the deadline, not the configuration.\n\n```rust\npub fn remaining(&self, now: Instant) -> Duration {\n    \
    self.end.saturating_duration_since(now)\n}\n```\n\nThe new test sets the clock back by an hour in the middle of a \
    retry (see `tests/retry.rs`, line 42) and fails without the change: \"waited 3600 s, limit 5 s\". All 128 other \
    tests pass. You may want to look \
    at `queue.rs` as well: it logs its whole configuration on start.\n";

const PATCH: &str = "*** Begin Patch\n*** Add File: src/deadline_N.rs\n+//! A point in time after which nobody waits \
    any more.\n+\n+use std::time::{Duration, Instant};\n+\n+/// When to give up.\n+#[derive(Debug, Clone, Copy)]\n\
    +pub struct Deadline {\n+    end: Instant,\n+}\n+\n+impl Deadline {\n+    /// Time that is left.\n\
    +    pub fn remaining(&self, now: Instant) -> Duration {\n+        self.end.saturating_duration_since(now)\n\
    +    }\n+}\n*** End Patch\n";

/// Text in pieces of the size of tokens: a word with the blank before it, long words in two.
fn pieces(text: &str) -> Vec<String> {
    let words = text.split_inclusive([' ', '\n']);
    let halves = words.flat_map(|word| {
        let middle = if word.len() > 8 { word.len() / 2 } else { word.len() };
        let at = (middle..=word.len()).find(|at| word.is_char_boundary(*at)).unwrap_or(word.len());
        [&word[..at], &word[at..]]
    });
    halves.filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

fn remark(text: &str) -> Step {
    Step::Say { chunks: pieces(text), phase: Some(Phase::Commentary) }
}

/// One turn of everyday work: thoughts, a command, a patch, tests, an answer.
fn work(turn: usize) -> Scenario {
    let tests = "for i in 1 2 3 4 5 6 7 8; do echo test retry::case_$i ... ok; sleep 0.05; done; \
        echo; echo test result: ok. 8 passed; 0 failed";
    let mut scenario = Scenario::new().reason(THOUGHTS).step(remark(REMARK)).exec("ls -la && cat notes.txt");
    scenario = scenario.then_call(ToolCall::apply_patch(PATCH.replace("_N", &format!("_{turn}"))));
    scenario = scenario.then_exec(tests).then().reason(THOUGHTS);
    let usage = Usage { input: 18_000 + 700 * turn as u64, cached: 16_000, output: 420, reasoning: 96 };
    scenario.usage(usage).say_in_chunks(pieces(&ANSWER.repeat(2)))
}

/// The answer breaks off once and is tried again.
fn stumble() -> Scenario {
    let broken = Response {
        times: Some(1),
        steps: vec![Step::Delta { text: "The deadline".into(), phase: None }, Step::Cut],
        ..Response::default()
    };
    Scenario::new().respond(broken).then().say_in_chunks(pieces(ANSWER))
}

fn scenarios() -> Vec<Scenario> {
    let mut all: Vec<_> = (1..=8).map(work).collect();
    all.insert(3, stumble());
    all.push(Scenario::new().fail("context_length_exceeded", "Your input exceeds the context window."));
    all
}

#[tokio::main]
async fn main() {
    let model = ScriptedModel::start().await.unwrap();
    let config = CodexConfig::new(model.base_url()).retries(1, 2);
    let home = Home::with_config(&config.to_string());
    std::fs::write(home.workspace().join("notes.txt"), "retry: see #12\n".repeat(40)).unwrap();
    let lines = record(&model, &home).await;
    let text = anonymous(&lines.concat(), &model, &home);
    std::io::stdout().write_all(text.as_bytes()).unwrap();
    model.stop().await;
}

async fn record(model: &ScriptedModel, home: &Home) -> Vec<String> {
    let spawn = Spawn::new(codex_path(), home.env().into_iter().collect());
    let (mut transport, child) = stdio::spawn(&spawn).unwrap();
    let heard = Arc::new(Mutex::new(Vec::new()));
    let lines = Arc::clone(&heard);
    transport.incoming = transport
        .incoming
        .inspect(move |line| {
            let line = line.as_ref().unwrap();
            if Envelope::parse(line).unwrap().kind() == Some(Kind::Notification) {
                lines.lock().unwrap().push(format!("{}\n", std::str::from_utf8(line).unwrap()));
            }
        })
        .boxed();
    let connection = Connection::open(transport, Handshake::new(Epoch::from("e"))).await.unwrap();
    play(model, home, &connection).await;
    connection.peer.close();
    child.end().await.unwrap();
    std::mem::take(&mut *heard.lock().unwrap())
}

async fn play(model: &ScriptedModel, home: &Home, connection: &Connection) {
    let settings = ThreadSettings {
        cwd: home.workspace().to_str().map(Into::into),
        sandbox: Some("danger-full-access".into()),
        approval_policy: Some("never".into()),
        ..ThreadSettings::default()
    };
    let (sender, mut messages) = inbox();
    let start = ThreadStart { settings, dynamic_tools: None };
    let opened = connection.peer.open_thread(&start, LIMIT, sender).await.unwrap();
    for (n, scenario) in scenarios().into_iter().enumerate() {
        let prompt = format!("The retry loop never gives up when the clock is set back. Part {n}.");
        model.script(prompt.clone(), scenario);
        let thread_id = opened.id().unwrap().0;
        let start = TurnStart { thread_id, input: vec![UserInput::text(prompt)], ..TurnStart::default() };
        connection.peer.post(&start, LIMIT, inbox().0, 1).await.unwrap();
        loop {
            let message = tokio::time::timeout(LIMIT, messages.recv()).await.expect("the turn ends in time");
            match message.unwrap() {
                Delivery::Notification(note) if &*note.method == "turn/completed" => break,
                Delivery::Closed(reason) => panic!("{reason}"),
                _ => {}
            }
        }
    }
}

/// Without the paths and ports of this machine.
fn anonymous(text: &str, model: &ScriptedModel, home: &Home) -> String {
    let path = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
    let places = [
        (path(home.workspace()), "/home/user/project"),
        (path(home.codex_home()), "/home/user/.codex"),
        (path(home.temp()), "/home/user/tmp"),
        (path(home.user_home()), "/home/user"),
        (path(home.dir().to_path_buf()), "/home/user"),
        (model.base_url(), "http://127.0.0.1:8080/v1"),
    ];
    places.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
