//! The daemon dies while it serves a bot of Discord's: no message is lost, none is worked on twice, and none is said twice,
//! since Discord recognises what is sent again.

use std::fs;

use testkit::platform::discord::server::{Server, direct};

use crate::channel_discord::{ADA, BOB, Chat};
use crate::dying::{Moments, OF_DECISIONS, Source, on_the_way_from, rounds};

/// Two conversations, one of them with two messages.
fn write(chat: &Chat) {
    chat.server.write(ADA, "one [play] say Answer one.");
    chat.server.write(ADA, "two [play] say Answer two.");
    chat.server.write(BOB, "three [play] say Answer three.");
}

/// A chat whose bot was connected once: from then on nothing that is written is lost.
async fn stopped() -> Chat {
    let chat = Chat::started().await;
    chat.shell.kill_daemon_for_good().await;
    chat
}

async fn check(chat: Chat, what: &str) {
    chat.list().await;
    for (who, text) in [(ADA, "Answer one."), (ADA, "Answer two."), (BOB, "Answer three.")] {
        chat.server.until_said(direct(who), text).await;
    }
    chat.shell.deliveries(|all| all.len() >= 3 && all.iter().all(|one| one["state"] == "delivered")).await;
    let texts = |who: u64| -> Vec<String> {
        chat.answers().into_iter().filter(|said| said.channel == direct(who)).map(|said| said.text).collect()
    };
    assert_eq!(texts(ADA), ["Answer one.", "Answer two."], "{what}");
    assert_eq!(texts(BOB), ["Answer three."], "{what}");
    let prompts = chat.shell.model.requests().len();
    assert_eq!(prompts, 3, "{what}: the model was asked {prompts} times");
    assert_eq!(chat.inbox().await.len(), 3, "{what}");
    chat.end().await;
}

#[tokio::test]
async fn whatever_the_daemon_was_doing_with_a_message_when_it_died_it_is_answered() {
    for point in on_the_way_from(Source::Discord) {
        let chat = stopped().await;
        write(&chat);
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        chat.shell.until_dead_at(point).await;
        check(chat, point).await;
    }
}

#[tokio::test]
async fn whatever_the_daemon_was_doing_when_its_session_ended_with_it_the_history_is_read() {
    for point in ["inbox.before_record", "inbox.recorded"] {
        let chat = stopped().await;
        chat.server.end_sessions();
        write(&chat);
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        chat.shell.until_dead_at(point).await;
        chat.server.end_sessions();
        check(chat, point).await;
    }
}

#[tokio::test]
async fn a_tap_survives_the_death_of_the_daemon_that_was_deciding_on_it() {
    for point in OF_DECISIONS {
        let chat = stopped().await;
        chat.shell.run_dying_at(&["channel", "list"], point).await;
        chat.server.write(ADA, "do it [play] escalate echo ran >> count.txt => say Made.");
        let asked = chat.with_button("Approve once").await;
        let tap = chat.server.tap(ADA, &asked, &asked.button("Approve once").unwrap());
        chat.shell.until_dead_at(point).await;
        chat.start().await;
        chat.server.until_said(direct(ADA), "Made.").await;
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
    let mut moments = Moments::seeded(0x5eed_0008);
    for round in 0..rounds() {
        let after = moments.within_ms(1200);
        let chat = Chat::started().await;
        write(&chat);
        tokio::time::sleep(after).await;
        chat.shell.kill_daemon_for_good().await;
        // Every other time the session is gone too.
        if round % 2 == 1 {
            chat.server.end_sessions();
        }
        check(chat, &format!("round {round}, killed after {after:?}")).await;
    }
}
