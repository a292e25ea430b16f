//! Limits of work and of silence, and what a silent server does not achieve.

use std::time::{Duration, Instant};

use codex_session::{FailureKind, SessionEvent, TurnOptions, TurnOutcome, TurnResult, WorkLimit};
use serde_json::json;
use testkit::script::{self, Step, item};

use crate::workbench::{Scripted, soon, until, within};

const SHORT: Duration = Duration::from_millis(300);
/// Ample for a limit of [`SHORT`] on a busy machine.
const AMPLE: Duration = Duration::from_secs(4);

fn idle_after(limit: Duration) -> TurnOptions {
    TurnOptions { idle_limit: Some(limit), ..TurnOptions::default() }
}

/// These steps again and again, well within [`SHORT`], for about a second.
fn busy(steps: impl IntoIterator<Item = Step>) -> Step {
    script::flood(10, steps.into_iter().chain([Step::Pause { millis: 100 }]))
}

/// The turn was stopped by a limit, and Codex was told.
fn assert_timed_out(codex: &Scripted, result: &TurnResult, words: &str) {
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{result:?}");
    assert!(result.interrupted && result.should_retire);
    let error = result.error.as_ref().unwrap();
    assert_eq!(error.kind, FailureKind::Timeout);
    assert!(error.message.contains(words), "{error}");
    let interrupts = codex.server.calls("turn/interrupt");
    assert_eq!(interrupts.len(), 1);
    assert_eq!(interrupts[0]["params"]["turnId"], script::turn_id(1));
}

// peer: S20, S42
#[tokio::test]
async fn a_turn_that_reaches_its_limit_is_stopped_and_retires_the_session() {
    let codex = Scripted::playing([]);
    let result = codex.run(within(SHORT)).await;
    assert_timed_out(&codex, &result, "timed out after 0.3 s");
}

// peer: S44
#[tokio::test]
async fn text_without_an_end_is_no_success() {
    let codex = Scripted::playing([script::message("looks done"), script::status_idle()]);
    let result = codex.run(within(SHORT)).await;
    assert_timed_out(&codex, &result, "timed out");
    assert_eq!(result.final_text, "looks done", "what was said is kept");
}

// peer: S21, S46
#[tokio::test]
async fn a_clock_that_is_set_back_moves_no_limit() {
    // Every time that the server tells lies far in the past or in the future.
    let lie = |at_ms: i64| {
        item::command("date", "", 0)
            .with("startedAtMs", at_ms)
            .turning("completedAtMs", json!(null), at_ms)
            .turning("durationMs", json!(null), -at_ms)
            .lifecycle()
            .with("/startedAtMs", at_ms)
            .with("/completedAtMs", at_ms)
    };
    let codex = Scripted::playing([lie(4_102_444_800_000), lie(0), lie(-1)]);
    let session = codex.start().await;
    let mut events = session.events();
    let began = Instant::now();
    let options = TurnOptions { quiet_after_tool: Some(SHORT), ..within(2 * SHORT) };
    let result = soon(session.run_turn("go", options)).await;
    let took = began.elapsed();
    assert_timed_out(&codex, &result, "timed out after 0.6 s");
    assert!(took >= 2 * SHORT && took < AMPLE, "{took:?}");
    let warned = until(&mut events, |event| matches!(event, SessionEvent::Warning { .. })).await;
    assert!(!warned.iter().any(|event| matches!(event, SessionEvent::TurnEnded { .. })));
    session.close().await;
}

// peer: S45
#[tokio::test]
async fn silence_after_a_tool_result_ends_a_turn_with_an_idle_limit() {
    let codex = Scripted::playing([item::command("ls", "a b", 0).lifecycle()]);
    let result = codex.run(idle_after(SHORT)).await;
    assert_timed_out(&codex, &result, "inactive");
    assert_eq!(result.tool_iterations, 1);
}

#[tokio::test]
async fn silence_after_a_tool_result_only_warns_by_itself() {
    let codex = Scripted::playing([
        item::command("ls", "a b", 0).lifecycle(),
        script::await_release("warned"),
        script::message("sorry, I was thinking"),
        script::completed(),
    ]);
    let session = codex.start().await;
    let mut events = session.events();
    let options = TurnOptions { quiet_after_tool: Some(SHORT), ..TurnOptions::default() };
    let watching = async {
        let is_it = |event: &SessionEvent| matches!(event, SessionEvent::Warning { message } if message.contains("silent"));
        until(&mut events, is_it).await;
        codex.server.release("warned");
    };
    let (result, ()) = soon(async { tokio::join!(session.run_turn("go", options), watching) }).await;
    assert_eq!((result.outcome, result.error), (TurnOutcome::Completed, None));
    assert!(codex.server.calls("turn/interrupt").is_empty());
    session.close().await;
}

// peer: S47
#[tokio::test]
async fn any_event_after_a_tool_result_clears_the_quiet_limit() {
    let codex = Scripted::playing([
        item::command("ls", "a b", 0).lifecycle(),
        script::token_usage(10, 10),
        Step::Pause { millis: 600 },
        script::completed(),
    ]);
    let session = codex.start().await;
    let mut events = session.events();
    let options = TurnOptions { quiet_after_tool: Some(SHORT), ..TurnOptions::default() };
    let result = soon(session.run_turn("go", options)).await;
    assert_eq!(result.outcome, TurnOutcome::Completed);
    let seen = crate::workbench::whole_turn(&mut events).await;
    assert!(!seen.iter().any(|event| matches!(event, SessionEvent::Warning { .. })), "{seen:?}");
    session.close().await;
}

// peer: L9
#[tokio::test]
async fn an_active_turn_outlives_what_a_total_would_allow() {
    let work = || [busy([script::delta("still here ")]), script::message("done"), script::completed()];
    let codex = Scripted::playing(work());
    let result = codex.run(idle_after(2 * SHORT)).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "done"));
    // The same turn under a total of the same length.
    let codex = Scripted::playing(work());
    assert_timed_out(&codex, &codex.run(within(2 * SHORT)).await, "timed out");
}

// peer: L10
#[tokio::test]
async fn a_silent_turn_is_inactive_and_incomplete() {
    let codex = Scripted::playing([script::message("let me see")]);
    let result = codex.run(idle_after(SHORT)).await;
    assert_timed_out(&codex, &result, "inactive for 0.3 s; task incomplete");
}

// peer: L11
#[tokio::test]
async fn other_threads_and_news_for_everyone_keep_no_turn_alive() {
    let elsewhere = |step: Step| step.in_thread("another-thread").in_turn("another-turn");
    let codex = Scripted::playing([
        busy([
            elsewhere(script::delta("busy elsewhere")),
            script::rate_limits(10, 1_900_000_000),
            script::notify("account/updated", json!({"authMode": "apikey"})),
            script::notify("warning", json!({"threadId": null, "message": "the host is getting full"})),
            script::status_active(),
        ]),
        script::completed(),
    ]);
    let result = codex.run(idle_after(SHORT)).await;
    assert_timed_out(&codex, &result, "inactive");
}

#[tokio::test]
async fn a_busy_sub_agent_keeps_the_turn_alive() {
    let codex = Scripted::playing([
        script::child_started("child-1"),
        busy([script::delta("working").in_thread("child-1").in_turn("child-turn")]),
        script::completed(),
    ]);
    let result = codex.run(idle_after(2 * SHORT)).await;
    assert_eq!(result.outcome, TurnOutcome::Completed, "{result:?}");
}

// peer: L12
#[tokio::test]
async fn a_wall_limit_holds_however_active_the_turn_is() {
    let codex = Scripted::playing([busy([script::delta("still here ")]), script::completed()]);
    let options = TurnOptions { idle_limit: Some(AMPLE), ..within(SHORT) };
    let result = codex.run(options).await;
    assert_timed_out(&codex, &result, "timed out after 0.3 s");
}

// peer: L13
#[tokio::test]
async fn a_limit_of_zero_is_refused_before_anything_is_sent() {
    let codex = Scripted::new(script::Script::new());
    let session = codex.start().await;
    let zero = Duration::ZERO;
    for options in [
        TurnOptions { work_limit: WorkLimit::After(zero), idle_limit: Some(zero), ..TurnOptions::default() },
        within(zero),
        idle_after(zero),
    ] {
        let result = soon(session.run_turn("go", options)).await;
        assert_eq!(result.outcome, TurnOutcome::Failed);
        assert_eq!(result.error.unwrap().kind, FailureKind::Configuration);
        assert!(!result.should_retire);
    }
    assert!(codex.server.calls("turn/start").is_empty());
    let unlimited = TurnOptions { work_limit: WorkLimit::Never, ..TurnOptions::default() };
    assert_eq!(soon(session.run_turn("go", unlimited)).await.outcome, TurnOutcome::Completed);
    session.close().await;
}
