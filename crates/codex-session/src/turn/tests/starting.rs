//! How a turn comes about.

use super::*;

fn start_fails(error: CallError) -> Input {
    Input::Reply(Reply::Start(Err(error)))
}

// peer: S6, S43
#[test]
fn a_prompt_is_sent_accepted_and_completed() {
    let bench = check(
        prompt(),
        "start",
        [
            (5, accepted(), ""),
            (6, started(), ""),
            (7, item_completed(message("m", "hello")), ""),
            (8, completed(), "end Completed"),
        ],
    );
    let result = bench.result();
    assert_eq!(result.final_text, "hello");
    assert_eq!((result.turn_id.as_ref(), result.thread_id.as_ref()), (Some(&"u".into()), Some(&"t".into())));
    assert_eq!(
        (result.projected_messages.len(), result.interrupted, result.should_retire),
        (1, false, false)
    );
    assert_eq!(bench.deadline(), None);
}

// peer: S13, S29, S50, S53
#[test]
fn a_refused_start_ends_the_turn_at_once() {
    let story = [(
        5,
        start_fails(refused("bad input")),
        "end Failed Refused: turn/start failed: bad input (code -32600)",
    )];
    let bench = check(prompt(), "start", story);
    assert!(bench.result().final_text.is_empty() && !bench.result().should_retire);

    let (mut bench, _) = Bench::begin(prompt());
    bench.step(5, start_fails(refused("invalid_grant")));
    assert!(bench.result().should_retire);
    let (mut bench, _) = Bench::begin(prompt());
    bench.step(5, start_fails(refused("rate limit exceeded")));
    assert!(!bench.result().should_retire);
}

#[test]
fn a_start_that_is_refused_while_the_login_changes_is_sent_again_a_moment_later() {
    let revoked =
        || start_fails(refused("failed to load configuration: application network permission was revoked"));
    let story = [
        (5, revoked(), ""),
        (304, Input::Time, ""),
        (305, Input::Time, "start"),
        (306, accepted(), ""),
        (307, started(), ""),
        (308, completed(), "end Completed"),
    ];
    check(prompt(), "start", story);

    let (mut bench, _) = Bench::begin(prompt());
    for nth in 0..5 {
        assert_eq!(bench.step(nth * 1000, revoked()), "");
        assert_eq!(bench.step(nth * 1000 + 500, Input::Time), "start");
    }
    let told = bench.step(5000, revoked());
    assert!(told.starts_with("end Failed Refused: turn/start failed"), "{told}");
}

#[test]
fn a_start_that_was_refused_before_the_connection_was_lost_is_looked_for_and_sent_once() {
    let (mut bench, _) = Bench::begin(prompt());
    bench.step(5, start_fails(refused("application network permission was revoked")));
    let told = bench.step(10, Input::Lost(Loss::HostLives));
    assert!(!told.contains("start"), "{told}");
    assert_eq!(bench.step(1000, Input::Time), "");
}

// peer: S15
#[test]
fn a_start_without_a_reply_is_called_off_and_unknown() {
    let unreadable = CallError::Unreadable { method: "turn/start", message: "no turn".to_owned() };
    let told = "interrupt any; end Failed unknown Unresponsive: turn/start timed out after 10 s";
    let bench = check(prompt(), "start", [(9, start_fails(timed_out()), told)]);
    assert!(bench.result().should_retire);
    let told = "interrupt any; end Failed unknown Protocol: turn/start failed: unreadable reply to turn/start: no turn";
    check(prompt(), "start", [(9, start_fails(unreadable), told)]);
}

#[test]
fn a_start_cut_off_waits_for_news_of_the_connection() {
    let told = "end Lost unknown Lost: codex app-server ended unexpectedly: killed";
    check(prompt(), "start", [(9, start_fails(closed()), ""), (10, host_gone(), told)]);
}

#[test]
fn a_late_refusal_does_not_end_a_turn_that_runs() {
    check_active(prompt(), [(1, start_fails(timed_out()), ""), (2, completed(), "end Completed")]);
}

#[test]
fn events_may_come_before_the_reply() {
    let bench = check(
        prompt(),
        "start",
        [
            (1, started(), ""),
            (1, of_thread("t", Some("older"), Event::ItemCompleted(message("x", "stale"))), ""),
            (2, item_completed(message("m", "early")), ""),
            (3, completed(), ""),
            (4, accepted(), "end Completed"),
        ],
    );
    assert_eq!(bench.result().final_text, "early");
    assert_eq!(bench.told_items(), ["m"]);
}

// peer: S10, S22, S52
#[test]
fn a_failed_turn_says_why() {
    let error = |message: &str| TurnError { message: message.to_owned(), ..TurnError::default() };
    let failed = |error| WireTurn { error, ..wire_turn("u", TurnStatus::Failed, vec![]) };
    let fails = |error| own(Event::TurnCompleted(failed(error)));
    let seen = |message, will_retry| own(Event::Error { error: error(message), will_retry });

    check_active(prompt(), [(1, fails(Some(error("boom"))), "end Failed Model: boom")]);
    check_active(
        prompt(),
        [
            (1, seen("seen", false), ""),
            (2, seen("retried", true), ""),
            (3, fails(None), "end Failed Model: seen"),
        ],
    );
    check_active(prompt(), [(3, fails(None), "end Failed Model: the turn failed and Codex did not say why")]);
    let (mut bench, _) = Bench::begin(prompt());
    bench.step(1, accepted());
    bench.step(
        1,
        own(Event::TokenUsage(TokenUsage { model_context_window: Some(7), ..TokenUsage::default() })),
    );
    bench.step(2, fails(Some(error("401 Unauthorized: please reauthenticate"))));
    assert!(bench.result().error.as_ref().is_some_and(|error| error.message.contains("codex login")));
    assert!(bench.result().should_retire);
    assert_eq!(bench.result().usage.as_ref().and_then(|usage| usage.model_context_window), Some(7));
}

#[test]
fn an_end_of_unknown_kind_is_an_end_and_an_error() {
    let (mut bench, _) = Bench::begin(prompt());
    bench.step(1, accepted());
    bench.step(1, ended(TurnStatus::Other("evaporated".to_owned())));
    assert_eq!(bench.result().error.as_ref().map(|error| &error.kind), Some(&FailureKind::Protocol));
}

#[test]
fn a_prompt_that_may_have_been_sent_is_looked_for_first() {
    let found = || turns(vec![wire_turn("u", TurnStatus::InProgress, vec![prompt_item("c1")])]);
    let other = || turns(vec![wire_turn("x", TurnStatus::Completed, vec![prompt_item("c0")])]);

    // There and running: taken up.
    check(prompt_once(true), "list", [(1, found(), ""), (2, completed(), "end Completed")]);
    // There and over: its outcome is read.
    let over = turns(vec![wire_turn("u", TurnStatus::Failed, vec![prompt_item("c1")])]);
    let failed = "end Failed Model: the turn failed and Codex did not say why";
    check(prompt_once(true), "list", [(1, over, failed)]);
    // A living host lists a turn that is just beginning as interrupted: only the second look is believed.
    let cut = || turns(vec![wire_turn("u", TurnStatus::Interrupted, vec![prompt_item("c1")])]);
    check(prompt_once(true), "list", [(1, cut(), ""), (1_001, Input::Time, "list"), (1_002, found(), "")]);
    check(
        prompt_once(true),
        "list",
        [(1, cut(), ""), (1_001, Input::Time, "list"), (1_002, cut(), "end Interrupted")],
    );
    check(prompt_once(false), "list", [(1, cut(), "end Interrupted")]);
    // Not there, and the host that may have got it is gone: it never ran.
    check(
        prompt_once(false),
        "list",
        [(1, other(), "start"), (2, accepted(), ""), (3, completed(), "end Completed")],
    );
    // Not there, but the host lives: it may be on its way.
    let bench = check(
        prompt_once(true),
        "list",
        [(1, other(), ""), (1_000, Input::Time, ""), (1_001, Input::Time, "list"), (1_002, other(), "start")],
    );
    assert_eq!(bench.deadline(), None);
    check(prompt_once(true), "list", [(1, other(), ""), (1_001, Input::Time, "list"), (1_002, found(), "")]);
}

#[test]
fn a_thread_without_history_does_not_have_the_prompt() {
    let fails = |error| Input::Reply(Reply::Turns(Err(error)));
    check(prompt_once(false), "list", [(1, fails(refused("no rollout found for thread id t")), "start")]);
    // A server that cannot list has not said that there is nothing.
    let cannot =
        CallError::Refused(RpcError { code: -32601, message: "method not found".to_owned(), data: None });
    let told = "end Failed unknown Refused: thread/turns/list failed: method not found (code -32601)";
    check(prompt_once(false), "list", [(1, fails(cannot), told)]);
    let told = "end Failed unknown Unresponsive: thread/turns/list timed out after 10 s";
    check(prompt_once(true), "list", [(1, fails(timed_out()), told)]);
}

#[test]
fn what_happens_during_the_look_is_not_lost() {
    let found = turns(vec![wire_turn("u", TurnStatus::InProgress, vec![prompt_item("c1")])]);
    let bench = check(
        prompt_once(true),
        "list",
        [
            (1, item_completed(message("m", "done")), ""),
            (1, asks(0), ""),
            (2, completed(), ""),
            (3, found, "closed 0 orphaned None; end Completed"),
        ],
    );
    assert_eq!(bench.result().final_text, "done");
}

#[test]
fn a_running_turn_is_taken_up_with_what_it_did_so_far() {
    let items = vec![prompt_item("c1"), message("m1", "first"), command("x", "inProgress")];
    let bench = check(
        plan(Begin::Attach("u".into())),
        "list",
        [
            (1, item_completed(message("m2", "second")), ""),
            (2, running(items), ""),
            (3, completed(), "end Completed"),
        ],
    );
    assert_eq!(bench.told_items(), ["p", "m1", "m2"]);
    assert_eq!(bench.result().final_text, "second");
}

#[test]
fn a_turn_taken_up_too_late_is_over() {
    let turn = wire_turn("u", TurnStatus::Completed, vec![message("m", "done"), command("x", "inProgress")]);
    let bench = check(plan(Begin::Attach("u".into())), "list", [(1, turns(vec![turn]), "end Completed")]);
    assert_eq!(bench.result().final_text, "done");
    assert_eq!(bench.result().tool_iterations, 0, "a command that never ended is no result");
}
