//! The daemon dies while it serves an app of Slack's: no message is lost, and none is worked on or answered twice.

use std::fs;
use std::time::Duration;

use testkit::platform::Day;
use testkit::platform::slack::{Server, dm};

use crate::channel_slack::{ADA, BOB, Chat, ROOM, to_bot};
use crate::dying::{Moments, OF_DECISIONS, Source, on_the_way_from, rounds};

/// Three conversations, one of them with two messages.
fn write(chat: &Chat) {
    chat.server.write(ADA, "one [play] say Answer one.");
    chat.server.write(ADA, "two [play] say Answer two.");
    chat.server.write_in(BOB, ROOM, None, &to_bot("three [play] say Answer three."));
}

async fn check(chat: Chat, what: &str) {
    chat.start().await;
    for (channel, text) in
        [(dm(ADA), "Answer one."), (dm(ADA), "Answer two."), (ROOM.to_owned(), "Answer three.")]
    {
        chat.server.until_said(&channel, text).await;
    }
    chat.shell.deliveries(|all| all.len() >= 3 && all.iter().all(|one| one["state"] == "delivered")).await;
    let texts: Vec<String> = chat.answers().into_iter().map(|said| said.text).collect();
    for text in ["Answer one.", "Answer two.", "Answer three."] {
        let count = texts.iter().filter(|said| *said == text).count();
        assert_eq!(count, 1, "{what}: said {count} times: {texts:#?}");
    }
    assert_eq!(texts.len(), 3, "{what}: what arrived is found, so that nothing is marked: {texts:#?}");
    let prompts = chat.shell.model.requests().len();
    assert_eq!(prompts, 3, "{what}: the model was asked {prompts} times");
    assert_eq!(chat.inbox().await.len(), 3, "{what}");
    let at = |text: &str| texts.iter().position(|said| said == text);
    assert!(at("Answer one.") < at("Answer two."), "{what}: out of order");
    chat.shell.end().await;
}

#[tokio::test]
async fn whatever_the_daemon_was_doing_with_a_message_when_it_died_it_is_answered() {
    for point in on_the_way_from(Source::Slack) {
        let chat = Chat::new().await;
        // The position from which messages are read is stored before the first one comes.
        chat.start().await;
        chat.server
            .until("it to be stored", |server| (server.count("users.conversations") > 0).then_some(()))
            .await;
        chat.inbox().await;
        chat.shell.kill_daemon_for_good().await;
        write(&chat);
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        chat.shell.until_dead_at(point).await;
        check(chat, point).await;
    }
}

#[tokio::test]
async fn a_message_that_may_have_arrived_is_looked_for_before_it_is_sent_again() {
    let chat = Chat::new().await;
    chat.start().await;
    for (number, day) in
        [Day::AnswersLate(Duration::from_mins(2)), Day::TakesAndDrops].into_iter().enumerate()
    {
        let text = format!("Answer {number}.");
        let root = chat.server.write_in(
            ADA,
            ROOM,
            None,
            &to_bot(&format!("{number} [play] stall gate{number} => say {text}")),
        );
        chat.shell.model.wait_for_stall(&format!("gate{number}")).await;
        chat.server.until("a sign", |server| (!server.reactions(ROOM, &root).is_empty()).then_some(())).await;
        let before = chat.server.count("chat.postMessage");
        chat.server.have("chat.postMessage", day);
        chat.shell.model.release(&format!("gate{number}"));
        chat.server
            .until("an answer", |server| (server.count("chat.postMessage") > before).then_some(()))
            .await;
        chat.server.until_said(ROOM, &text).await;
        chat.shell.kill_daemon_for_good().await;
        chat.start().await;
        chat.shell
            .deliveries(|all| all.len() > number && all.iter().all(|one| one["state"] == "delivered"))
            .await;
        assert_eq!(chat.answers().len(), number + 1, "{:#?}", chat.answers());
    }
    chat.shell.end().await;
}

#[tokio::test]
async fn a_tap_survives_the_death_of_the_daemon_that_was_deciding_on_it() {
    for point in &OF_DECISIONS[..if rounds() > 50 { 3 } else { 1 }] {
        let chat = Chat::new().await;
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        chat.server.until_connected().await;
        chat.server.write(ADA, "do it [play] escalate echo ran >> count.txt => say Made.");
        let has =
            |server: &Server| server.said().into_iter().find(|said| said.button("Approve once").is_some());
        let asked = chat.server.until("buttons", has).await;
        chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
        chat.shell.until_dead_at(point).await;
        chat.start().await;
        // A tap that was not stored when the daemon died comes again, unless nobody was connected in time.
        let again = chat.server.said().into_iter().rfind(|said| said.button("Approve once").is_some());
        if let Some(again) = again {
            chat.server.tap(ADA, &again, &again.button("Approve once").unwrap());
        }
        chat.server.until_said(&dm(ADA), "Made.").await;
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
    let mut moments = Moments::seeded(0x5eed_0008);
    for round in 0..rounds() {
        let after = moments.within_ms(1200);
        let chat = Chat::new().await;
        chat.start().await;
        chat.server
            .until("it to be stored", |server| (server.count("users.conversations") > 0).then_some(()))
            .await;
        chat.inbox().await;
        write(&chat);
        tokio::time::sleep(after).await;
        chat.shell.kill_daemon_for_good().await;
        check(chat, &format!("round {round}, killed after {after:?}")).await;
    }
}
