//! Stopping a turn, in every phase and up every rung.

use super::*;

const UNCONFIRMED: &str = "end Interrupted unknown Unresponsive: codex did not confirm the interrupt; its host is ended unless other tasks run on it";

// peer: S18
#[test]
fn an_active_turn_is_interrupted_by_its_id() {
    let bench = check_active(
        prompt(),
        [
            (10, Input::Interrupt, "interrupt u"),
            (11, Input::Interrupt, ""),
            (12, ended(TurnStatus::Interrupted), "clean; end Interrupted"),
        ],
    );
    let result = bench.result();
    assert!(result.interrupted && result.error.is_none() && !result.should_retire);
}

#[test]
fn before_the_reply_the_stop_waits_for_the_turn_to_run() {
    check(
        prompt(),
        "start",
        [
            (1, Input::Interrupt, ""),
            (8_000, Input::Time, ""),
            (8_001, accepted(), ""),
            (8_500, started(), "interrupt u"),
        ],
    );
}

#[test]
fn a_turn_that_does_not_become_active_is_interrupted_whatever_its_id() {
    let bench = check(
        prompt(),
        "start",
        [
            (1, Input::Interrupt, ""),
            (5, accepted(), ""),
            (1_004, Input::Time, ""),
            (1_005, Input::Time, "interrupt any"),
        ],
    );
    assert_eq!(bench.deadline(), Some(6_005));
    check(
        prompt(),
        "start",
        [
            (5, accepted(), ""),
            (10, Input::Interrupt, ""),
            (1_009, Input::Time, ""),
            (1_010, Input::Time, "interrupt any"),
        ],
    );
}

#[test]
fn a_prompt_that_was_not_sent_need_not_be() {
    check(
        prompt_once(true),
        "list",
        [
            (1, Input::Interrupt, ""),
            (2, turns(vec![]), ""),
            (1_002, Input::Time, "list"),
            (1_003, turns(vec![]), "end Interrupted"),
        ],
    );
    let found = turns(vec![wire_turn("u", TurnStatus::InProgress, vec![prompt_item("c1")])]);
    check(prompt_once(true), "list", [(1, Input::Interrupt, ""), (2, found, "interrupt u")]);
}

#[test]
fn each_rung_has_its_time() {
    let bench = check_active(
        prompt(),
        [
            (100, Input::Interrupt, "interrupt u"),
            (5_099, Input::Time, ""),
            (5_100, Input::Time, "interrupt any; clean"),
            (10_099, Input::Time, ""),
            (10_100, Input::Time, "drain"),
            (20_099, Input::Time, ""),
            (20_100, Input::Time, UNCONFIRMED),
        ],
    );
    assert!(bench.result().should_retire);
}

#[test]
fn the_end_counts_on_every_rung() {
    let rungs = [(100, Input::Interrupt, "interrupt u")];
    check_active(
        prompt(),
        rungs.into_iter().chain([
            (5_100, Input::Time, "interrupt any; clean"),
            (5_200, ended(TurnStatus::Interrupted), "clean; end Interrupted"),
        ]),
    );
    check_active(
        prompt(),
        [
            (100, Input::Interrupt, "interrupt u"),
            (5_100, Input::Time, "interrupt any; clean"),
            (10_100, Input::Time, "drain"),
            (10_200, ended(TurnStatus::Interrupted), "clean; end Interrupted"),
        ],
    );
}

#[test]
fn a_host_that_we_end_does_not_die_unexpectedly() {
    let drained = || {
        [
            (100, Input::Interrupt, "interrupt u"),
            (5_100, Input::Time, "interrupt any; clean"),
            (10_100, Input::Time, "drain"),
        ]
    };
    check_active(prompt(), drained().into_iter().chain([(10_200, host_gone(), UNCONFIRMED)]));
    check_active(
        prompt(),
        drained().into_iter().chain([(10_200, lost(), "reconnect"), (10_300, attached("e2"), UNCONFIRMED)]),
    );
}

#[test]
fn a_turn_that_completes_all_the_same_is_completed() {
    let bench =
        check_active(prompt(), [(10, Input::Interrupt, "interrupt u"), (11, completed(), "end Completed")]);
    assert!(!bench.result().interrupted);
}

#[test]
fn a_failure_while_stopping_is_a_failure() {
    let failed = "end Failed Model: the turn failed and Codex did not say why";
    check_active(prompt(), [(10, Input::Interrupt, "interrupt u"), (11, ended(TurnStatus::Failed), failed)]);
}

#[test]
fn a_stop_without_a_connection_waits_for_it() {
    check_active(
        prompt(),
        [
            (10, lost(), "reconnect"),
            (20, Input::Interrupt, ""),
            (9_000, Input::Time, ""),
            (9_001, attached("e1"), "list; interrupt u"),
            (9_002, running(vec![]), ""),
            (9_003, ended(TurnStatus::Interrupted), "clean; end Interrupted"),
        ],
    );
}

#[test]
fn an_interrupt_that_may_be_lost_is_asked_again() {
    let bench = check_active(
        prompt(),
        [
            (10, Input::Interrupt, "interrupt u"),
            (5_010, Input::Time, "interrupt any; clean"),
            (6_000, lost(), "reconnect"),
            // Nobody is there to be asked, or drained.
            (20_000, Input::Time, ""),
            (21_000, attached("e1"), "list; interrupt u"),
            (21_001, running(vec![]), ""),
        ],
    );
    assert_eq!(bench.deadline(), Some(26_000));
}

#[test]
fn a_stop_while_reading_back_is_asked_at_once() {
    check_active(
        prompt(),
        [
            (10, lost(), "reconnect"),
            (20, attached("e1"), "list"),
            (21, Input::Interrupt, "interrupt u"),
            (22, ended(TurnStatus::Interrupted), ""),
            (23, running(vec![]), "clean; end Interrupted"),
        ],
    );
}

#[test]
fn an_end_that_is_held_counts_before_the_turn_is_given_up() {
    check_active(
        prompt(),
        [
            (10, lost(), "reconnect"),
            (20, attached("e1"), "list"),
            (21, Input::Interrupt, "interrupt u"),
            (22, ended(TurnStatus::Interrupted), ""),
            (5_021, Input::Time, "interrupt any; clean"),
            (10_021, Input::Time, "drain"),
            (20_021, Input::Time, "clean; end Interrupted"),
        ],
    );
}

#[test]
fn closing_ends_the_turn_unknown() {
    let told = "end Failed unknown Closed: the session was closed while the turn was in flight";
    let bench = check_active(prompt(), [(10, Input::Lost(Loss::ClosedByUs), told)]);
    assert!(bench.result().should_retire);
}

#[test]
fn a_turn_of_unknown_outcome_says_what_it_did() {
    let bench = check_active(
        prompt(),
        [
            (1, item_completed(command("x", "completed")), ""),
            (2, own(Event::ItemStarted(command("y", "inProgress"))), ""),
            (3, host_gone(), "end Lost unknown Lost: codex app-server ended unexpectedly: killed"),
        ],
    );
    assert_eq!(bench.result().side_effects.len(), 2, "{:?}", bench.result().side_effects);
    assert!(bench.result().should_retire);
}

#[test]
fn a_turn_that_ends_by_itself_while_it_is_stopped_for_a_breach_has_failed() {
    check_active(
        prompt(),
        [
            (1, Input::Breach("out of bounds".to_owned()), "interrupt u"),
            (2, completed(), "end Failed Breach: out of bounds"),
        ],
    );
    check_active(prompt(), [(1, Input::Interrupt, "interrupt u"), (2, completed(), "end Completed")]);
}
