//! The daemon dies at every point on the way of a message, and at random ones: nothing is lost, nobody is answered twice,
//! no prompt is sent twice, and in the end the platform knows that all is done with.

use std::time::{Duration, Instant};

use scripted_model::Scenario;

use crate::channel_rig::Channel;
use crate::dying::{Moments, rounds};
use crate::shell::PATIENCE;

/// Every point on the way of a message, in the order in which it passes them.
const FAILPOINTS: [&str; 16] = [
    "inbox.before_record",
    "inbox.recorded",
    "inbox.before_turn",
    "inbox.turn_recorded",
    "thread.recorded",
    "prompt.recorded",
    "turn.recorded",
    "completion.before_record",
    "completion.recorded",
    "inbox.before_reply",
    "inbox.reply_recorded",
    "delivery.before_send",
    "delivery.sent",
    "inbox.acknowledged",
    "inbox.acknowledgement_recorded",
    "event.recorded",
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
    for point in FAILPOINTS {
        let (channel, seq) = channel().await;
        channel.shell.run_dying_at(&START, point).await;
        channel.shell.until_dead_at(point).await;
        check(channel, seq, point).await;
    }
}

#[tokio::test]
async fn a_daemon_killed_at_any_moment_loses_no_message_and_answers_none_twice() {
    let mut moments = Moments::seeded(0x2545_f491);
    for round in 0..rounds(10) {
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
    use testkit::platform::Answer;
    use testkit::platform::molecule::Bad;
    for bad in [Bad::DoesBut(Answer::status(502)), Bad::DoesAndDrops] {
        let (channel, seq) = channel().await;
        channel.molecule.have("notify", [bad.clone()]);
        channel.molecule.have("delegate", [bad.clone()]);
        channel.shell.run(&START).await;
        check(channel, seq, &format!("{bad:?}")).await;
    }
}
