//! What people on Telegram read: answers as the model wrote them, in the platform's own formatting, whole and once.

use std::time::{Duration, Instant};

use scripted_model::Scenario;
use testkit::platform::Day;
use testkit::platform::telegram::server::{Said, Server};

use crate::channel_telegram::{ADA, Chat, GROUP, MARK, WORKING, is_progress};

/// What the model says, for a message with this text.
async fn answered(chat: &Chat, answer: &str) {
    chat.shell.model.script("tell me", Scenario::new().say(answer));
    chat.server.write(ADA, "tell me");
    chat.start().await;
}

#[tokio::test]
async fn an_answer_arrives_as_it_was_written_in_telegrams_own_formatting() {
    let chat = Chat::new().await;
    let answer = "## Done\nI changed **two** files, see `@types/node` and [[bin]], __init__.py and src/**/*.rs.\n\n\
        ```diff\n@@ -1 +1 @@\n-<!DOCTYPE html>\n+\t[[bin]]\n```\n\nMEDIA:/x می‌خواهم 👩‍👩‍👧‍👦 שלום @everyone <b>\u{202e}";
    answered(&chat, answer).await;
    let said = chat.server.until_said(ADA, "I changed").await;
    let expected = "Done\nI changed two files, see @types/node and [[bin]], __init__.py and src/**/*.rs.\n\n\
        @@ -1 +1 @@\n-<!DOCTYPE html>\n+\t[[bin]]\n\nMEDIA:/x می‌خواهم 👩‍👩‍👧‍👦 שלום @everyone <b>";
    assert_eq!(said.text, expected);
    assert_eq!(said.styled("bold"), ["Done", "two"]);
    assert_eq!(said.styled("code"), ["@types/node"]);
    assert_eq!(said.styled("pre"), ["@@ -1 +1 @@\n-<!DOCTYPE html>\n+\t[[bin]]"]);
    chat.shell.end().await;
}

#[tokio::test]
async fn in_a_group_a_name_is_code_so_that_nobody_is_notified() {
    let chat = Chat::new().await;
    chat.server.write_in(ADA, GROUP, None, "@codex_bot hello [play] say Ask @bob_smith or `@x/y`.");
    chat.start().await;
    let said = chat.server.until_said(GROUP, "Ask @bob_smith or @x/y.").await;
    assert_eq!(said.styled("code"), ["@bob_smith", "@x/y"]);
    chat.shell.end().await;
}

fn lines(count: usize) -> String {
    let line = |number: usize| format!("fn line_{number}() {{ /* some words */ }}\n");
    (0..count).map(line).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn a_long_answer_is_several_messages_whose_code_stays_code_and_a_longer_one_is_a_file() {
    let chat = Chat::new().await;
    answered(&chat, &format!("Look:\n\n```rust\n{}```\nThat is all.", lines(200))).await;
    chat.server.until_said(ADA, "That is all.").await;
    let parts = chat.answers();
    assert!((2..=3).contains(&parts.len()), "{parts:#?}");
    let joined: Vec<&str> = parts.iter().map(|said| said.text.as_str()).collect();
    assert_eq!(joined.join("\n"), format!("Look:\n\n{}That is all.", lines(200)));
    assert!(parts.iter().all(|said| said.styled("pre").len() == 1), "{parts:#?}");

    let long = format!("# A report\n\n{}\nThe end.", lines(700));
    chat.shell.model.script("more", Scenario::new().say(long.as_str()));
    chat.server.write(ADA, "more");
    let with_file = |server: &Server| server.said().into_iter().find(|said| said.file.is_some());
    let (name, content) = chat.server.until("a file", with_file).await.file.unwrap();
    assert_eq!((name.as_str(), content.as_str()), ("answer.md", long.as_str()));
    let beginning = chat.server.until_said(ADA, "A report").await;
    assert!(beginning.text.ends_with("… (all of it is in the file below)"), "{}", beginning.text);
    chat.shell.end().await;
}

#[tokio::test]
async fn a_crash_between_the_messages_of_an_answer_repeats_none_that_arrived() {
    let chat = Chat::new().await;
    let answer = format!("{}The end.", lines(220));
    chat.shell.model.script("tell me", Scenario::new().stall("gate").say(answer.as_str()));
    chat.server.write(ADA, "tell me");
    chat.start().await;
    chat.server.until_said(ADA, WORKING).await;
    // The first message arrives; the second does not for as long as the daemon lives.
    chat.server.have("sendMessage", Day::IsSlow(Duration::ZERO));
    chat.server.have("sendMessage", Day::IsSlow(Duration::from_mins(2)));
    chat.shell.model.release("gate");
    chat.server.until_said(ADA, "fn line_0()").await;
    let is_sending = |server: &Server| {
        (server.calls().iter().filter(|(method, _)| method == "sendMessage").count() >= 3).then_some(())
    };
    chat.server.until("the second message to be on its way", is_sending).await;
    chat.shell.kill_daemon_for_good().await;
    chat.start().await;
    chat.server.until_said(ADA, "The end.").await;
    let parts: Vec<Said> = chat.answers();
    let joined: Vec<&str> = parts.iter().map(|said| said.text.as_str()).collect();
    let joined = joined.join("\n");
    // Only of the second message it is not known whether it arrived.
    assert_eq!(joined.matches(MARK).count(), 1, "{joined}");
    assert!(joined.find(MARK) > joined.find("fn line_0()"), "{joined}");
    for number in 0..220 {
        assert_eq!(joined.matches(&format!("fn line_{number}()")).count(), 1, "{number}");
    }
    chat.shell.end().await;
}

#[tokio::test]
async fn progress_that_a_killed_daemon_had_just_shown_is_brought_to_its_end() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "hello [play] stall gate => say Done.");
    chat.start().await;
    chat.server.until_said(ADA, WORKING).await;
    chat.shell.kill_daemon_for_good().await;
    chat.shell.model.release("gate");
    chat.start().await;
    chat.server.until_said(ADA, "Done.").await;
    let is_over =
        |server: &Server| (!server.said().iter().any(|said| said.text.starts_with(WORKING))).then_some(());
    chat.server.until("the progress to end", is_over).await;
    let shown = chat.server.said().into_iter().filter(is_progress).count();
    assert!((1..=2).contains(&shown), "{:#?}", chat.server.said());
    chat.shell.end().await;
}

#[tokio::test]
async fn updates_whose_numbers_begin_anew_are_read_without_a_storm_of_polls() {
    let chat = Chat::new().await;
    chat.server.ignore_offsets_above();
    chat.server.number_from(1_000_000);
    chat.server.write(ADA, "one [play] say Answer one.");
    chat.start().await;
    chat.server.until_said(ADA, "Answer one.").await;
    chat.server.number_from(7);
    for number in 0..120 {
        chat.server.write(ADA, &format!("/nothing{number}"));
    }
    chat.server.write(ADA, "two [play] say Answer two.");
    chat.server.until_said(ADA, "Answer two.").await;
    chat.server.until("all to be confirmed", |server| (server.unconfirmed() == 0).then_some(())).await;
    chat.shell.end().await;
}

#[tokio::test]
async fn a_source_that_always_gives_what_is_known_is_not_asked_without_a_pause() {
    let chat = Chat::new().await;
    chat.server.write(ADA, "one [play] say Answer one.");
    chat.start().await;
    chat.server.until_said(ADA, "Answer one.").await;
    chat.server.repeat_for_ever();
    chat.server.write(ADA, "two [play] say Answer two.");
    chat.server.until_said(ADA, "Answer two.").await;
    let polls = || chat.server.calls().iter().filter(|(method, _)| method == "getUpdates").count();
    let (before, began) = (polls(), Instant::now());
    chat.server.until("some polls", |_| (polls() >= before + 10).then_some(())).await;
    // The pause doubles: 20 ms, 40 ms … 1 s.
    assert!(began.elapsed() > Duration::from_secs(2), "ten polls in {:?}", began.elapsed());
    chat.shell.end().await;
}

#[tokio::test]
async fn two_taps_at_once_leave_one_outcome() {
    let chat = Chat::new().await;
    let asked = chat.asked().await;
    let (yes, no) = (asked.button("Approve once").unwrap(), asked.button("Decline").unwrap());
    let taps = [chat.server.tap(ADA, &asked, &yes), chat.server.tap(ADA, &asked, &no)];
    for tap in &taps {
        chat.told(tap).await;
    }
    chat.server.until_said(ADA, "Made.").await;
    let edited = chat.server.until_said(ADA, "Approved by User 42, ").await;
    assert_eq!(edited.text.matches("User 42").count(), 1, "{}", edited.text);
    assert!(!edited.text.contains("already answered"), "{}", edited.text);
    assert_eq!(edited.styled("code"), ["/bin/bash -c 'touch made.txt'"], "the command stays code");
    chat.shell.end().await;
}
