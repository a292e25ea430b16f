//! Servers that break the rules of the wire, fall silent, or die.

use std::time::{Duration, Instant};

use codex_session::{FailureKind, OwnCodex, Session, TurnOptions, TurnOutcome};
use codex_wire::transport::stdio::Spawn;
use serde_json::json;
use testkit::script::{self, Script, item};

use crate::workbench::{Scripted, said_on_stderr, soon, within};

/// A secret that must not come out.
const SECRET: &str = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789";

#[tokio::test]
async fn lines_that_are_no_messages_cost_themselves_alone() {
    let garbage = || {
        script::group([
            script::raw_line("not json at all"),
            script::raw_line(r#"{"method": "turn/completed", "params"#),
            script::raw_line("[1, 2, 3]"),
            script::raw_line("42"),
            script::raw_line("null"),
            script::raw_line("\"turn/completed\""),
            script::raw_line("{}"),
            script::raw_line(r#"{"id": 99999, "result": {}}"#),
            script::raw_line(r#"{"method": "turn/completed"}"#),
            script::raw_line(r#"{"method": 7, "params": []}"#),
            script::raw_line(b"\xff\xfe\x00\x01".to_vec()),
            script::raw_line(""),
        ])
    };
    let codex = Scripted::new(Script::new().on(
        "turn/start",
        [
            garbage(),
            script::reply_turn(),
            garbage(),
            script::started(),
            garbage(),
            script::message("through it all"),
            garbage(),
            script::completed(),
        ],
    ));
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "through it all"));
}

#[tokio::test]
async fn a_line_of_20_mb_is_taken() {
    let codex = Scripted::playing([
        script::big_line(20 << 20),
        script::message("that was long"),
        script::completed(),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "that was long"));
}

#[tokio::test]
async fn a_line_above_the_limit_ends_the_connection_and_says_so() {
    let codex = Scripted::playing([script::big_line(200_000), script::completed()]);
    let dial = OwnCodex(Spawn { message_limit: 100_000, ..codex.spawn() });
    let session = Session::start(codex.config(), dial, None).await.unwrap();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    assert_eq!(result.outcome, TurnOutcome::Lost, "{result:?}");
    assert!(result.should_retire && result.outcome_unknown);
    let error = result.error.unwrap();
    assert!(error.message.contains("longer than 100000 bytes"), "{error}");
    session.close().await;
}

#[tokio::test]
async fn half_a_line_and_silence_is_stopped_by_the_limit() {
    let codex = Scripted::playing([script::half_line(r#"{"method": "turn/comple"#)]);
    let result = codex.run(within(Duration::from_millis(300))).await;
    assert_eq!(result.outcome, TurnOutcome::Interrupted, "{result:?}");
    assert_eq!(result.error.unwrap().kind, FailureKind::Timeout);
    assert!(result.should_retire);
}

#[tokio::test]
async fn half_a_line_at_the_end_is_no_message() {
    let codex = Scripted::playing([
        script::message("almost"),
        script::half_line(r#"{"method": "turn/completed", "params": {}}"#),
        script::exit(0),
    ]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Lost, "almost"));
}

// peer: S54
#[tokio::test]
async fn the_death_of_codex_is_seen_at_once_with_its_last_words() {
    let codex = Scripted::playing([
        item::command("rm -r build", "", 0).lifecycle(),
        script::stderr(&format!("out of memory, key was {SECRET}")),
        script::stderr("401 Unauthorized: please reauthenticate"),
        script::exit(3),
    ]);
    let began = Instant::now();
    let result = codex.run(TurnOptions::default()).await;
    assert!(began.elapsed() < Duration::from_secs(5), "far from the deadline of 600 s");
    assert_eq!(result.outcome, TurnOutcome::Lost, "{result:?}");
    assert!(result.should_retire && result.outcome_unknown);
    assert!(result.side_effects.iter().any(|effect| effect.contains("rm -r build")));
    let error = result.error.unwrap();
    assert!(error.message.contains("exit status: 3"), "{error}");
    let tail = error.stderr_tail.join("\n");
    assert!(tail.contains("out of memory") && tail.contains("401 Unauthorized"), "{tail}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    // What others wrote on stderr is shown, not interpreted.
    assert_eq!(error.kind, FailureKind::Lost);
    assert!(!error.message.contains("codex login"));
}

#[tokio::test]
async fn a_codex_that_closes_its_output_is_lost_though_its_process_lives() {
    let codex = Scripted::playing([script::close_stdout()]);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!(result.outcome, TurnOutcome::Lost, "{result:?}");
    assert!(result.should_retire);
    codex.server.assert_no_processes().await;
}

#[tokio::test]
async fn an_overloaded_codex_is_asked_again() {
    let script = Script::new()
        .on_nth("thread/start", 1, [script::overloaded()])
        .on_nth("turn/start", 1, [script::overloaded()])
        .on_nth("turn/start", 2, [script::overloaded()]);
    let codex = Scripted::new(script);
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Completed, "done"));
    assert_eq!(codex.server.calls("turn/start").len(), 3);
    let prompts = codex.server.calls("turn/start");
    assert_eq!(prompts[0]["params"], prompts[2]["params"], "the same prompt under the same name");
}

#[tokio::test]
async fn a_codex_that_stays_overloaded_is_given_up_with_its_own_words() {
    let codex = Scripted::new(Script::new().on("turn/start", [script::overloaded()]));
    let result = codex.run(TurnOptions::default()).await;
    let error = result.error.unwrap();
    assert_eq!((result.outcome, error.kind), (TurnOutcome::Failed, FailureKind::Refused));
    assert!(
        error.message.contains("Server overloaded") && error.message.contains("-32001"),
        "{}",
        error.message
    );
    assert!(!result.should_retire && !result.outcome_unknown);
    let tries = codex.server.calls("turn/start").len();
    assert!((2..=10).contains(&tries), "bounded: {tries}");
}

// peer: S13
#[tokio::test]
async fn a_refused_prompt_gives_the_servers_words_and_no_text() {
    let codex =
        Scripted::new(Script::new().on("turn/start", [script::reply_error(-32600, "input too long")]));
    let result = codex.run(TurnOptions::default()).await;
    assert_eq!((result.outcome, result.final_text.as_str()), (TurnOutcome::Failed, ""));
    let error = result.error.unwrap();
    assert!(error.message.contains("turn/start") && error.message.contains("input too long"), "{error}");
}

// peer: S14, C12
#[tokio::test]
async fn a_refused_prompt_brings_the_masked_stderr_and_keeps_the_session() {
    let script = Script::new().on_nth(
        "turn/start",
        1,
        [
            script::stderr(&format!("OPENAI_API_KEY={SECRET}")),
            said_on_stderr("config is odd"),
            script::reply_error_with(-32603, "internal error", json!({"hint": 1})),
        ],
    );
    let codex = Scripted::new(script);
    let session = codex.start().await;
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    let error = result.error.unwrap();
    assert!(error.message.contains("internal error (code -32603)"), "{error}");
    assert!(error.stderr_tail.iter().any(|line| line == "config is odd"), "{error}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    assert!(!result.should_retire);
    let next = soon(session.run_turn("again", TurnOptions::default())).await;
    assert_eq!(next.outcome, TurnOutcome::Completed);
    assert_eq!(codex.server.starts().len(), 1, "the same process");
    session.close().await;
}

// peer: S15
#[tokio::test]
async fn a_prompt_without_an_answer_times_out_and_retires() {
    let script = Script::new().on(
        "turn/start",
        [script::stderr(&format!("token {SECRET}")), script::stderr("stuck"), script::hang()],
    );
    let codex = Scripted::new(script);
    let mut config = codex.config();
    config.call_limits.turn_start = Duration::from_millis(400);
    let session = Session::start(config, codex.stdio(), None).await.unwrap();
    let result = soon(session.run_turn("go", TurnOptions::default())).await;
    let error = result.error.unwrap();
    assert_eq!((result.outcome, &error.kind), (TurnOutcome::Failed, &FailureKind::Unresponsive));
    assert!(error.message.contains("turn/start timed out"), "{error}");
    assert!(error.stderr_tail.iter().any(|line| line == "stuck"), "{error}");
    assert!(!error.to_string().contains(SECRET), "{error}");
    assert!(result.should_retire && result.outcome_unknown, "it may run all the same");
    session.close().await;
}

// peer: S50
#[tokio::test]
async fn a_prompt_refused_for_its_login_tells_to_log_in_and_retires() {
    let codex = Scripted::new(
        Script::new().on("turn/start", [script::reply_error(-32600, "invalid_grant: expired")]),
    );
    let result = codex.run(TurnOptions::default()).await;
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Auth);
    assert!(error.message.contains("codex login") && error.message.contains("invalid_grant"), "{error}");
    assert!(result.should_retire);
}

// peer: S51
#[tokio::test]
async fn a_login_that_only_stderr_speaks_of_is_shown_and_not_believed() {
    let script = Script::new().on(
        "turn/start",
        [
            said_on_stderr("mcp server mail: 401 Unauthorized, invalid_grant"),
            script::reply_error(-32603, "internal error"),
        ],
    );
    let codex = Scripted::new(script);
    let result = codex.run(TurnOptions::default()).await;
    let error = result.error.unwrap();
    assert_eq!(error.kind, FailureKind::Refused);
    assert!(!error.message.contains("codex login") && !result.should_retire, "{error}");
    assert!(error.to_string().contains("invalid_grant"), "the tail is there to be read: {error}");
}
