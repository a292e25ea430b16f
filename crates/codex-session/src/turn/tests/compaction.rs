//! A turn that summarises the history.

use super::*;

fn compact() -> Plan {
    plan(Begin::Compact)
}

fn reply(result: Result<(), CallError>) -> Input {
    Input::Reply(Reply::Compact(result))
}

fn compaction() -> Input {
    item_completed(Item::from_value(json!({"type": "contextCompaction", "id": "k"})))
}

// peer: S25, S26, S27
#[test]
fn a_compaction_is_its_own_turn_alone() {
    let child = wire_turn("v", TurnStatus::InProgress, vec![]);
    let older = wire_turn("older", TurnStatus::Completed, vec![]);
    let bench = check(
        compact(),
        "compact",
        [
            (1, of_thread("t", Some("older"), Event::TurnCompleted(older)), ""),
            (1, of_thread("child", Some("v"), Event::TurnStarted(child)), ""),
            (2, reply(Ok(())), ""),
            (3, started(), ""),
            (4, compaction(), ""),
            (5, completed(), "end Completed"),
        ],
    );
    assert!(bench.result().compacted && bench.result().error.is_none());
    assert_eq!(bench.result().turn_id, Some("u".into()));
}

#[test]
fn it_may_begin_before_its_reply() {
    check(
        compact(),
        "compact",
        [(1, started(), ""), (2, reply(Ok(())), ""), (3, completed(), "end Completed")],
    );
    check(
        compact(),
        "compact",
        [(1, started(), ""), (2, reply(Err(timed_out())), ""), (3, completed(), "end Completed")],
    );
}

// peer: S28
#[test]
fn an_interrupted_compaction_is_an_error() {
    check(
        compact(),
        "compact",
        [
            (1, started(), ""),
            (2, ended(TurnStatus::Interrupted), "end Interrupted Aborted: compact turn interrupted"),
        ],
    );
    check(
        compact(),
        "compact",
        [
            (1, started(), ""),
            (2, Input::Interrupt, "interrupt u"),
            (3, ended(TurnStatus::Interrupted), "clean; end Interrupted Aborted: compact turn interrupted"),
        ],
    );
}

#[test]
fn a_refused_compaction_ends_at_once() {
    let told = "end Failed Refused: thread/compact/start failed: no (code -32600)";
    let bench = check(compact(), "compact", [(1, reply(Err(refused("no"))), told)]);
    assert!(!bench.result().should_retire);
    let told = "interrupt any; end Failed unknown Unresponsive: thread/compact/start timed out after 10 s";
    check(compact(), "compact", [(1, reply(Err(timed_out())), told)]);
}

#[test]
fn a_compaction_that_never_begins_can_be_stopped() {
    let told = "end Interrupted unknown Timeout: the turn timed out after 60 s of work";
    check(
        Plan { limits: Limits { work_ms: Some(60_000), ..Limits::default() }, ..compact() },
        "compact",
        [
            (1, reply(Ok(())), ""),
            (60_000, Input::Time, ""),
            (61_000, Input::Time, "interrupt any"),
            (66_000, Input::Time, "interrupt any; clean"),
            (71_000, Input::Time, "drain"),
            (81_000, Input::Time, told),
        ],
    );
    check(compact(), "compact", [(1, Input::Interrupt, ""), (500, started(), "interrupt u")]);
}

#[test]
fn a_compaction_whose_beginning_was_not_seen_is_lost_with_its_connection() {
    let told = "end Lost unknown Lost: codex app-server ended unexpectedly: the connection was lost before the compaction began";
    check(compact(), "compact", [(1, lost(), told)]);
    check(
        compact(),
        "compact",
        [
            (1, started(), ""),
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, running(vec![]), ""),
            (5, completed(), "end Completed"),
        ],
    );
}

#[test]
fn a_compaction_takes_no_steer() {
    check(
        compact(),
        "compact",
        [
            (1, steer(1), "steered 1 NotSteerable"),
            (2, started(), ""),
            (3, steer(2), "steered 2 NotSteerable"),
        ],
    );
}
