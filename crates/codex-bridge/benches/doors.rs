//! How long an approval takes from Codex to whoever listens by HTTP: alone, among 200 tasks with 100 listeners, and with
//! 2,000 status reads a second beside that. The app-server is scripted, so that it can say when it asked. Ratios from
//! one run; exits non-zero beyond the bars.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::{Method, Request};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use testkit::ScriptedServer;
use testkit::rig::Home;
use testkit::script::{self, Script, Step, item};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

const TASKS: usize = 200;
const READERS: usize = 100;
const READS_PER_S: u32 = 2_000;
/// Connections that share the status reads.
const READ_CONNECTIONS: u32 = 4;
/// How often a busy task says something.
const SAYS_EVERY_MS: u64 = 200;
/// Approvals that are measured in each round with and without reads; alone as many as in all rounds.
const APPROVALS: usize = 400;
/// So many that the slowest of a hundred are not left to chance.
const ROUNDS: usize = 8;
const LATENCY_BAR: f64 = 3.0;
const SLOWER_BAR: f64 = 1.2;

#[tokio::main]
async fn main() {
    let site = Site::start();
    let first = site.hand_over().await;
    let tally = Arc::new(Tally::default());
    let mut clients = JoinSet::new();
    clients.spawn(listen(site.door(), first.clone(), Arc::clone(&tally)));
    let alone = tally.approvals(APPROVALS * ROUNDS).await;

    let mut tasks = vec![first];
    while tasks.len() < TASKS {
        tasks.push(site.hand_over().await);
    }
    for task in &tasks[1..READERS] {
        clients.spawn(listen(site.door(), task.clone(), Arc::clone(&tally)));
    }
    site.until_all_work().await;
    let (mut crowd, mut beside) = (Part::default(), Part::default());
    let reads = Arc::new(AtomicU64::new(0));
    let mut reads_in_parts = 0;
    // In turns, so that what else the machine does meets both alike.
    for _ in 0..ROUNDS {
        tally.add_to(&mut crowd).await;
        let mut readers = JoinSet::new();
        for _ in 0..READ_CONNECTIONS {
            readers.spawn(read(site.door(), tasks.clone(), Arc::clone(&reads)));
        }
        sleep(Duration::from_millis(500)).await;
        let before = reads.load(Ordering::Relaxed);
        tally.add_to(&mut beside).await;
        reads_in_parts += reads.load(Ordering::Relaxed) - before;
        readers.shutdown().await;
    }
    let reads_per_s = per_second(reads_in_parts, beside.took);
    clients.shutdown().await;
    site.end();

    report("one task, one listener", &alone);
    report(&format!("{TASKS} tasks, {READERS} listeners"), &crowd.approvals);
    report(&format!("the same beside {reads_per_s:.0} status reads/s"), &beside.approvals);
    let latency = ratio(&crowd.approvals, &alone, 99);
    // The usual case and the worst one, each by itself: a tail that stays can hide a middle that does not.
    let slower = [50, 99].map(|percent| ratio(&beside.approvals, &crowd.approvals, percent));
    let (crowd_rate, read_rate) = (crowd.rate(), beside.rate());
    println!("events told: {crowd_rate:.0}/s, beside the reads {read_rate:.0}/s");
    println!("p99 in the crowd {latency:.2} × alone (bar: {LATENCY_BAR})");
    println!("beside the reads p50 {:.2} ×, p99 {:.2} × without (bar: {SLOWER_BAR})", slower[0], slower[1]);
    let missed_reads = reads_per_s < f64::from(READS_PER_S) * 0.95;
    let is_slowed = slower.iter().any(|ratio| *ratio > SLOWER_BAR) || crowd_rate / read_rate > SLOWER_BAR;
    if missed_reads || latency > LATENCY_BAR || is_slowed {
        println!("beyond the bar");
        std::process::exit(1);
    }
}

fn report(what: &str, times: &[Duration]) {
    println!(
        "{what}: from Codex to the listener p50 {:?}, p99 {:?}",
        percentile(times, 50),
        percentile(times, 99)
    );
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

fn ratio(times: &[Duration], base: &[Duration], percent: usize) -> f64 {
    percentile(times, percent).as_secs_f64() / percentile(base, percent).as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn per_second(count: u64, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

/// What all listeners have heard.
#[derive(Default)]
struct Tally {
    events: AtomicU64,
    approvals: Mutex<Vec<Duration>>,
}

impl Tally {
    fn heard(&self, latency: Duration) {
        self.approvals.lock().unwrap().push(latency);
    }

    /// How long each of the next approvals took.
    async fn approvals(&self, count: usize) -> Vec<Duration> {
        self.approvals.lock().unwrap().clear();
        loop {
            sleep(Duration::from_millis(50)).await;
            let heard = self.approvals.lock().unwrap();
            if heard.len() >= count {
                return heard.clone();
            }
        }
    }

    /// Adds as many approvals to a part, and the events that were told meanwhile.
    async fn add_to(&self, part: &mut Part) {
        let (began, before) = (Instant::now(), self.events.load(Ordering::Relaxed));
        part.approvals.extend(self.approvals(APPROVALS).await);
        part.events += self.events.load(Ordering::Relaxed) - before;
        part.took += began.elapsed();
    }
}

/// What was heard in one part of the run.
#[derive(Default)]
struct Part {
    approvals: Vec<Duration>,
    events: u64,
    took: Duration,
}

impl Part {
    fn rate(&self) -> f64 {
        per_second(self.events, self.took)
    }
}

/// The first turn on a host asks, again and again; all others talk.
fn script() -> Script {
    let command = item::command("at $now_us", "", 0);
    let ask = Step::FreshItem(vec![
        command.started(),
        script::command_request("$index", "at $now_us").asked(),
        command.completed(),
        Step::Pause { millis: 10 },
    ]);
    let talk = [script::streamed_message(&["one ", "two"]), Step::Pause { millis: SAYS_EVERY_MS }];
    let turn =
        |steps: Vec<Step>| [script::reply_turn(), script::started(), Step::Repeat { count: u64::MAX, steps }];
    Script::new().on_nth("turn/start", 1, turn(vec![ask])).on("turn/start", turn(talk.into()))
}

/// A daemon on a port.
struct Site {
    home: Home,
    _server: ScriptedServer,
    port: u16,
    token: String,
}

impl Site {
    fn start() -> Self {
        let home = Home::with_config("");
        let server = ScriptedServer::new(script());
        server.attach_to_home(&home.codex_home());
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let config = format!(
            "codex_bin = \"{}\"\nmax_running = {TASKS}\nroots = [\"{}\"]\n[http]\nlisten = \"127.0.0.1:{port}\"\n",
            server.program().display(),
            home.workspace().display()
        );
        fs::write(home.dir().join("config.toml"), config).unwrap();
        let mut site = Self { home, _server: server, port, token: String::new() };
        let told = site.run(&["token", "create", "bench", "--role", "approver", "--max-open-tasks", "1000"]);
        told.split_whitespace().find(|word| word.starts_with("cbt_")).unwrap().clone_into(&mut site.token);
        site
    }

    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
        command.args(args).env_clear().envs(self.home.env()).current_dir(self.home.workspace());
        command.env("CODEX_BRIDGE_STATE_DIR", self.home.dir().join("st"));
        command.env("CODEX_BRIDGE_CONFIG", self.home.dir().join("config.toml"));
        command.env("XDG_DATA_HOME", self.home.dir().join("data"));
        let output = command.stdin(Stdio::null()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn door(&self) -> Door {
        Door { port: self.port, token: self.token.clone() }
    }

    async fn hand_over(&self) -> String {
        let body = json!({ "prompt": "go", "cwd": self.home.workspace() });
        let task = self.door().open().await.post("/v1/tasks", &body).await;
        task["task_id"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned()
    }

    async fn until_all_work(&self) {
        let mut line = self.door().open().await;
        loop {
            let queued = line.get("/v1/tasks?status=queued").await;
            let starting = line.get("/v1/tasks?status=starting").await;
            if [queued, starting].iter().all(|tasks| tasks.as_array().is_some_and(Vec::is_empty)) {
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn end(&self) {
        self.run(&["stop", "--hosts"]);
    }
}

/// Follows a task for as long as it is let, and says yes to whatever it asks.
async fn listen(door: Door, task: String, tally: Arc<Tally>) {
    // Most tasks never ask, and a connection without a call is the first to go when there are many.
    let mut answers = None;
    let mut asked_at = UNIX_EPOCH;
    let mut events = door.events(&task).await;
    loop {
        let event = events.next().await;
        tally.events.fetch_add(1, Ordering::Relaxed);
        if let Some(at) = time_in(&event) {
            asked_at = at;
        }
        if let Some(request) = event["request_id"].as_str().filter(|_| event["kind"] == "request") {
            tally.heard(SystemTime::now().duration_since(asked_at).unwrap());
            let path = format!("/v1/tasks/{task}/requests/{request}/decision");
            let line = match &mut answers {
                Some(line) => line,
                None => answers.insert(door.open().await),
            };
            line.post(&path, &json!({ "decision": "accept", "digest": event["digest"] })).await;
        }
    }
}

/// Reads the states of tasks at a steady pace for as long as it is let, and counts.
async fn read(door: Door, tasks: Vec<String>, reads: Arc<AtomicU64>) {
    let mut line = door.open().await;
    let mut pace = tokio::time::interval(Duration::from_secs(1) * READ_CONNECTIONS / READS_PER_S);
    for task in tasks.iter().cycle() {
        pace.tick().await;
        line.get(&format!("/v1/tasks/{task}")).await;
        reads.fetch_add(1, Ordering::Relaxed);
    }
}

/// The time at which Codex began to ask, which it says in the command.
fn time_in(event: &Value) -> Option<SystemTime> {
    let text = event.to_string();
    let micros = text.split("at ").nth(1)?.split(|it: char| !it.is_ascii_digit()).next()?.parse().ok()?;
    (event["kind"] == "tool_started").then(|| UNIX_EPOCH + Duration::from_micros(micros))
}

/// How the daemon is reached.
struct Door {
    port: u16,
    token: String,
}

/// A connection that is kept.
struct Line {
    sender: SendRequest<Full<Bytes>>,
    token: String,
    port: u16,
}

impl Door {
    async fn open(&self) -> Line {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Line { sender, token: self.token.clone(), port: self.port }
    }

    async fn events(&self, task: &str) -> Events {
        let mut line = self.open().await;
        let path = format!("/v1/tasks/{task}/events?follow=true&live=true");
        let body = line.send(Method::GET, &path, Bytes::new()).await.into_body();
        Events { body, read: Vec::new(), _line: line }
    }
}

impl Line {
    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> hyper::Response<hyper::body::Incoming> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", format!("127.0.0.1:{}", self.port))
            .header("authorization", format!("Bearer {}", self.token))
            .header("accept", if path.contains("/events") { "text/event-stream" } else { "application/json" })
            .header("content-type", "application/json")
            .body(Full::new(body))
            .unwrap();
        self.sender.ready().await.unwrap();
        self.sender.send_request(request).await.unwrap()
    }

    async fn whole(&mut self, method: Method, path: &str, body: Bytes) -> Value {
        let body = self.send(method, path, body).await.into_body().collect().await.unwrap().to_bytes();
        serde_json::from_slice(&body).unwrap()
    }

    async fn get(&mut self, path: &str) -> Value {
        self.whole(Method::GET, path, Bytes::new()).await
    }

    async fn post(&mut self, path: &str, body: &Value) -> Value {
        self.whole(Method::POST, path, body.to_string().into()).await
    }
}

/// Server-sent events.
struct Events {
    body: hyper::body::Incoming,
    read: Vec<u8>,
    _line: Line,
}

impl Events {
    async fn next(&mut self) -> Value {
        loop {
            if let Some(end) = self.read.windows(2).position(|two| two == b"\n\n") {
                let event: Vec<u8> = self.read.drain(..end + 2).collect();
                let text = String::from_utf8(event).unwrap();
                if let Some(told) = text.lines().find_map(|line| line.strip_prefix("data:")) {
                    return serde_json::from_str(told.trim()).unwrap();
                }
                continue;
            }
            let frame = self.body.frame().await.expect("the stream goes on").unwrap();
            self.read.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }
}
