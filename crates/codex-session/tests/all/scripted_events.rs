//! The event stream: every reader gets everything, none can harm the turn or another reader.

use std::time::{Duration, Instant};

use codex_session::tool_display::Display;
use codex_session::{SessionEvent, TurnOptions, TurnOutcome};
use testkit::script::{self, item};

use crate::workbench::{Scripted, soon, until, whole_turn};

fn a_turn() -> [script::Step; 4] {
    [
        item::reasoning("hm").lifecycle(),
        item::command("ls", "a b", 0).lifecycle(),
        script::streamed_message(&["all ", "done ", "here"]),
        script::completed(),
    ]
}

/// The text that was streamed.
fn streamed(events: &[SessionEvent]) -> String {
    let piece = |event: &SessionEvent| match event {
        SessionEvent::Shown(Display::Text { delta }) => Some(delta.clone()),
        _ => None,
    };
    events.iter().filter_map(piece).collect()
}

// peer: E46
#[tokio::test]
async fn the_events_of_a_session_reach_its_reader() {
    let codex = Scripted::playing(a_turn());
    let session = codex.start().await;
    let mut events = session.events();
    soon(session.run_turn("go", TurnOptions::default())).await;
    let seen = whole_turn(&mut events).await;
    assert_eq!(streamed(&seen), "all done here");
    let started = seen.iter().find_map(|event| match event {
        SessionEvent::Shown(Display::ToolStarted(started)) => Some(started.name.as_str()),
        _ => None,
    });
    assert_eq!(started, Some("exec_command"));
    assert!(matches!(seen.first(), Some(SessionEvent::TurnStarted { .. })));
    assert!(matches!(seen.last(), Some(SessionEvent::TurnEnded { outcome: TurnOutcome::Completed })));
    session.close().await;
    drop(session);
    assert!(soon(events.next()).await.is_none(), "the stream ends with the session");
}

// peer: E44
#[tokio::test]
async fn a_turn_without_any_reader_works() {
    let codex = Scripted::playing(a_turn());
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "all done here"));
}

// peer: E43, E52
#[tokio::test]
async fn a_reader_that_fails_harms_neither_the_turn_nor_another_reader() {
    let codex = Scripted::playing(a_turn());
    let session = codex.start().await;
    let mut broken = session.events();
    let broken = tokio::spawn(async move {
        let first = broken.next().await;
        panic!("a bug in a reader, at {first:?}");
    });
    let mut events = session.events();
    drop(session.events());
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert!(soon(broken).await.is_err());
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "all done here"));
    assert_eq!(streamed(&whole_turn(&mut events).await), "all done here");
    session.close().await;
}

#[tokio::test]
async fn a_slow_reader_slows_nothing_and_is_told_what_it_missed() {
    const EVENTS: u64 = 20_000;
    let codex = Scripted::playing([
        script::flood(EVENTS, [script::token_usage(1, 1)]),
        script::message("that was a lot"),
        script::completed(),
    ]);
    let session = codex.start().await;
    let mut slow = session.events();
    let began = Instant::now();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "that was a lot"));
    let per_second = EVENTS * 1000 / u64::try_from(began.elapsed().as_millis()).unwrap().max(1);
    assert!(per_second > 1000, "only {per_second} events per second");
    // Nobody read until now.
    let seen = whole_turn(&mut slow).await;
    let missed: u64 =
        seen.iter().map(|event| if let SessionEvent::Missed { count } = event { *count } else { 0 }).sum();
    let got = seen.iter().filter(|event| !matches!(event, SessionEvent::Missed { .. })).count() as u64;
    assert!(missed > 0 && got > 0);
    // Its start, the counts, the message, its end.
    assert_eq!(missed + got, EVENTS + 3);
    assert!(matches!(seen[0], SessionEvent::Missed { .. }), "told before anything else");
    session.close().await;
}

#[tokio::test]
async fn an_interrupt_is_heard_in_a_flood() {
    let codex = Scripted::playing([script::flood(2_000_000, [script::delta("and on ")])]);
    let session = codex.start().await;
    let mut events = session.events();
    let turn = session.run_turn("go", TurnOptions::default());
    let stopping = async {
        until(&mut events, |event| matches!(event, SessionEvent::Shown(Display::Text { .. }))).await;
        session.interrupt().await;
    };
    let began = Instant::now();
    let (result, ()) = soon(async { tokio::join!(turn, stopping) }).await;
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{:?}", result.error);
    assert!(began.elapsed() < Duration::from_secs(5));
    session.close().await;
}

#[tokio::test]
async fn a_retry_is_told_and_is_no_failure() {
    let codex = Scripted::playing([
        script::error_retried("stream disconnected", "other"),
        script::message("here I am again"),
        script::completed(),
    ]);
    let session = codex.start().await;
    let mut events = session.events();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    let is_retry = |event: &SessionEvent| matches!(event, SessionEvent::Retrying { message } if message.contains("stream disconnected"));
    until(&mut events, is_retry).await;
    session.close().await;
}

#[tokio::test]
async fn a_secret_that_is_split_over_pieces_reaches_no_reader() {
    let secret = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";
    let pieces: Vec<&str> =
        vec!["the key is sk-", "proj-abcdefghijkl", "mnopqrstuvwxyz0123456789", " keep it"];
    let codex = Scripted::playing([script::streamed_message(&pieces), script::completed()]);
    let session = codex.start().await;
    let mut events = session.events();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    let seen = whole_turn(&mut events).await;
    let text = serde_json::to_string(&seen).unwrap() + &serde_json::to_string(&result).unwrap();
    assert!(!text.contains(secret) && !text.contains("mnopqrstuvwxyz"), "{text}");
    assert!(
        streamed(&seen).starts_with("the key is ") && streamed(&seen).ends_with(" keep it"),
        "{}",
        streamed(&seen)
    );
    session.close().await;
}
