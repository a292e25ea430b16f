//! A thousand messages over fifty conversations, from their arrival to their delivered reply, on the real Codex with the
//! scripted model: what a message costs. Exits non-zero below the bar.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "../tests/all/workbench.rs"]
#[allow(dead_code)]
mod workbench;

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_bridge_core::Bridge;
use codex_bridge_core::inbox::{Allowed, Arrival, Party, Role, Room, Rules, Sender, State};
use codex_bridge_core::outbox::sender::{Sender as Way, Unknown};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use codex_bridge_core::store::MessageFilter;
use codex_wire::host::{KeeperCommand, keeper};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use scripted_model::Scenario;
use workbench::Workbench;

const CONVERSATIONS: usize = 50;
const ROUNDS: usize = 20;
/// A message may cost us so much work, whatever else the machine does; Codex's own work is not ours.
const WORK_BAR: Duration = Duration::from_millis(40);

/// Takes everything at once.
struct Everyone;

impl Way for Everyone {
    fn check(&self, _target: &str) -> Result<(), Unknown> {
        Ok(())
    }

    fn repeats(&self, _target: &str) -> Repeats {
        Repeats::Idempotent { within: None }
    }

    fn send(&self, _attempt: Attempt) -> BoxFuture<'_, Outcome> {
        std::future::ready(Outcome::Delivered { message_id: None }).boxed()
    }
}

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
    config.max_running = CONVERSATIONS;
    config.sender = Arc::new(Everyone);
    config.keeper = KeeperCommand { program: std::env::current_exe().unwrap(), args: vec!["keeper".into()] };
    let bridge = bench.open_with(config).await;
    let allow = vec![Allowed { sender: "*".to_owned(), role: Role::User }];
    let workspaces = [("main".to_owned(), bench.home.workspace())].into();
    bridge.open_channel(Rules::new("chat", allow, workspaces)).await.unwrap();

    let began = Instant::now();
    for round in 0..ROUNDS {
        let arrivals = (0..CONVERSATIONS).map(|room| arrival(room, round)).collect();
        bridge.receive("chat", arrivals, Some(round.to_string())).await.unwrap();
        answered(&bridge, (round + 1) * CONVERSATIONS).await;
    }
    let took = began.elapsed();
    let starts = starts(&bridge).await;
    let (rss, cpu) = (resident_kb(), own_cpu());
    bench.tidy(bridge).await;

    let count = CONVERSATIONS * ROUNDS;
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = count as f64 / took.as_secs_f64();
    let p99 = starts[starts.len() * 99 / 100 - 1];
    println!("{count} messages over {CONVERSATIONS} conversations in {took:.1?}: {rate:.0} a second");
    println!(
        "from arrival to the turn: p50 {:?}, p99 {p99:?}; this process {} MB",
        starts[starts.len() / 2],
        rss >> 10
    );
    println!("this process worked {cpu:?} in all, the scripted model in it included");
    let work = cpu / u32::try_from(count).unwrap_or(u32::MAX);
    if work > WORK_BAR {
        println!("below the bar: {work:?} of work a message, at most {WORK_BAR:?}");
        std::process::exit(1);
    }
}

fn arrival(room: usize, round: usize) -> Arrival {
    Arrival {
        external_id: format!("{room}-{round}"),
        conversation: format!("room-{room}"),
        sender: Sender { id: format!("user-{room}"), name: "user".to_owned(), party: Party::Person },
        room: Room::Direct,
        text: "hi".to_owned(),
        reply_to: format!("chat:room-{room}"),
        position: None,
        sent_at: i64::MAX / 2,
    }
}

/// Waits until so many replies are out.
async fn answered(bridge: &Bridge, count: usize) {
    let mut replies = bridge.replies();
    let settled = MessageFilter { states: vec![State::Acknowledged], ..MessageFilter::default() };
    loop {
        let done = bridge.settled("chat").await.unwrap();
        if !done.is_empty() {
            bridge.acknowledged(done).await.unwrap();
        }
        if bridge.messages(&settled).await.unwrap().len() >= count {
            return;
        }
        let _ = tokio::time::timeout(Duration::from_millis(200), replies.changed()).await;
    }
}

/// How long each message waited for its turn to be taken by Codex, the shortest first.
async fn starts(bridge: &Bridge) -> Vec<Duration> {
    let mut starts = Vec::new();
    for room in 0..CONVERSATIONS {
        let of_room =
            MessageFilter { conversation: Some(format!("room-{room}")), ..MessageFilter::default() };
        let messages = bridge.messages(&of_room).await.unwrap();
        let task_id = messages[0].task_id.clone().unwrap();
        let events = bridge.events(&task_id, 0, 10_000).await.unwrap();
        let started = events.iter().filter(|event| event.kind == "turn_started").map(|event| event.at);
        let pairs = messages.iter().rev().zip(started);
        starts.extend(pairs.map(|(message, at)| {
            Duration::from_millis(u64::try_from(at - message.received_at).unwrap_or_default())
        }));
    }
    starts.sort();
    assert_eq!(starts.len(), CONVERSATIONS * ROUNDS);
    starts
}

fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.trim().parse().ok());
    kilobytes.unwrap_or_default()
}

/// What this process has worked so far.
fn own_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<i64> = stat
        .rsplit(") ")
        .next()
        .unwrap_or_default()
        .split(' ')
        .filter_map(|field| field.parse().ok())
        .collect();
    // User and system time, in hundredths of a second; the state before them is no number.
    let hundredths = fields.get(10).unwrap_or(&0) + fields.get(11).unwrap_or(&0);
    Duration::from_millis(hundredths.unsigned_abs() * 10)
}
