//! Durable events per second and the time to an acknowledgement, beside the plain way of doing it: a connection and a
//! transaction for every write. Ends with an error below the bar.
//!
//! `-- --quick` takes a few seconds; its numbers are rough.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_bridge_core::event::{Event, Message, NewEvent};
use codex_bridge_core::store::conformance::samples::{add, new_task, task_id};
use codex_bridge_core::store::sqlite::Sqlite;
use codex_bridge_core::store::{Store, Write};
use rusqlite::{Connection, params};
use serde_json::{Value, json};

/// Concurrent tasks.
const TASKS: u32 = 50;
/// How many times as many events as the plain way.
const BAR: f64 = 100.0;
/// Events in a batch of the measure that counts: what piles up in a task while its last batch is being written.
const COUNTED: u32 = 64;

/// Rounds of each measure, one after the other: what else the machine does hits all alike.
const ROUNDS: usize = 5;

struct Measure {
    events: u64,
    took: Duration,
    latencies: Vec<Duration>,
}

impl Measure {
    #[allow(clippy::cast_precision_loss)]
    fn per_second(&self) -> f64 {
        self.events as f64 / self.took.as_secs_f64()
    }
}

fn main() -> ExitCode {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let time = Duration::from_millis(if is_quick { 300 } else { 2000 });
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!("{TASKS} concurrent tasks, events of {} bytes, synchronous=FULL\n", body(0).to_string().len());

    let batches = [1, 8, COUNTED];
    let mut plains = Vec::new();
    let mut groups = batches.map(|_| Vec::new());
    for round in 0..ROUNDS {
        plains.push(plain(&folder.path().join(format!("plain-{round}")), time));
        for (group, batch) in groups.iter_mut().zip(batches) {
            let file = folder.path().join(format!("grouped-{batch}-{round}"));
            group.push(runtime.block_on(grouped(&file, time, batch)));
        }
    }
    print("two transactions an event", &plains);
    for (group, batch) in groups.iter().zip(batches) {
        print(&format!("grouped, {batch} events a batch"), group);
    }
    let [.., counted] = &groups;
    let ratio =
        median(counted.iter().zip(&plains).map(|(ours, plain)| ours.per_second() / plain.per_second()));
    println!("\n{ratio:.0} times the plain way (bar: {BAR:.0})");
    if ratio < BAR { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn print(name: &str, rounds: &[Measure]) {
    let per_second = median(rounds.iter().map(Measure::per_second));
    let mut latencies: Vec<Duration> =
        rounds.iter().flat_map(|round| round.latencies.iter().copied()).collect();
    latencies.sort();
    let micros = |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_micros();
    println!(
        "{name:<30} {per_second:>9.0} events/s   acknowledged p50 {:>7} µs   p99 {:>7} µs",
        micros(50),
        micros(99)
    );
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Each event is two writes, the line and the task's state, each with its own connection and transaction.
fn plain(file: &Path, time: Duration) -> Measure {
    let connect = || {
        let connection = Connection::open(file).unwrap();
        connection.pragma_update_and_check(None, "journal_mode", "DELETE", |_| Ok(())).unwrap();
        connection.pragma_update(None, "synchronous", "FULL").unwrap();
        connection
    };
    connect()
        .execute_batch(
            "CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, task TEXT, at REAL, kind TEXT, body TEXT);
             CREATE INDEX events_by_task ON events (task, id);
             CREATE TABLE tasks (task TEXT PRIMARY KEY, state TEXT, updated_at REAL);",
        )
        .unwrap();
    let mut latencies = Vec::new();
    let begun = Instant::now();
    for number in 0.. {
        if begun.elapsed() > time {
            break;
        }
        let task = task_id(number % TASKS).0;
        let sent = Instant::now();
        let insert = "INSERT INTO events (task, at, kind, body) VALUES (?1, ?2, 'message', ?3)";
        connect().execute(insert, params![task, number, body(number).to_string()]).unwrap();
        let upsert = "INSERT INTO tasks VALUES (?1, 'working', ?2) ON CONFLICT DO UPDATE SET updated_at = ?2";
        connect().execute(upsert, params![task, number]).unwrap();
        latencies.push(sent.elapsed());
    }
    Measure { events: latencies.len() as u64, took: begun.elapsed(), latencies }
}

/// Each task sends a batch when its last one is acknowledged.
async fn grouped(file: &Path, time: Duration, batch: u32) -> Measure {
    let store = Arc::new(Sqlite::open(file).unwrap());
    store.commit((0..TASKS).map(|task| add(new_task(task))).collect()).await.unwrap();
    let begun = Instant::now();
    let tasks = (0..TASKS).map(|task| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            let mut events: Vec<_> = (0..batch).map(event).collect();
            while begun.elapsed() < time {
                let sent = Instant::now();
                let append = Write::Append { task_id: task_id(task), events };
                let committed = store.commit(vec![append]).await.unwrap();
                latencies.push(sent.elapsed());
                // The same lines again: making new ones is not what is measured.
                let again = |event: Event| NewEvent { at: event.at, line: event.line };
                events = committed.into_iter().map(again).collect();
            }
            let last = store.last_events(&task_id(task), 1).await.unwrap();
            assert_eq!(last[0].seq, i64::from(batch) * i64::try_from(latencies.len()).unwrap());
            latencies
        })
    });
    let mut latencies = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        latencies.extend(task.await.unwrap());
    }
    let took = begun.elapsed();
    Measure { events: latencies.len() as u64 * u64::from(batch), took, latencies }
}

fn event(number: u32) -> NewEvent {
    let text = body(number)["output"].as_str().unwrap().to_owned();
    NewEvent { at: number.into(), line: Message { item_id: None, text, phase: None }.into() }
}

fn body(number: u32) -> Value {
    json!({
        "item_id": format!("item-{number}"),
        "type": "command_execution",
        "command": "cargo test --workspace --all-features",
        "output": "test result: ok. 47 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.66s",
        "exit_code": 0,
        "duration_ms": 1660,
    })
}
