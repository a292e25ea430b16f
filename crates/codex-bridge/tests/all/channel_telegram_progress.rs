//! How turns stand, shown on Telegram: of what Codex works on, once, however much waits.

use std::time::Instant;

use testkit::platform::telegram::server::Said;

use crate::channel_telegram::{ADA, Chat, GROUP, WORKING, is_progress};
use crate::shell::PATIENCE;

/// More than are remembered.
const MANY: i64 = 70;

/// The messages that showed how a turn stands, whatever they say now.
fn shown(chat: &Chat) -> Vec<Said> {
    chat.server.said().into_iter().filter(is_progress).collect()
}

#[tokio::test]
async fn what_waits_for_its_turn_is_not_shown_as_worked_on_and_nothing_is_shown_twice() {
    let chat = Chat::with("max_running = 1").await;
    for topic in 1..=MANY {
        chat.server.write_in(
            ADA,
            GROUP,
            Some(topic),
            &format!("@codex_bot {topic} [play] stall gate{topic} => say Done."),
        );
    }
    chat.start().await;
    let first = chat.server.until_said(GROUP, WORKING).await;
    let began = Instant::now();
    while chat.start().await[0]["open_messages"] != MANY {
        assert!(began.elapsed() < PATIENCE, "they do not come in");
    }
    chat.shell.model.release(&format!("gate{}", first.topic.unwrap()));
    let of_another = |said: &Said| said.topic != first.topic && said.text.contains(WORKING);
    chat.server.until("the next turn to be shown", |server| server.said().into_iter().find(of_another)).await;
    chat.server.until_said(GROUP, "Done in ").await;
    let topics: Vec<Option<i64>> = shown(&chat).iter().map(|said| said.topic).collect();
    assert_eq!(topics.len(), 2, "two turns were begun: {topics:?}");
    chat.shell.end().await;
}
