//! Discord's gateway breaks off in every way that it has: no message is lost, and none is worked on twice.

use std::time::{Duration, Instant};

use testkit::platform::discord::server::{BOT, GENERAL, Server, direct};

use crate::channel_discord::{ADA, BOB, Chat};
use crate::shell::until;

/// Waits for these answers, and checks that each was given once.
async fn answered(chat: &Chat, expected: &[(u64, &str)]) {
    for (channel, text) in expected {
        chat.server.until_said(*channel, text).await;
    }
    let mut texts: Vec<(u64, String)> =
        chat.answers().into_iter().map(|said| (said.channel, said.text)).collect();
    let mut expected: Vec<(u64, String)> =
        expected.iter().map(|(channel, text)| (*channel, (*text).to_owned())).collect();
    texts.sort();
    expected.sort();
    assert_eq!(texts, expected);
    assert_eq!(chat.inbox().await.len(), expected.len());
}

/// A way in which a connection ends.
type End = fn(&Server);

#[tokio::test]
async fn a_session_is_resumed_wherever_its_connection_ends() {
    let chat = Chat::started().await;
    let ends: [(&str, End); 3] = [
        ("asked", Server::ask_to_reconnect),
        ("dropped", Server::drop_connections),
        ("closed", |server| server.close_connections(4008)),
    ];
    let mut expected = Vec::new();
    for (number, (how, end)) in ends.into_iter().enumerate() {
        let text = format!("Answer {how}.");
        chat.server.write(ADA, &format!("before {how} [play] say Before {how}."));
        end(&chat.server);
        chat.server.write(ADA, &format!("after {how} [play] say {text}"));
        chat.server.until_said(direct(ADA), &text).await;
        expected.extend([format!("Before {how}."), text]);
        assert_eq!(chat.server.sessions(), (1, number + 1), "one session, resumed after {how}");
    }
    let expected: Vec<(u64, &str)> = expected.iter().map(|text| (direct(ADA), text.as_str())).collect();
    answered(&chat, &expected).await;
    chat.end().await;
}

#[tokio::test]
async fn what_was_written_while_no_daemon_ran_comes_with_the_resumed_session() {
    let chat = Chat::started().await;
    chat.server.write(ADA, "one [play] say One.");
    chat.server.until_said(direct(ADA), "One.").await;
    chat.shell.run(&["stop", "--hosts"]).await.ok();
    chat.server.write(ADA, "two [play] say Two.");
    chat.server.write_in(BOB, GENERAL, &format!("<@{BOT}> three [play] say Three."));
    chat.start().await;
    answered(&chat, &[(direct(ADA), "One."), (direct(ADA), "Two."), (GENERAL, "Three.")]).await;
    assert_eq!(chat.server.sessions(), (1, 1));
    chat.end().await;
}

#[tokio::test]
async fn without_its_session_the_history_is_read_of_channels_threads_and_private_conversations() {
    let chat = Chat::started().await;
    let old = chat.server.begin_thread(GENERAL);
    chat.server.write(ADA, "one [play] say One.");
    chat.server.until_said(direct(ADA), "One.").await;
    chat.shell.run(&["stop", "--hosts"]).await.ok();
    chat.server.end_sessions();
    let new = chat.server.begin_thread(GENERAL);
    chat.server.write(ADA, "two [play] say Two.");
    chat.server.write_in(ADA, old, &format!("<@{BOT}> three [play] say Three."));
    chat.server.write_in(BOB, new, &format!("<@{BOT}> four [play] say Four."));
    // More than a page, and a conversation that nobody knows yet.
    for number in 0..110 {
        chat.server.write_in(ADA, GENERAL, &format!("chatter {number}"));
    }
    chat.server.write_in(ADA, GENERAL, &format!("<@{BOT}> five [play] say Five."));
    chat.server.write(BOB, "six [play] say Six.");
    chat.start().await;
    chat.server.write(BOB, "seven [play] say Seven.");
    let (ada, bob) = (direct(ADA), direct(BOB));
    answered(
        &chat,
        &[
            (ada, "One."),
            (ada, "Two."),
            (old, "Three."),
            (new, "Four."),
            (GENERAL, "Five."),
            (bob, "Six."),
            (bob, "Seven."),
        ],
    )
    .await;
    let inbox = chat.inbox().await;
    let threads =
        inbox.iter().filter(|one| one["conversation"].as_str().unwrap().starts_with("6000/")).count();
    assert_eq!(threads, 2, "{inbox:#?}");
    let order: Vec<String> =
        chat.answers().into_iter().filter(|said| said.channel == bob).map(|said| said.text).collect();
    assert_eq!(order, ["Six.", "Seven."], "what was written first is read first");
    assert_eq!(chat.server.sessions().0, 2);
    chat.end().await;
}

#[tokio::test]
async fn a_session_that_ends_while_the_daemon_runs_costs_no_message() {
    for code in [4007, 4009] {
        let chat = Chat::started().await;
        chat.server.end_sessions();
        chat.server.close_connections(code);
        chat.server.write(ADA, "one [play] say One.");
        chat.server.write_in(BOB, GENERAL, &format!("<@{BOT}> two [play] say Two."));
        answered(&chat, &[(direct(ADA), "One."), (GENERAL, "Two.")]).await;
        chat.end().await;
    }
}

#[tokio::test]
async fn a_connection_on_which_no_heartbeat_is_answered_is_made_again() {
    let chat = Chat::new().await;
    chat.server.set_heartbeat(Duration::from_secs(1));
    chat.start().await;
    chat.server.until("heartbeats", |server| (server.heartbeats().len() >= 3).then_some(())).await;
    assert_eq!(chat.server.connections(), 1, "answered ones keep a connection");
    chat.server.set_mute(true);
    let begun = |server: &Server| (server.connections() >= 3).then_some(());
    chat.server.until("other connections", begun).await;
    chat.server.set_mute(false);
    chat.server.write(ADA, "one [play] say One.");
    answered(&chat, &[(direct(ADA), "One.")]).await;
    assert_eq!(chat.server.sessions().0, 1, "the session is the same");
    chat.end().await;
}

#[tokio::test]
async fn a_gateway_that_always_asks_to_reconnect_is_not_stormed() {
    let chat = Chat::started().await;
    let before = chat.server.connections();
    let began = Instant::now();
    for number in 1..=4 {
        chat.server.ask_to_reconnect();
        let made = |server: &Server| {
            (server.connections() >= before + number && server.is_connected()).then_some(())
        };
        chat.server.until("another connection", made).await;
    }
    // The pause doubles: 0.25 s, 0.5 s, 1 s, 2 s.
    assert!(began.elapsed() > Duration::from_millis(3_500), "{:?}", began.elapsed());
    chat.end().await;
}

#[tokio::test]
async fn a_tap_is_acknowledged_in_time_and_nobody_is_told_that_it_was_taken_before_it_was() {
    let chat = Chat::started().await;
    let asked = chat.asked().await;
    chat.shell.deliveries(|all| all.iter().any(|one| one["state"] == "delivered")).await;
    chat.shell.kill_daemon_for_good().await;
    let tap = chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
    assert!(!chat.server.is_acknowledged(tap));
    chat.start().await;
    chat.server.until_said(direct(ADA), "Made.").await;
    assert!(chat.is_made(), "a tap comes with the resumed session");
    let is_over =
        || chat.server.said().iter().all(|said| said.button("Approve once").is_none()).then_some(());
    until("all buttons to go", is_over).await;
    chat.shell.end().await;
}
