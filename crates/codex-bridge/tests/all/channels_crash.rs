//! The daemon dies at every point on the way of a message, and at random ones: nothing is lost, nobody is answered twice,
//! no prompt is sent twice, and in the end the platform knows that all is done with.

use std::time::{Duration, Instant};

use scripted_model::{Scenario, ToolCall};
use serde_json::Value;
use testkit::platform::Answer;
use testkit::platform::molecule::{Bad, State};

use crate::channel_rig::Channel;
use crate::dying::{Moments, OF_DECISIONS, OF_DELIVERIES, OF_STEERS, Source, on_the_way_from, rounds};
use crate::shell::PATIENCE;

/// Beside those of every message: points of the turn that it leads to.
const OF_ITS_TURN: [&str; 8] = [
    "thread.before_record",
    "thread.recorded",
    "prompt.recorded",
    "turn.before_record",
    "turn.recorded",
    "event.recorded",
    "completion.before_record",
    "completion.recorded",
];

/// One message of a person, one of an agent.
async fn channel() -> (Channel, i64) {
    let channel = Channel::new().await;
    channel.shell.model.script("of a person", Scenario::new().say("for the person"));
    channel.shell.model.script("of an agent", Scenario::new().say("for the agent"));
    channel.molecule.say("of a person");
    let seq = channel.molecule.peer_says("peer-1", "of an agent");
    (channel, seq)
}

/// Any command starts a daemon.
const START: [&str; 2] = ["channel", "list"];

async fn check(channel: Channel, seq: i64, what: &str) {
    let began = Instant::now();
    loop {
        // As whoever keeps a daemon running would.
        channel.shell.run(&START).await;
        let state = channel.molecule.state();
        if state.acks.last().is_some_and(|ack| *ack >= seq) {
            break;
        }
        let inbox = channel.shell.run(&["inbox", "--all"]).await.out;
        assert!(began.elapsed() < PATIENCE, "{what}: it is stuck: {inbox}\n{state:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let state = channel.molecule.state();
    assert_eq!(state.notices, ["for the person"], "{what}");
    assert_eq!(state.delegations.len(), 1, "{what}: {:?}", state.delegations);
    assert!(state.delegations[0].1.starts_with("for the agent"), "{what}: {:?}", state.delegations);
    assert_eq!(channel.prompts(), 2, "{what}: each prompt is sent once");
    let done = |inbox: &[serde_json::Value]| {
        inbox.iter().all(|one| one["state"] == "acknowledged") && inbox.len() == 2
    };
    channel.until_inbox(what, done).await;
    let found = channel.shell.run(&["--json", "store", "check"]).await.ok().json();
    assert_eq!(found["sound"], true, "{what}: {found}");
    channel.end().await;
}

// peer: CH10, CH11
#[tokio::test]
async fn whatever_was_being_done_with_a_message_when_the_daemon_died_it_is_answered_once() {
    for point in on_the_way_from(Source::Molecule).into_iter().chain(OF_ITS_TURN) {
        let (channel, seq) = channel().await;
        channel.shell.run_dying_at(&START, point).await;
        channel.shell.until_dead_at(point).await;
        check(channel, seq, point).await;
    }
}

#[tokio::test]
async fn a_daemon_killed_at_any_moment_loses_no_message_and_answers_none_twice() {
    let mut moments = Moments::seeded(0x2545_f491);
    for round in 0..rounds() {
        // From the first poll to the mark it takes about a second.
        let after = moments.within_ms(1_200);
        let (channel, seq) = channel().await;
        channel.shell.run(&START).await;
        tokio::time::sleep(after).await;
        channel.shell.kill_daemon();
        check(channel, seq, &format!("round {round}, killed after {after:?}")).await;
    }
}

/// The platform takes the reply and does not live to say so: it is looked for, and not repeated.
#[tokio::test]
async fn a_reply_that_arrived_without_an_answer_is_not_sent_again() {
    for bad in [Bad::DoesBut(Answer::status(502)), Bad::DoesAndDrops] {
        let (channel, seq) = channel().await;
        channel.molecule.have("notify", [bad.clone()]);
        channel.molecule.have("delegate", [bad.clone()]);
        channel.shell.run(&START).await;
        check(channel, seq, &format!("{bad:?}")).await;
    }
}

/// A message whose turn asks to run a command that leaves a trace of each run.
async fn asking() -> Channel {
    let channel = Channel::new().await;
    let call = ToolCall::exec_escalated("echo ran >> count.txt", "it is needed");
    channel.shell.model.script("make it", Scenario::new().call(call).then_say("finished"));
    channel.molecule.say("make it");
    channel
}

/// Approves what people see, which is one, and sees the command run once.
async fn approve(channel: Channel, what: &str) {
    channel.start().await;
    let is_open = |state: &State| state.requests.iter().any(|request| request["status"] == "pending");
    channel.molecule.until(&format!("{what}: a request"), is_open).await;
    let polls = channel.molecule.state().polls;
    let state = channel.molecule.until("more polls", |state| state.polls > polls + 4).await;
    assert_eq!(state.requests.len(), 1, "{what}: people see it once: {:#?}", state.requests);
    channel.molecule.answer(0, "approved");
    channel
        .molecule
        .until(&format!("{what}: the reply"), |state| state.notices.contains(&"finished".to_owned()))
        .await;
    let count = std::fs::read_to_string(channel.shell.home.workspace().join("count.txt")).unwrap();
    assert_eq!(count, "ran\n", "{what}");
    assert_eq!(channel.molecule.state().requests.len(), 1, "{what}: it is not asked again");
    let inbox = channel.inbox().await;
    assert_eq!(inbox.len(), 1, "{what}: what the platform says of the decision is no message: {inbox:#?}");
    channel.end().await;
}

#[tokio::test]
async fn what_codex_asks_stands_on_the_canvas_once_wherever_the_daemon_died() {
    for point in OF_DELIVERIES {
        let channel = asking().await;
        channel.shell.run_dying_at(&START, point).await;
        channel.shell.until_dead_at(point).await;
        approve(channel, point).await;
    }
    // Asked, and perhaps written down as delivered, but not yet with our place in the log.
    let channel = asking().await;
    channel.start().await;
    channel.molecule.until("a request", |state| !state.requests.is_empty()).await;
    channel.shell.kill_daemon_for_good().await;
    approve(channel, "killed when it was there").await;
}

#[tokio::test]
async fn what_codex_asks_stands_on_the_canvas_once_when_the_answer_to_it_was_lost() {
    for bad in [Bad::DoesBut(Answer::status(502)), Bad::DoesBut(Answer::status(201)), Bad::DoesAndDrops] {
        let channel = asking().await;
        channel.molecule.have("requests", [Bad::Reorders, bad.clone()]);
        approve(channel, &format!("{bad:?}")).await;
    }
}

#[tokio::test]
async fn what_codex_asks_stands_on_the_canvas_once_when_it_could_not_be_looked_for_at_first() {
    let channel = asking().await;
    let page = Answer::json(200, "a page for people".into());
    let days = [Answer::status(500), page].map(Bad::Refuses);
    channel.molecule.have("requests", [Bad::Reorders, Bad::DoesAndDrops].into_iter().chain(days));
    channel.start().await;
    let is_unseen =
        |one: &Value| one["last_error"].as_str().is_some_and(|why| why.contains("could not be looked"));
    let waiting = channel.shell.deliveries(|all| all.iter().any(is_unseen)).await;
    let id = waiting.iter().find(|one| is_unseen(one)).unwrap()["delivery_id"].as_str().unwrap();
    let began = Instant::now();
    // Sooner than by itself. One that is being sent at this moment refuses it.
    let is_open = |one: &Value| one["delivery_id"] == id && one["state"] != "delivered";
    while channel.shell.deliveries(|_| true).await.iter().any(is_open) {
        channel.shell.run(&["deliveries", "retry", id]).await;
        assert!(began.elapsed() < PATIENCE, "{:#?}", channel.molecule.state());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    approve(channel, "a list that cannot be read").await;
}

#[tokio::test]
async fn a_click_survives_the_death_of_the_daemon_that_was_deciding_on_it() {
    for point in OF_DECISIONS {
        let channel = asking().await;
        channel.shell.run_dying_at(&START, point).await;
        channel.molecule.until(&format!("{point}: a request"), |state| !state.requests.is_empty()).await;
        channel.molecule.answer(0, "approved");
        channel.shell.until_dead_at(point).await;
        channel.start().await;
        let is_over = |state: &State| state.notices.contains(&"finished".to_owned());
        let state = channel.molecule.until(&format!("{point}: the reply"), is_over).await;
        assert_eq!(state.requests.len(), 1, "{point}: it is not asked again: {:#?}", state.requests);
        let count = std::fs::read_to_string(channel.shell.home.workspace().join("count.txt")).unwrap();
        assert_eq!(count, "ran\n", "{point}");
        channel.end().await;
    }
}

#[tokio::test]
async fn a_notice_on_the_canvas_is_said_once_after_a_crash() {
    for point in OF_DELIVERIES {
        let channel = Channel::new().await;
        let args = ["run", "-d", "--notify", "molecule:canvas", "hello [play] say Hello."];
        channel.shell.run_dying_at(&args, point).await.ok();
        channel.shell.until_dead_at(point).await;
        channel.start().await;
        channel.shell.deliveries(|all| all.len() == 1 && all[0]["state"] == "delivered").await;
        let notices = channel.molecule.state().notices;
        assert_eq!(notices.len(), 1, "{point}: {notices:#?}");
        assert!(
            notices[0].contains("Hello.") && !notices[0].contains("may be a duplicate"),
            "{point}: {notices:?}"
        );
        channel.end().await;
    }
}

#[tokio::test]
async fn a_message_that_was_being_added_to_a_turn_reaches_codex_once_wherever_the_daemon_died() {
    for point in OF_STEERS {
        let channel = Channel::with("while_running = \"steer\"").await;
        let model = &channel.shell.model;
        let long = Scenario::new().delta("begun ").stall("long").delta("done").then_say("with that too");
        model.script("long work", long);
        model.script("and mind the tests", Scenario::new().say("minded"));
        channel.molecule.say("long work");
        channel.shell.run_dying_at(&START, point).await;
        model.wait_for_stall("long").await;
        let seq = channel.molecule.say("and mind the tests");
        channel.shell.until_dead_at(point).await;
        channel.start().await;
        let is_taken = |inbox: &[serde_json::Value]| inbox.len() == 2 && inbox[0]["state"] != "received";
        channel.until_inbox(&format!("{point}: the steer"), is_taken).await;
        model.release("long");
        let state = channel.acked(seq).await;
        let last = model.requests().last().unwrap().body.to_string();
        let times = last.matches("and mind the tests").count();
        assert_eq!(times, 1, "{point}: Codex was told {times} times: {:?}", state.notices);
        channel.end().await;
    }
}
