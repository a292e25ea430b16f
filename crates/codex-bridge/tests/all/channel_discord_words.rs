//! What people on Discord read: answers as the model wrote them, in the platform's own formatting, whole and once.

use scripted_model::Scenario;
use testkit::platform::discord::server::{Server, direct};

use crate::channel_discord::{ADA, Chat, WORKING};

#[tokio::test]
async fn an_answer_arrives_as_it_was_written_in_discords_own_formatting() {
    let chat = Chat::started().await;
    let answer = "## Done\nI changed **two** files, see `@types/node` and [[bin]], __init__.py and src/**/*.rs.\n\n\
        ```diff\n@@ -1 +1 @@\n-<!DOCTYPE html>\n+\t[[bin]]\n```\n\n1. :smile: می‌خواهم 👩‍👩‍👧‍👦 שלום é @everyone <@43> <b> https://x.example/a_b_c.";
    chat.shell.model.script("tell me", Scenario::new().say(answer));
    chat.server.write(ADA, "tell me");
    let said = chat.server.until_said(direct(ADA), "I changed").await;
    let expected = "Done\nI changed two files, see @types/node and [[bin]], __init__.py and src/**/*.rs.\n\n\
        @@ -1 +1 @@\n-<!DOCTYPE html>\n+\t[[bin]]\n\n1. :smile: می‌خواهم 👩‍👩‍👧‍👦 שלום é @everyone <@43> <b> https://x.example/a_b_c.";
    assert_eq!(said.text, expected);
    assert_eq!(said.styled("bold"), ["Done", "two"]);
    assert_eq!((said.styled("code"), said.styled("language")), (vec!["@types/node"], vec!["diff"]));
    assert_eq!(said.styled("block"), ["@@ -1 +1 @@\n-<!DOCTYPE html>\n+\t[[bin]]"]);
    assert_eq!(said.styled("address"), ["https://x.example/a_b_c"]);
    chat.end().await;
}

fn lines(count: usize) -> String {
    let line = |number: usize| format!("fn line_{number}() {{ /* some words */ }}\n");
    (0..count).map(line).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn a_long_answer_is_several_messages_whose_code_stays_code_and_a_longer_one_is_a_file() {
    let chat = Chat::started().await;
    let answer = format!("Look:\n\n```rust\n{}```\nThat is all.", lines(120));
    chat.shell.model.script("tell me", Scenario::new().say(answer.as_str()));
    chat.server.write(ADA, "tell me");
    chat.server.until_said(direct(ADA), "That is all.").await;
    let parts = chat.answers();
    assert!((2..=5).contains(&parts.len()), "{parts:#?}");
    let joined: Vec<&str> = parts.iter().map(|said| said.text.as_str()).collect();
    assert_eq!(joined.join("\n"), format!("Look:\n\n{}That is all.", lines(120)));
    assert!(parts.iter().all(|said| said.styled("block").len() == 1), "{parts:#?}");

    let long = format!("# A report\n\n{}\nThe end.", lines(700));
    chat.shell.model.script("more", Scenario::new().say(long.as_str()));
    chat.server.write(ADA, "more");
    let with_file = |server: &Server| server.said().into_iter().find(|said| said.file.is_some());
    let (name, content) = chat.server.until("a file", with_file).await.file.unwrap();
    assert_eq!((name.as_str(), content.as_str()), ("answer.md", long.as_str()));
    let beginning = chat.server.until_said(direct(ADA), "A report").await;
    assert!(beginning.text.ends_with("… (all of it is in the file below)"), "{}", beginning.text);
    chat.end().await;
}

#[tokio::test]
async fn progress_that_a_killed_daemon_had_just_shown_is_brought_to_its_end() {
    let chat = Chat::started().await;
    chat.server.write(ADA, "hello [play] stall gate => say Done.");
    chat.server.until_said(direct(ADA), WORKING).await;
    chat.shell.kill_daemon_for_good().await;
    chat.shell.model.release("gate");
    chat.start().await;
    chat.server.until_said(direct(ADA), "Done.").await;
    let is_over =
        |server: &Server| (!server.said().iter().any(|said| said.text.starts_with(WORKING))).then_some(());
    chat.server.until("the progress to end", is_over).await;
    assert_eq!(chat.server.said().len(), 2, "{:#?}", chat.server.said());
    chat.end().await;
}
