//! The daemon dies while it serves a bot of Telegram's: no message is lost, none is worked on twice, and what may be said
//! twice says so.

use std::fs;
use std::time::{Duration, Instant};

use scripted_model::Scenario;
use serde_json::Value;
use testkit::platform::telegram::server::Server;

use crate::channel_telegram::{ADA, BOB, Chat, MARK};
use crate::dying::{Moments, OF_DECISIONS, Source, on_the_way_from, rounds};
use crate::shell::PATIENCE;

/// Two conversations, one of them with two messages.
fn write(chat: &Chat) {
    chat.server.write(ADA, "one [play] say Answer one.");
    chat.server.write(ADA, "two [play] say Answer two.");
    chat.server.write(BOB, "three [play] say Answer three.");
}

async fn check(chat: Chat, what: &str) {
    chat.start().await;
    for (who, text) in [(ADA, "Answer one."), (ADA, "Answer two."), (BOB, "Answer three.")] {
        chat.server.until_said(who, text).await;
    }
    chat.shell.deliveries(|all| all.len() >= 3 && all.iter().all(|one| one["state"] == "delivered")).await;
    for text in ["Answer one.", "Answer two.", "Answer three."] {
        let same: Vec<String> =
            chat.answers().into_iter().map(|said| said.text).filter(|said| said.contains(text)).collect();
        let unmarked = same.iter().filter(|said| !said.contains(MARK)).count();
        assert!(unmarked <= 1, "{what}: said twice without a mark: {same:#?}");
    }
    let prompts = chat.shell.model.requests().len();
    assert_eq!(prompts, 3, "{what}: the model was asked {prompts} times");
    assert_eq!(chat.inbox().await.len(), 3, "{what}");
    let order: Vec<bool> = chat
        .answers()
        .into_iter()
        .filter(|said| said.chat == ADA)
        .map(|said| said.text.contains("one"))
        .collect();
    assert!(order.is_sorted_by(|before, after| before >= after), "{what}: out of order");
    chat.shell.end().await;
}

#[tokio::test]
async fn whatever_the_daemon_was_doing_with_a_message_when_it_died_it_is_answered() {
    for point in on_the_way_from(Source::Telegram) {
        let chat = Chat::new().await;
        write(&chat);
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        chat.shell.until_dead_at(point).await;
        check(chat, point).await;
    }
}

#[tokio::test]
async fn what_is_added_to_a_turn_is_told_to_codex_once_whenever_the_daemon_dies() {
    for point in ["steer.before_record", "steer.recorded", "steer.given"] {
        let chat = Chat::new().await;
        let model = &chat.shell.model;
        model.script("first", Scenario::new().stall("gate").say("Answer one."));
        model.script_containing("and this", Scenario::new().say("Answer two."));
        chat.server.write(ADA, "first");
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        model.wait_for_stall("gate").await;
        chat.server.write(ADA, "/steer and this");
        chat.shell.until_dead_at(point).await;
        chat.start().await;
        model.release("gate");
        chat.server.until_said(ADA, "Answer two.").await;
        let requests = model.requests();
        let told = requests.last().unwrap().body.to_string().matches("and this").count();
        assert_eq!(told, 1, "{point}: Codex was told {told} times");
        let is_over = |all: &[Value]| {
            all.len() == 2 && all.iter().all(|one| one["state"] != "received" && one["state"] != "running")
        };
        let deadline = Instant::now() + PATIENCE;
        while !is_over(&chat.inbox().await) {
            assert!(Instant::now() < deadline, "{point}: {:#?}", chat.inbox().await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        chat.shell.end().await;
    }
}

#[tokio::test]
async fn a_tap_survives_the_death_of_the_daemon_that_was_deciding_on_it() {
    for point in OF_DECISIONS {
        let chat = Chat::new().await;
        chat.server.write(ADA, "do it [play] escalate echo ran >> count.txt => say Made.");
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        let asked = chat.with_button("Approve once").await;
        let tap = chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
        chat.shell.until_dead_at(point).await;
        chat.start().await;
        chat.server.until_said(ADA, "Made.").await;
        let told = |server: &Server| server.toasts().into_iter().find(|(id, _)| *id == tap);
        chat.server.until(&format!("{point}: who tapped to be told"), told).await;
        let count = fs::read_to_string(chat.shell.home.workspace().join("count.txt")).unwrap();
        assert_eq!(count, "ran\n", "{point}");
        let is_over =
            |server: &Server| server.said().iter().all(|said| said.button("Decline").is_none()).then_some(());
        chat.server.until(&format!("{point}: all buttons to go"), is_over).await;
        chat.shell.end().await;
    }
}

#[tokio::test]
async fn a_daemon_that_is_killed_at_any_moment_loses_no_message() {
    let mut moments = Moments::seeded(0x5eed_0007);
    for round in 0..rounds() {
        let after = moments.within_ms(1200);
        let chat = Chat::new().await;
        chat.start().await;
        write(&chat);
        tokio::time::sleep(after).await;
        chat.shell.kill_daemon_for_good().await;
        check(chat, &format!("round {round}, killed after {after:?}")).await;
    }
}
