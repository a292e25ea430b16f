//! The clocks: what they count, and what they do not.

use super::*;

fn work(limit: Millis) -> Plan {
    limited(Limits { work_ms: Some(limit), ..Limits::default() })
}

fn idle(limit: Millis) -> Plan {
    limited(Limits { idle_ms: Some(limit), ..Limits::default() })
}

fn quiet(limit: Millis) -> Plan {
    limited(Limits { quiet_after_tool_ms: Some(limit), ..Limits::default() })
}

// peer: S20, S21, S42, L12
#[test]
fn the_work_limit_stops_and_retires() {
    let bench = check_active(
        work(10_000),
        [
            (9_999, item_completed(message("m", "busy")), ""),
            (10_000, Input::Time, "interrupt u"),
            (
                10_001,
                ended(TurnStatus::Interrupted),
                "clean; end Interrupted Timeout: the turn timed out after 10 s of work",
            ),
        ],
    );
    assert!(bench.result().interrupted && bench.result().should_retire);
}

#[test]
fn a_limit_that_was_reached_is_no_reason_to_wake_again() {
    let both = Limits { work_ms: Some(1_000), idle_ms: Some(1_000), quiet_after_tool_ms: None };
    let bench = check_active(limited(both), [(1_000, Input::Time, "interrupt u")]);
    assert_eq!(bench.deadline(), Some(6_000));
}

// peer: L9, L10
#[test]
fn the_idle_limit_counts_silence_alone() {
    let bench = check_active(
        idle(1_000),
        [
            (900, item_completed(message("m", "a")), ""),
            (1_800, own(Event::DiffUpdated("d".to_owned())), ""),
            (2_799, Input::Time, ""),
            (2_800, Input::Time, "interrupt u"),
            (
                2_900,
                ended(TurnStatus::Interrupted),
                "clean; end Interrupted Timeout: the turn was inactive for 1 s; task incomplete",
            ),
        ],
    );
    assert!(bench.result().should_retire);
}

#[test]
fn a_sub_agent_at_work_is_no_silence_but_news_of_no_work_is() {
    check_active(
        idle(1_000),
        [
            (900, of_thread("child", Some("v"), Event::DiffUpdated("d".to_owned())), ""),
            (
                1_800,
                of_thread("t", None, Event::ThreadStatus(codex_wire::thread::ThreadStatus::default())),
                "",
            ),
            (1_900, Input::Time, "interrupt u"),
        ],
    );
}

#[test]
fn no_clock_runs_while_a_person_is_asked() {
    let both = Limits { work_ms: Some(10_000), idle_ms: Some(5_000), quiet_after_tool_ms: None };
    let bench = check_active(
        limited(both),
        [
            (4_000, asks(0), "ask 0"),
            (5_000, asks(1), "ask 1"),
            (1_000_000, decides(0, Decision::Accept), "answer 0 Accept"),
            (2_000_000, Input::Time, ""),
            (2_000_000, decides(1, Decision::Accept), "answer 1 Accept"),
        ],
    );
    // 4 s are used up; the silence begins anew.
    assert_eq!(bench.deadline(), Some(2_005_000));
    let mut bench = bench;
    assert_eq!(bench.step(2_004_000, item_completed(message("m", "x"))), "");
    assert_eq!(bench.deadline(), Some(2_006_000));
    assert_eq!(bench.step(2_006_000, Input::Time), "interrupt u");
}

#[test]
fn no_clock_runs_without_a_connection() {
    let both = Limits { work_ms: Some(10_000), idle_ms: Some(5_000), quiet_after_tool_ms: None };
    let mut bench = check_active(limited(both), [(4_000, lost(), "reconnect")]);
    assert_eq!(bench.deadline(), Some(34_000));
    assert_eq!(bench.step(30_000, attached("e1")), "list");
    assert_eq!(bench.step(30_000, running(vec![])), "");
    assert_eq!(bench.deadline(), Some(35_000));
    assert_eq!(bench.step(34_999, own(Event::Compacted)), "");
    assert_eq!(bench.deadline(), Some(36_000));
}

#[test]
fn pauses_that_overlap_are_counted_once() {
    let bench = check_active(
        work(10_000),
        [
            (1_000, asks(0), "ask 0"),
            (2_000, lost(), "reconnect"),
            (3_000, decides(0, Decision::Accept), ""),
            (4_000, attached("e1"), "list"),
            (4_500, asks(0), ""),
            (5_000, running(vec![]), "answer 0 Accept"),
        ],
    );
    assert_eq!(bench.deadline(), Some(13_000));
}

#[test]
fn a_program_that_answers_is_work() {
    let program = ServerRequest::CurrentTime;
    let bench = check_active(
        work(10_000),
        [(1_000, asks_as(number(0), program), "ask program 0"), (5_000, Input::Time, "")],
    );
    assert_eq!(bench.deadline(), Some(10_000));
}

// peer: S45, S46, S47
#[test]
fn silence_after_a_tool_result_warns_once_and_stops_nothing() {
    let tool = || item_completed(command("x", "completed"));
    let bench = check_active(
        quiet(30_000),
        [
            (1_000, tool(), ""),
            (30_999, Input::Time, ""),
            (31_000, Input::Time, "warn: Codex has been silent for 30 s after a tool result"),
            (90_000, Input::Time, ""),
        ],
    );
    assert_eq!(bench.deadline(), None);
    check_active(
        quiet(30_000),
        [(1_000, tool(), ""), (2_000, own(Event::Compacted), ""), (90_000, Input::Time, "")],
    );
    // Waiting for a person is not Codex's silence.
    check_active(
        quiet(30_000),
        [
            (1_000, tool(), ""),
            (2_000, asks(0), "ask 0"),
            (90_000, decides(0, Decision::Accept), "answer 0 Accept"),
            (90_001, Input::Time, ""),
        ],
    );
    check_active(
        quiet(1_000),
        [
            (1_000, tool(), ""),
            (1_500, lost(), "reconnect"),
            (9_000, attached("e1"), "list"),
            (9_001, running(vec![]), ""),
        ],
    );
    // Off by default.
    let bench = check_active(prompt(), [(1_000, tool(), "")]);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn limits_beyond_all_time_are_never_reached() {
    let endless =
        Limits { work_ms: Some(u64::MAX), idle_ms: Some(u64::MAX), quiet_after_tool_ms: Some(u64::MAX) };
    let bench = check_active(limited(endless), [(9, item_completed(command("x", "completed")), "")]);
    assert_eq!(bench.deadline(), Some(u64::MAX));
}
