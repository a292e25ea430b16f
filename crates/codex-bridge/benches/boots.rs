//! How long `ps` takes while a host boots for 30 s, since somebody else holds the boot lock of its home, next to a daemon
//! with nothing to do. Whole commands, as a person gives them. A ratio from one run; exits non-zero beyond the bar.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{self, File};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::rig::{self, Home};

/// Half of it before the boot and half after, so that what else the machine does meets both alike.
const IDLE: Duration = Duration::from_secs(30);
/// The daemon gives a boot up after 30 s; these are safely within.
const BOOTING: Duration = Duration::from_secs(28);
const BAR: f64 = 2.0;

fn main() {
    let home = Home::with_config("");
    fs::write(home.dir().join("config.toml"), format!("codex_bin = \"{}\"\n", rig::codex_path().display()))
        .unwrap();
    run(&home, &["ps"]);
    let mut idle = times_of_ps(&home, IDLE / 2);

    let held = File::create(home.codex_home().join(codex_wire::host::boot_lock::FILE_NAME)).unwrap();
    held.lock().unwrap();
    run(&home, &["run", "-d", "hello"]);
    let booting = times_of_ps(&home, BOOTING);
    let listed = String::from_utf8(run(&home, &["--json", "ps"]).stdout).unwrap();
    assert!(listed.contains("\"status\":\"starting\""), "the host boots all the while: {listed}");
    run(&home, &["stop", "--hosts"]);
    drop(held);

    run(&home, &["ps"]);
    idle.extend(times_of_ps(&home, IDLE / 2));
    run(&home, &["stop", "--hosts"]);

    report("idle", &idle);
    report("while a host boots", &booting);
    let ratio = percentile(&booting, 99).as_secs_f64() / percentile(&idle, 99).as_secs_f64();
    println!("`ps` while a host boots: p99 {ratio:.2} × idle (bar: {BAR})");
    if ratio > BAR {
        println!("beyond the bar");
        std::process::exit(1);
    }
}

fn times_of_ps(home: &Home, how_long: Duration) -> Vec<Duration> {
    let end = Instant::now() + how_long;
    let mut times = Vec::new();
    while Instant::now() < end {
        let began = Instant::now();
        run(home, &["--json", "ps"]);
        times.push(began.elapsed());
    }
    times
}

fn report(what: &str, times: &[Duration]) {
    let at = |percent| percentile(times, percent);
    println!("{what}: {} times `ps`, p50 {:?}, p99 {:?}, slowest {:?}", times.len(), at(50), at(99), at(100));
}

fn percentile(times: &[Duration], percent: usize) -> Duration {
    let mut sorted = times.to_vec();
    sorted.sort();
    sorted[(sorted.len() - 1) * percent / 100]
}

fn run(home: &Home, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codex-bridge"));
    command.args(args).env_clear().envs(home.env()).current_dir(home.workspace());
    command.env("CODEX_BRIDGE_STATE_DIR", home.dir().join("st"));
    command.env("CODEX_BRIDGE_CONFIG", home.dir().join("config.toml"));
    command.env("XDG_DATA_HOME", home.dir().join("data"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{args:?}: {output:?}");
    output
}
