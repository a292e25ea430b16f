//! How fast messages of Codex pass through us, on one core: parsing, routing, reading, and the whole path from a line
//! to redacted session events. Fails if a bar is missed.
//!
//! The input is a recording of the real Codex (`cargo run -p codex-wire --example record`). All figures come from the
//! same run: the machine's speed of the day cancels out of the ratios.
//!
//! `cargo bench -p codex-session --bench wire [-- --quick]`
// Counts of lines and bytes are far below what a float holds.
#![allow(clippy::unwrap_used, clippy::cast_precision_loss)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use codex_session::session_event::{EventWriter, SessionEvent};
use codex_session::turn::{Begin, Effect, Input, Limits, Plan, Reply, Turn};
use codex_session::{ApprovalPolicy, TurnOutcome};
use codex_wire::call::TurnStart;
use codex_wire::envelope::Envelope;
use codex_wire::event::Event;
use codex_wire::{Epoch, ThreadId, TurnId};
use redact::Redactor;
use serde_json::Value;

const RECORDING: &str = include_str!("recording.jsonl");

/// Routing may take this share of what parsing everything takes.
const ROUTE_BAR: f64 = 0.5;
/// Deltas that must pass the whole path in a second.
const DELTAS_BAR: f64 = 100_000.0;

/// Lines that are measured together: few enough that most samples are not disturbed by other processes.
const BLOCK_LINES: usize = 64;

const STAGES: [&str; 4] =
    ["parse into serde_json::Value", "route", "route, read the event", "route, read, step, redact"];

fn main() -> ExitCode {
    let rounds = if std::env::args().any(|argument| argument == "--quick") { 5 } else { 41 };
    let all: Vec<&str> = RECORDING.lines().collect();
    let deltas: Vec<&str> = all.iter().copied().filter(|line| is_delta(line)).collect();
    let mut missed = false;
    for (name, lines) in [("all events", &all), ("delta events", &deltas)] {
        let bytes: usize = lines.iter().map(|line| line.len()).sum();
        println!("{name}: {} lines, {bytes} bytes, median of {rounds} rounds", lines.len());
        let seconds = measure(lines, rounds);
        for (stage, seconds_of_stage) in STAGES.iter().zip(seconds) {
            report(stage, seconds_of_stage, lines.len(), bytes, seconds[0]);
        }
        let share = seconds[1] / seconds[0];
        let line = format!("routing takes {share:.2} of parsing (at most {ROUTE_BAR})");
        missed |= misses(&line, share <= ROUTE_BAR);
        if name == "delta events" {
            let rate = lines.len() as f64 / seconds[3];
            let line = format!("{rate:.0} deltas a second on the whole path (at least {DELTAS_BAR})");
            missed |= misses(&line, rate >= DELTAS_BAR);
        }
    }
    if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn is_delta(line: &str) -> bool {
    let envelope = Envelope::parse(line.as_bytes()).unwrap();
    envelope.method.is_some_and(|method| method.ends_with("elta"))
}

/// Seconds that each stage takes for all lines: the sum of the medians of the blocks. The stages take turns at every
/// block, so that a slow moment of the machine hits them all alike.
fn measure(lines: &[&str], rounds: usize) -> [f64; 4] {
    let blocks: Vec<&[&str]> = lines.chunks(BLOCK_LINES).collect();
    let mut samples: Vec<[Vec<Duration>; 4]> = vec![Default::default(); blocks.len()];
    // One round more, to warm up.
    for round in 0..=rounds {
        let mut walk = Walk::default();
        for (block, samples) in blocks.iter().zip(&mut samples) {
            let times = [
                time(block, |line| drop(black_box(serde_json::from_str::<Value>(line).unwrap()))),
                time(block, |line| drop(black_box(Envelope::parse(line.as_bytes()).unwrap()))),
                time(block, |line| drop(black_box(read(line)))),
                time(block, |line| walk.take(line)),
            ];
            if round > 0 {
                samples.iter_mut().zip(times).for_each(|(samples, time)| samples.push(time));
            }
        }
    }
    let mut sums = [0.0; 4];
    for (sum, samples) in samples.into_iter().flat_map(|samples| (0..4).zip(samples)) {
        sums[sum] += median(samples).as_secs_f64();
    }
    sums
}

fn time(block: &[&str], mut stage: impl FnMut(&str)) -> Duration {
    let began = Instant::now();
    for line in block {
        stage(line);
    }
    began.elapsed()
}

fn median(mut samples: Vec<Duration>) -> Duration {
    samples.sort_unstable();
    samples[samples.len() / 2]
}

fn report(stage: &str, seconds: f64, count: usize, bytes: usize, seconds_to_parse: f64) {
    let each = seconds * 1e9 / count as f64;
    let rate = bytes as f64 / seconds / 1e6;
    println!(
        "  {stage:<30} {each:>7.0} ns/event {rate:>7.0} MB/s  {:.2} x parse",
        seconds / seconds_to_parse
    );
}

fn misses(what: &str, is_met: bool) -> bool {
    println!("  {} {what}", if is_met { "ok    " } else { "MISSED" });
    !is_met
}

/// What the peer and the owner of an inbox make of a line.
fn read(line: &str) -> (Option<ThreadId>, Option<TurnId>, Event) {
    let envelope = Envelope::parse(line.as_bytes()).unwrap();
    let thread_id = envelope.route.thread_id.as_deref().map(ThreadId::from);
    let turn_id = envelope.route.turn_id.as_deref().map(TurnId::from);
    let event = Event::parse(&envelope.method.unwrap(), line.as_bytes());
    (thread_id, turn_id, event)
}

/// A walk through a recording, with a machine and a writer for each of its turns.
#[derive(Default)]
struct Walk {
    now: u64,
    turn: Option<(TurnId, Turn, EventWriter)>,
    effects: Vec<Effect>,
    told: Vec<SessionEvent>,
}

impl Walk {
    fn take(&mut self, line: &str) {
        let (thread_id, turn_id, event) = read(line);
        self.now += 1;
        if let (Some(thread_id), Some(turn_id)) = (&thread_id, &turn_id)
            && self.turn.as_ref().is_none_or(|(current, ..)| current != turn_id)
        {
            self.turn = Some(begin(thread_id, turn_id, self.now));
        }
        let Some((_, turn, writer)) = &mut self.turn else { return };
        turn.step(Input::Event { thread_id, turn_id, event }, self.now, &mut self.effects);
        for effect in self.effects.drain(..) {
            match effect {
                Effect::Tell(notice) => writer.tell(notice, self.now, &mut self.told),
                Effect::End(_) => writer.tell_end(TurnOutcome::Completed, self.now, &mut self.told),
                _ => {}
            }
        }
        black_box(&mut self.told).clear();
    }
}

/// A turn that Codex has taken.
fn begin(thread_id: &ThreadId, turn_id: &TurnId, now: u64) -> (TurnId, Turn, EventWriter) {
    let plan = Plan {
        thread_id: thread_id.clone(),
        epoch: Epoch::from("epoch"),
        begin: Begin::Prompt(Box::new(TurnStart { thread_id: thread_id.0.clone(), ..TurnStart::default() })),
        limits: Limits::default(),
        policy: ApprovalPolicy::default(),
        redactor: Redactor::default(),
        someone_answers: false,
    };
    let mut effects = Vec::new();
    let mut turn = Turn::begin(plan, now, &mut effects);
    turn.step(Input::Reply(Reply::Start(Ok(turn_id.clone()))), now, &mut effects);
    (turn_id.clone(), turn, EventWriter::new(turn_id.as_str(), Vec::new(), Redactor::default()))
}
