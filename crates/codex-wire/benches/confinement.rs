//! What the bounds of a thread cost: the time of a command and the memory of Codex, next to a thread that Codex opens with
//! nothing but the name of a sandbox. Ratios from one run, side by side; exits non-zero beyond the bar.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_wire::Epoch;
use codex_wire::call::{ThreadSettings, ThreadStart, TurnStart, UserInput};
use codex_wire::confinement::{Confinement, ProjectTrust, Sandbox};
use codex_wire::connection::{Connection, Handshake};
use codex_wire::os::process;
use codex_wire::peer::{Delivery, Inbox, inbox};
use codex_wire::transport::stdio::{self, Spawn, StdioChild};
use scripted_model::{Scenario, ScriptedModel, ToolCall};
use testkit::rig::{Home, codex_path};

const ROUNDS: usize = 21;
const COMMANDS: usize = 10;
const BAR: f64 = 1.1;
const LIMIT: Duration = Duration::from_mins(1);

/// As many as a daemon denies on a usual machine, some of which do not exist.
const DENIED: [&str; 12] = [
    "/run/containerd",
    "/run/dbus",
    "/run/docker.sock",
    "/run/incus",
    "/run/libvirt",
    "/run/lxd",
    "/run/podman",
    "/run/screen",
    "/run/systemd/private",
    "/run/user/0",
    "/tmp/tmux-0",
    "/var/lib/codex-bridge",
];

/// One Codex with one thread.
struct Side {
    home: Home,
    child: Arc<StdioChild>,
    connection: Connection,
    thread_id: String,
    messages: Inbox,
    /// Milliseconds of a turn.
    times: Vec<f64>,
}

impl Side {
    async fn new(model: &ScriptedModel, settings: impl FnOnce(&Home) -> ThreadSettings) -> Self {
        let home = Home::new(&model.base_url());
        let spawn = Spawn::new(codex_path(), home.env().into_iter().collect());
        let (transport, child) = stdio::spawn(&spawn).unwrap();
        let connection = Connection::open(transport, Handshake::new(Epoch::from("e"))).await.unwrap();
        let (sender, messages) = inbox();
        let start = ThreadStart { settings: settings(&home), dynamic_tools: None };
        let thread = connection.peer.open_thread(&start, LIMIT, sender).await.unwrap();
        let thread_id = thread.id().unwrap().0;
        Self { home, child, connection, thread_id, messages, times: Vec::new() }
    }

    /// One turn, which runs some commands one after the other.
    async fn turn(&mut self) {
        let began = Instant::now();
        let input = vec![UserInput::text("go")];
        let start = TurnStart { thread_id: self.thread_id.clone(), input, ..TurnStart::default() };
        self.connection.peer.post(&start, LIMIT, inbox().0, 1).await.unwrap();
        loop {
            match tokio::time::timeout(LIMIT, self.messages.recv()).await.unwrap() {
                Some(Delivery::Notification(note)) if &*note.method == "turn/completed" => break,
                Some(Delivery::Notification(_)) => {}
                other => panic!("{other:?}"),
            }
        }
        self.times.push(began.elapsed().as_secs_f64() * 1000.0);
    }

    fn median_ms(&self) -> f64 {
        let mut times = self.times.clone();
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    }

    fn rss_bytes(&self) -> u64 {
        process::rss_bytes(self.child.pid()).unwrap()
    }

    async fn end(self) {
        self.connection.peer.close();
        self.child.end().await.unwrap();
        self.home.assert_no_processes().await;
    }
}

fn plain(home: &Home) -> ThreadSettings {
    ThreadSettings {
        cwd: home.workspace().to_str().map(Into::into),
        sandbox: Some("workspace-write".to_owned()),
        approval_policy: Some("never".to_owned()),
        ..ThreadSettings::default()
    }
}

fn confined(home: &Home) -> ThreadSettings {
    let text = |path: std::path::PathBuf| path.canonicalize().unwrap().to_string_lossy().into_owned();
    let codex_home = text(home.codex_home());
    let bounds = Confinement {
        cwd: text(home.workspace()),
        sandbox: Sandbox::WorkspaceWrite,
        network: false,
        writable_roots: [].into(),
        // What is missing is not named to Codex, as in a task.
        denied: DENIED
            .into_iter()
            .filter(|path| std::path::Path::new(path).exists())
            .map(str::to_owned)
            .chain([codex_home.clone()])
            .collect(),
        meant_to_be_denied: DENIED.map(str::to_owned).into(),
        guarded: [].into(),
        project: ProjectTrust::Untrusted,
        approval_policy: "never".to_owned(),
        variables: [].into(),
        command_path: None,
        mcp_servers_without_cwd: [].into(),
        codex_home: Some(codex_home),
        kept_profile: None,
    };
    let mut settings = ThreadSettings::default();
    bounds.apply(&mut settings);
    settings
}

#[tokio::main]
async fn main() {
    let model = ScriptedModel::start().await.unwrap();
    let commands = (1..COMMANDS)
        .fold(Scenario::new().exec("true"), |scenario, _| scenario.then_call(ToolCall::exec("true")));
    model.script("go", commands.then_say("done"));
    let (mut plain, mut confined) = (Side::new(&model, plain).await, Side::new(&model, confined).await);
    for _ in 0..ROUNDS {
        plain.turn().await;
        confined.turn().await;
    }
    let time = confined.median_ms() / plain.median_ms();
    let (plain_rss, confined_rss) = (plain.rss_bytes(), confined.rss_bytes());
    let memory = ratio(confined_rss, plain_rss);
    println!(
        "a turn of {COMMANDS} commands, median of {ROUNDS}: {:.0} ms within bounds, {:.0} ms plain, ratio {time:.2}",
        confined.median_ms(),
        plain.median_ms()
    );
    println!(
        "memory of Codex: {} MB within bounds, {} MB plain, ratio {memory:.2}",
        confined_rss >> 20,
        plain_rss >> 20
    );
    plain.end().await;
    confined.end().await;
    if time > BAR || memory > BAR {
        println!("beyond the bar: both ≤ {BAR}");
        std::process::exit(1);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}
