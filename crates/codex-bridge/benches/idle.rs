//! A daemon with nothing to do, as it is shipped: how often it wakes up, and how much memory it holds. Exits non-zero
//! beyond the bars.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use testkit::rig::{self, Home};

/// What happens once, after a start, is over by then; threads that wait for more to do are gone after 10 s.
const SETTLE: Duration = Duration::from_secs(15);
const WATCHED: Duration = Duration::from_secs(20);
/// Often enough to see a thread that comes and goes.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const WAKE_UPS_PER_S_BAR: f64 = 1.0;
const RSS_MB_BAR: f64 = 30.0;

fn main() {
    let home = Home::with_config("");
    fs::write(home.dir().join("config.toml"), format!("codex_bin = \"{}\"\n", rig::codex_path().display()))
        .unwrap();
    // A command starts the daemon, as anywhere.
    run(&home, &["ps"]);
    let pid: u32 =
        fs::read_to_string(home.dir().join("st/daemon.lock")).unwrap().trim().parse().expect("a pid");
    sleep(SETTLE);
    let woken = wake_ups(pid);
    let per_s = f64::from(woken) / WATCHED.as_secs_f64();
    let rss_mb = rss_mb(pid);
    run(&home, &["stop", "--hosts"]);

    println!(
        "idle daemon, {} s: {woken} wake-ups of all its threads, {per_s:.2} a second (bar: {WAKE_UPS_PER_S_BAR})",
        WATCHED.as_secs()
    );
    println!("idle daemon: {rss_mb:.1} MB resident (bar: {RSS_MB_BAR})");
    if per_s > WAKE_UPS_PER_S_BAR || rss_mb > RSS_MB_BAR {
        println!("beyond the bar");
        std::process::exit(1);
    }
}

fn run(home: &Home, args: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
    command.args(args).env_clear().envs(home.env()).current_dir(home.workspace());
    command.env("CODEX_BRIDGE_STATE_DIR", home.dir().join("st"));
    command.env("CODEX_BRIDGE_CONFIG", home.dir().join("config.toml"));
    command.env("XDG_DATA_HOME", home.dir().join("data"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
}

/// How often the threads of a process go to sleep by themselves while it is watched: each time something woke them.
fn wake_ups(pid: u32) -> u32 {
    let mut before = sleeps(pid);
    let mut after = before.clone();
    let began = Instant::now();
    while began.elapsed() < WATCHED {
        sleep(LOOK_EVERY);
        // A thread that has ended keeps the count that was seen last.
        after.extend(sleeps(pid));
    }
    after.into_iter().map(|(thread, count)| count - before.remove(&thread).unwrap_or(0)).sum()
}

/// How often each thread went to sleep by itself so far.
fn sleeps(pid: u32) -> BTreeMap<OsString, u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).expect("the daemon runs");
    let threads = threads.map(|thread| thread.unwrap());
    // One that has just ended is not there any more.
    let count =
        |thread: &Path| number(&fs::read_to_string(thread.join("status")).ok()?, "voluntary_ctxt_switches:");
    threads.filter_map(|thread| Some((thread.file_name(), count(&thread.path())?))).collect()
}

fn rss_mb(pid: u32) -> f64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    f64::from(number(&status, "VmRSS:").expect("a size")) * 1024.0 / 1e6
}

/// The number behind a label in a status file.
fn number(status: &str, label: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix(label))?.split_whitespace().next()?.parse().ok()
}
