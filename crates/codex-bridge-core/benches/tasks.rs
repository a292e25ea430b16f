//! Many tasks on one host against one process per task: memory at the same moment of the same work, and the time from
//! handing over to a running turn. Ratios from one run; exits non-zero below the bar.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/all/workbench.rs"]
#[allow(dead_code)]
mod workbench;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use codex_bridge_core::event::Line;
use codex_bridge_core::{Bridge, News};
use codex_session::{OwnCodex, Session, SessionConfig, SessionEvent, TurnOptions};
use codex_wire::host::{KeeperCommand, keeper};
use codex_wire::os::process;
use codex_wire::transport::stdio::Spawn;
use scripted_model::Scenario;
use testkit::rig;
use workbench::{Workbench, at_rest};

const TASKS: usize = 50;
const STARTS: usize = 15;
const MEMORY_BAR: f64 = 0.35;
const START_BAR: f64 = 0.4;

fn main() {
    // This program keeps its own hosts.
    if std::env::args().nth(1).as_deref() == Some("keeper") {
        let plan = keeper::read_plan(std::env::args_os().nth(3).unwrap().as_ref()).unwrap();
        keeper::run(&plan).unwrap();
    } else {
        measure();
    }
}

#[tokio::main]
async fn measure() {
    let bench = Workbench::new().await;
    bench.model.script("hi", Scenario::new().say("hi"));
    let mut config = bench.config();
    config.max_running = TASKS;
    config.keeper = KeeperCommand { program: std::env::current_exe().unwrap(), args: vec!["keeper".into()] };
    let bridge = bench.open_with(config).await;
    // A warm home and a warm host for both sides.
    let warm = bridge.start(bench.task("hi")).await.unwrap().task;
    at_rest(&bridge, warm.id.as_str()).await;

    let shared_start = start_on_host(&bench, &bridge).await;
    let own_start = start_own_process(&bench).await;
    let shared_bytes = memory_on_host(&bench, &bridge).await;
    let own_bytes = memory_of_own_processes(&bench).await;
    bench.tidy(bridge).await;

    let memory = ratio(shared_bytes, own_bytes);
    let start = shared_start.as_secs_f64() / own_start.as_secs_f64();
    println!(
        "{TASKS} tasks: bridge and hosts {} MB, one process per task {} MB, ratio {memory:.2}",
        shared_bytes >> 20,
        own_bytes >> 20
    );
    println!(
        "submit to turn/started, p50 of {STARTS}: {shared_start:?} on a warm host, {own_start:?} in a fresh process, ratio {start:.2}"
    );
    if memory > MEMORY_BAR || start > START_BAR {
        println!("below the bar: memory ≤ {MEMORY_BAR}, start ≤ {START_BAR}");
        std::process::exit(1);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

async fn start_on_host(bench: &Workbench, bridge: &Bridge) -> Duration {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let mut news = bridge.news();
        let began = Instant::now();
        let task = bridge.start(bench.task("hi")).await.unwrap().task;
        loop {
            if let Ok(News::Event(event)) = news.recv().await
                && matches!(event.line, Line::TurnStarted(_))
            {
                break;
            }
        }
        times.push(began.elapsed());
        at_rest(bridge, task.id.as_str()).await;
    }
    median(times)
}

fn own_codex(bench: &Workbench) -> OwnCodex {
    OwnCodex(Spawn::new(rig::codex_path(), bench.home.env().into_iter().collect()))
}

async fn start_own_process(bench: &Workbench) -> Duration {
    let mut times = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let session = Session::new(SessionConfig::new(bench.home.workspace()), own_codex(bench), None);
        let mut events = session.events();
        let turn = tokio::spawn({
            let session = session.clone();
            async move { session.run_turn("hi", TurnOptions::default()).await }
        });
        while !matches!(events.next().await, Some(SessionEvent::TurnStarted { .. })) {}
        times.push(began.elapsed());
        turn.await.unwrap();
        session.close().await;
    }
    median(times)
}

async fn memory_on_host(bench: &Workbench, bridge: &Bridge) -> u64 {
    bench.model.script("together", Scenario::new().stall("together").say("done"));
    let mut ids = Vec::new();
    let seen = bench.model.requests().len();
    for _ in 0..TASKS {
        ids.push(bridge.start(bench.task("together")).await.unwrap().task.id);
    }
    bench.model.wait_for_request(seen + TASKS - 1).await;
    let heads =
        bridge.hosts().iter().map(|host| host.record().keeper.pid).chain([std::process::id()]).collect();
    let bytes = pss_of_trees(&heads);
    bench.model.release("together");
    for id in ids {
        at_rest(bridge, id.as_str()).await;
    }
    bytes
}

async fn memory_of_own_processes(bench: &Workbench) -> u64 {
    bench.model.script("alone", Scenario::new().stall("alone").say("done"));
    let seen = bench.model.requests().len();
    let mut sessions = Vec::new();
    let mut turns = Vec::new();
    for _ in 0..TASKS {
        let session = Session::new(SessionConfig::new(bench.home.workspace()), own_codex(bench), None);
        let running = session.clone();
        turns.push(tokio::spawn(async move { running.run_turn("alone", TurnOptions::default()).await }));
        sessions.push(session);
    }
    bench.model.wait_for_request(seen + TASKS - 1).await;
    let mut heads = BTreeSet::new();
    for session in &sessions {
        heads.extend(session.status().await.child_pid);
    }
    let bytes = pss_of_trees(&heads);
    bench.model.release("alone");
    for turn in turns {
        turn.await.unwrap();
    }
    for session in sessions {
        session.close().await;
    }
    bytes
}

/// Proportional set size of these processes and all below them: shared pages are counted once.
fn pss_of_trees(heads: &BTreeSet<u32>) -> u64 {
    let all = process::all();
    let mut pids: BTreeSet<u32> =
        process::descendants_in(&all, heads).into_iter().map(|process| process.pid).collect();
    pids.extend(heads);
    pids.into_iter().map(pss).sum()
}

fn pss(pid: u32) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let kilobytes = rollup
        .lines()
        .find_map(|line| line.strip_prefix("Pss:")?.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    kilobytes.unwrap_or_default() * 1024
}
