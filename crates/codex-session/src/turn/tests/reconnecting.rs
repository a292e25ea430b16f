//! A lost connection: what was missed is looked up, and nothing is repeated unseen.

use super::*;

#[test]
fn what_was_missed_comes_once_and_before_what_follows() {
    let items =
        || vec![prompt_item("c1"), message("m1", "one"), command("x", "completed"), message("m2", "two")];
    let bench = check_active(
        prompt(),
        [
            (1, item_completed(message("m1", "one")), ""),
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, item_completed(message("m3", "three")), ""),
            (4, item_completed(command("x", "completed")), ""),
            (5, running(items().into_iter().chain([message("m3", "thr")]).collect()), ""),
            (6, completed(), "end Completed"),
        ],
    );
    assert_eq!(bench.told_items(), ["m1", "p", "x", "m2", "m3"]);
    assert_eq!(bench.result().final_text, "three", "a message that may be growing is not taken as it stands");
    assert_eq!(bench.result().tool_iterations, 1);
    assert_eq!(bench.result().projected_messages.len(), 5);
}

#[test]
fn an_end_that_was_missed_is_read_back() {
    let over = |status| {
        turns(vec![
            wire_turn("newer", TurnStatus::InProgress, vec![]),
            wire_turn("u", status, vec![message("m", "done")]),
        ])
    };
    let story =
        |status, told| [(2, lost(), "reconnect"), (3, attached("e1"), "list"), (4, over(status), told)];
    let bench = check_active(prompt(), story(TurnStatus::Completed, "end Completed"));
    assert_eq!(bench.result().final_text, "done");
    check_active(prompt(), story(TurnStatus::Interrupted, "end Interrupted"));
    check_active(
        prompt(),
        story(TurnStatus::Failed, "end Failed Model: the turn failed and Codex did not say why"),
    );
    // A status of a later Codex is no end.
    let bench = check_active(prompt(), story(TurnStatus::Other("dreaming".to_owned()), ""));
    assert!(!bench.turn.has_ended());
}

#[test]
fn a_turn_that_may_only_be_beginning_is_looked_at_twice_before_it_counts_as_interrupted() {
    let listed = |status| turns(vec![wire_turn("u", status, vec![prompt_item("c1")])]);
    let cut = || listed(TurnStatus::Interrupted);
    let story = |second, told| {
        [
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, cut(), ""),
            (1_003, Input::Time, ""),
            (1_004, Input::Time, "list"),
            (1_005, second, told),
        ]
    };
    check_active(prompt(), story(cut(), "end Interrupted"));
    let bench = check_active(prompt(), story(listed(TurnStatus::InProgress), ""));
    assert!(!bench.turn.has_ended());
    // Who hears of it need not look again.
    let heard = [
        (2, lost(), "reconnect"),
        (3, attached("e1"), "list"),
        (4, cut(), ""),
        (5, completed(), "end Completed"),
    ];
    check_active(prompt(), heard);
}

#[test]
fn taken_and_over_while_reading_back_is_taken() {
    let over = || turns(vec![wire_turn("u", TurnStatus::Completed, vec![])]);
    check_active(
        prompt(),
        [
            (1, asks(0), "ask 0"),
            (2, decides(0, Decision::Accept), "answer 0 Accept"),
            (3, lost(), "reconnect"),
            (4, attached("e1"), "list"),
            (5, resolved(0), ""),
            (5, completed(), ""),
            (6, over(), "closed 0 taken Accept by ann; end Completed"),
        ],
    );
}

#[test]
fn another_host_means_the_turn_is_lost() {
    let told =
        "end Lost unknown Lost: codex app-server ended unexpectedly: the host was replaced by a new one";
    let bench = check_active(prompt(), [(2, lost(), "reconnect"), (3, attached("e2"), told)]);
    assert!(bench.result().should_retire);
}

// peer: S54, L6
#[test]
fn a_host_that_dies_ends_the_turn_at_once() {
    let told = "end Lost unknown Lost: codex app-server ended unexpectedly: killed";
    check_active(prompt(), [(2, host_gone(), told)]);
    check_active(prompt(), [(2, lost(), "reconnect"), (3, host_gone(), told)]);
    check(prompt(), "start", [(2, host_gone(), told)]);
    check(prompt_once(true), "list", [(2, host_gone(), told)]);
}

#[test]
fn a_connection_has_half_a_minute_to_come_back() {
    let told = "end Lost unknown Lost: codex app-server ended unexpectedly: the host still runs but could not be reached again";
    check_active(
        prompt(),
        [
            (100, lost(), "reconnect"),
            (200, lost(), ""),
            (30_099, Input::Time, ""),
            (30_100, Input::Time, told),
        ],
    );
}

#[test]
fn a_prompt_in_flight_is_looked_for_before_it_is_sent_again() {
    let opening = || [(1, lost(), "reconnect"), (2, attached("e1"), "list")];
    let found = || turns(vec![wire_turn("u", TurnStatus::InProgress, vec![prompt_item("c1")])]);
    check(
        prompt(),
        "start",
        opening().into_iter().chain([(3, found(), ""), (4, completed(), "end Completed")]),
    );
    check(
        prompt(),
        "start",
        opening().into_iter().chain([
            (3, turns(vec![]), ""),
            (1_003, Input::Time, "list"),
            (1_004, turns(vec![]), "start"),
            (1_005, accepted(), ""),
            (1_006, completed(), "end Completed"),
        ]),
    );
    // Lost again between the looks: the count begins anew.
    check(
        prompt(),
        "start",
        opening().into_iter().chain([
            (3, turns(vec![]), ""),
            (4, lost(), "reconnect"),
            (2_000, Input::Time, ""),
            (2_001, attached("e1"), "list"),
            (2_002, turns(vec![]), ""),
            (3_002, Input::Time, "list"),
            (3_003, found(), ""),
        ]),
    );
}

#[test]
fn what_a_connection_brought_before_it_broke_again_counts() {
    check_active(
        prompt(),
        [
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, completed(), ""),
            (5, lost(), "end Completed"),
        ],
    );
    check_active(
        prompt(),
        [
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, completed(), ""),
            (5, host_gone(), "end Completed"),
        ],
    );
    // A question of a connection that broke is asked again on the next.
    check_active(
        prompt(),
        [
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, asks(0), ""),
            (5, lost(), "reconnect"),
            (6, attached("e1"), "list"),
            (7, asks(0), ""),
            (8, running(vec![]), "ask 0"),
        ],
    );
}

#[test]
fn a_turn_that_was_only_accepted_may_run_by_now() {
    check(
        prompt(),
        "start",
        [
            (1, accepted(), ""),
            (2, steer(1), ""),
            (3, lost(), "reconnect"),
            (4, attached("e1"), "list"),
            (5, running(vec![]), "steer 1 u"),
        ],
    );
}

#[test]
fn a_failed_read_back_after_a_loss_lets_the_turn_go_on() {
    let fails = Input::Reply(Reply::Turns(Err(timed_out())));
    let bench = check_active(
        prompt(),
        [
            (2, lost(), "reconnect"),
            (3, attached("e1"), "list"),
            (4, item_completed(message("m", "heard")), ""),
            (
                5,
                fails,
                "warn: the turn could not be read from its thread, events may be missing: call timed out after 10000 ms",
            ),
        ],
    );
    assert_eq!(bench.deadline(), None, "it was heard of since");
    let closes = Input::Reply(Reply::Turns(Err(closed())));
    check_active(
        prompt(),
        [(2, lost(), "reconnect"), (3, attached("e1"), "list"), (4, closes, ""), (5, lost(), "reconnect")],
    );
}

#[test]
fn a_turn_that_was_taken_up_and_is_not_heard_of_is_taken_up_anew() {
    let again = |at: Millis| {
        [
            (at, Input::Time, "hang up"),
            (at, lost(), "reconnect"),
            (at, attached("e1"), "list"),
            (at, running(vec![]), ""),
        ]
    };
    let story = [(2, lost(), "reconnect"), (2, attached("e1"), "list"), (2, running(vec![]), "")];
    let story = story.into_iter().chain([(5_001, Input::Time, "")]).chain(again(5_002)).chain(again(15_002));
    let mut bench = check_active(prompt(), story);
    assert_eq!(bench.deadline(), Some(35_002), "the pauses grow");
    assert_eq!(bench.step(35_000, asks(0)), "ask 0");
    assert_eq!(bench.deadline(), None, "a turn that asks is heard of");
}
