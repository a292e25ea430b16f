//! A program is killed as it sends a prompt to a living host of the real Codex. The next one makes sure that the prompt
//! runs, and runs once.

use std::time::{Duration, Instant};

use codex_session::TurnOptions;
use codex_wire::ThreadId;
use futures_util::future::join_all;

use crate::real_parts::{answer_to, completed, count_prompts, thread_of};
use crate::workbench::{RealCodex, soon};

/// Threads that are worked on at once.
const LANES: usize = 5;
/// How long after it got its prompt the first program is killed.
const FIRST_KILL: Duration = Duration::from_millis(2);
/// How much earlier or later the next one is, at first and at least.
const STEPS: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(1));
/// The program that looks for the prompt looks twice before it sends it itself, with this between.
const SECOND_LOOK: Duration = Duration::from_secs(1);

fn tries_per_lane() -> usize {
    let tries = if std::env::var_os("CODEX_BRIDGE_PROVE").is_some() { 200 } else { 40 };
    tries / LANES
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prompt_in_flight_when_its_program_died_is_sent_once() {
    let codex = RealCodex::new().await;
    let lanes = join_all((0..LANES).map(|lane| one_lane(&codex, lane))).await;
    let tries = lanes.concat();
    let got_through = tries.iter().filter(|got_through| **got_through).count();
    println!("{got_through} of {} prompts had got through when their program died", tries.len());
    assert!(0 < got_through && got_through < tries.len(), "the kills were on both sides of the sending");
    codex.end_host().await;
}

/// The tries on one thread: whether each prompt had got through.
async fn one_lane(codex: &RealCodex, lane: usize) -> Vec<bool> {
    let session = codex.start_on_host(None).await;
    answer_to(&session, "hello").await;
    let thread = thread_of(&session).await;
    session.close().await;
    let mut aim = Aim { kill_after: FIRST_KILL, step: STEPS.0 };
    let mut tries = Vec::new();
    for number in 0..tries_per_lane() {
        let got_through = one_try(codex, &thread, &format!("{lane}-{number}"), aim.kill_after).await;
        aim.adjust(got_through, tries.last().is_some_and(|last| *last != got_through));
        tries.push(got_through);
    }
    tries
}

/// When to kill a program so that its prompt is just on its way: earlier after one that got through, else later.
struct Aim {
    kill_after: Duration,
    step: Duration,
}

impl Aim {
    fn adjust(&mut self, got_through: bool, turned: bool) {
        if turned {
            self.step = STEPS.1.max(self.step / 2);
        }
        self.kill_after =
            if got_through { self.kill_after.saturating_sub(self.step) } else { self.kill_after + self.step };
    }
}

/// Says whether the prompt had got through when the program died.
async fn one_try(codex: &RealCodex, thread: &ThreadId, name: &str, kill_after: Duration) -> bool {
    let (prompt, client_id) = (format!("prompt {name}"), format!("mine-{name}"));
    let mut program = codex.program(&["--resume", thread.as_str(), "--client-id", &client_id]);
    program.thread().await;
    program.prompt(&prompt).await;
    tokio::time::sleep(kill_after).await;
    program.kill().await;

    let session = codex.resume_on_host(thread, None).await;
    let began = Instant::now();
    let seen = async {
        codex.model.wait_for(|request| request.prompt().as_deref() == Some(&prompt)).await;
        began.elapsed()
    };
    let options = TurnOptions {
        client_id: Some(client_id.clone()),
        may_have_been_sent: true,
        ..TurnOptions::default()
    };
    let turn = session.run_turn(prompt.as_str(), options);
    let (result, seen_after) = tokio::join!(soon(turn), soon(seen));
    assert_eq!(completed(result).final_text, format!("You said: {prompt}"));
    assert_eq!(codex.turns_asking(&prompt).len(), 1, "{prompt} ran in more than one turn");
    assert_eq!(count_prompts(&codex.turns(thread).await, &client_id), 1, "{prompt} is in the thread once");
    session.close().await;
    seen_after < SECOND_LOOK
}
