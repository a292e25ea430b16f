//! A thousand messages over fifty conversations, offered all at once by the stand-in of a platform, answered by a scripted
//! app-server: how many a second, how long each waits for its turn, and what the daemon needs for it. One message at a
//! time in one conversation, measured in the same run, is what it is compared with; exits non-zero beyond the bars.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use testkit::ScriptedServer;
use testkit::platform::molecule::{Molecule, State, TOKEN, WORKSPACE};
use testkit::rig::Home;
use testkit::script::{self, Script};

const MESSAGES: usize = 1_000;
const CONVERSATIONS: usize = 50;
/// Messages that are sent one after the other for comparison.
const ALONE: usize = 50;
/// How often the platform is asked for news.
const POLL_MS: u64 = 10;
/// Many conversations at once must be worth it: so many times the messages a second of one.
const RATE_BAR: f64 = 2.5;
/// Nobody in the crowd waits longer for a turn than if all were served one after the other, by this share of it.
const WAIT_BAR: f64 = 0.5;
/// The daemon's memory, with a thousand messages in its inbox.
const RSS_BAR_MB: u64 = 120;

#[tokio::main]
async fn main() {
    let site = Site::start().await;
    let before_mb = site.daemon_mb();
    let alone = site.one_after_the_other().await;
    let (rest, took) = site.all_at_once().await;
    let (rss_mb, most_mb) = (site.daemon_mb(), site.daemon_most_mb());
    site.end();

    let rate = per_second(MESSAGES, took);
    let alone_rate = per_second(ALONE, alone.took);
    let serial = alone.took.as_secs_f64() / as_f64(ALONE) * as_f64(MESSAGES);
    println!("one at a time: {alone_rate:.0} messages/s; from arrival to the turn {}", told(&alone.waits));
    println!(
        "{MESSAGES} messages over {CONVERSATIONS} conversations in {took:.1?}: {rate:.0} messages/s; from arrival to the turn {}",
        told(&rest)
    );
    println!("the daemon: {before_mb} MB before, {rss_mb} MB after, {most_mb} MB at most");
    let (faster, waited) = (rate / alone_rate, percentile(&rest, 99).as_secs_f64() / serial);
    println!("{faster:.2} × the messages/s of one conversation (bar: {RATE_BAR})");
    println!("p99 {waited:.2} × the time that one after the other would take (bar: {WAIT_BAR})");
    println!("{most_mb} MB (bar: {RSS_BAR_MB})");
    if faster < RATE_BAR || waited > WAIT_BAR || most_mb > RSS_BAR_MB {
        println!("beyond the bar");
        std::process::exit(1);
    }
}

fn told(waits: &[Duration]) -> String {
    format!("p50 {:.1?}, p99 {:.1?}", percentile(waits, 50), percentile(waits, 99))
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

#[expect(clippy::cast_precision_loss, reason = "a number for people")]
fn as_f64(count: usize) -> f64 {
    count as f64
}

fn per_second(count: usize, time: Duration) -> f64 {
    as_f64(count) / time.as_secs_f64()
}

fn now_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_micros()).unwrap()
}

/// Messages that were sent one after the other.
struct Alone {
    took: Duration,
    waits: Vec<Duration>,
}

/// A daemon that serves a workspace, with a Codex that answers with what it was asked and when.
struct Site {
    home: Home,
    _server: ScriptedServer,
    molecule: Molecule,
}

impl Site {
    async fn start() -> Self {
        let home = Home::with_config("");
        let server =
            ScriptedServer::new(Script::new().on("turn/start", [script::happy_turn("$prompt at $now_us.")]));
        server.attach_to_home(&home.codex_home());
        let molecule = Molecule::open().await;
        let config = format!(
            "codex_bin = \"{}\"\nmax_running = {CONVERSATIONS}\n[workspaces]\nmain = \"{}\"\n[channels.molecule]\nreceipts = false\n\
             agent_turns_per_hour = 1000000\n[channels.molecule.molecule]\nurl = \"{}\"\nworkspace_id = \"{WORKSPACE}\"\n\
             token = \"{TOKEN}\"\npoll_ms = {POLL_MS}\n",
            server.program().display(),
            home.workspace().display(),
            molecule.base(),
        );
        fs::write(home.dir().join("config.toml"), config).unwrap();
        let site = Self { home, _server: server, molecule };
        site.run(&["channel", "list"]).await;
        site.molecule.until("it is served", |state| state.polls > 2).await;
        site
    }

    async fn run(&self, args: &[&str]) {
        let mut command = self.command(args);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
        command.args(args).env_clear().envs(self.home.env()).current_dir(self.home.workspace());
        command.env("CODEX_BRIDGE_STATE_DIR", self.home.dir().join("st"));
        command.env("CODEX_BRIDGE_CONFIG", self.home.dir().join("config.toml"));
        command.env("XDG_DATA_HOME", self.home.dir().join("data"));
        command.stdin(Stdio::null());
        command
    }

    async fn one_after_the_other(&self) -> Alone {
        let mut waits = Vec::new();
        let began = Instant::now();
        for number in 0..ALONE {
            let sent = now_us();
            self.molecule.peer_says("peer-alone", &format!("alone-{number}"));
            let is_answered = |state: &State| state.delegations.len() > number;
            let state = self.molecule.until("the answer", is_answered).await;
            waits.push(Duration::from_micros(begun(&state)[&format!("alone-{number}")] - sent));
        }
        Alone { took: began.elapsed(), waits }
    }

    /// How long each waited for its turn, and how long it took until all were answered.
    async fn all_at_once(&self) -> (Vec<Duration>, Duration) {
        let (began, sent) = (Instant::now(), now_us());
        for number in 0..MESSAGES {
            self.molecule.peer_says(&format!("peer-{}", number % CONVERSATIONS), &format!("crowd-{number}"));
        }
        let state = loop {
            let state = self.molecule.state();
            if state.delegations.len() >= ALONE + MESSAGES {
                break state;
            }
            assert!(began.elapsed() < Duration::from_mins(5), "{} were answered", state.delegations.len());
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        let took = began.elapsed();
        let turns = begun(&state);
        in_order(&state);
        let waits =
            (0..MESSAGES).map(|number| Duration::from_micros(turns[&format!("crowd-{number}")] - sent));
        (waits.collect(), took)
    }

    fn status(&self, field: &str) -> u64 {
        let pid = fs::read_to_string(self.home.dir().join("st/daemon.lock")).unwrap();
        let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_matches(|char: char| !char.is_ascii_digit()).parse::<u64>().unwrap() >> 10
    }

    fn daemon_mb(&self) -> u64 {
        self.status("VmRSS:")
    }

    fn daemon_most_mb(&self) -> u64 {
        self.status("VmHWM:")
    }

    fn end(&self) {
        let output = self.command(&["stop", "--hosts"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}

/// When the turn of each message began, by what it said.
fn begun(state: &State) -> BTreeMap<String, u64> {
    let parts = state.delegations.iter().map(|(_, text, _)| {
        let (said, rest) = text.split_once(" at ").unwrap();
        (
            said.rsplit(char::is_whitespace).next().unwrap().to_owned(),
            rest.split('.').next().unwrap().parse().unwrap(),
        )
    });
    parts.collect()
}

/// Each conversation was answered in its order.
fn in_order(state: &State) {
    let mut last: BTreeMap<&str, u64> = BTreeMap::new();
    for (peer, text, _) in &state.delegations {
        let number = text.split(" at ").next().unwrap().rsplit('-').next().unwrap().parse().unwrap();
        let before = last.insert(peer, number);
        assert!(before.is_none_or(|before| before < number), "{peer}: {number} after {before:?}");
    }
}
