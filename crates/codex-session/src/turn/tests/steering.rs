//! Steers: sent when the turn runs, each with one outcome.

use super::*;

fn reply(token: u64, result: Result<Option<&str>, CallError>) -> Input {
    Input::Reply(Reply::Steer { token, result: result.map(|id| id.map(TurnId::from)) })
}

// peer: S19
#[test]
fn a_steer_goes_to_the_turn_that_runs() {
    let mut effects = Vec::new();
    let mut bench = check_active(prompt(), []);
    bench.turn.step(steer(1), 1, &mut effects);
    let Some(Effect::Call(call)) = effects.pop() else { panic!("a call") };
    let input = vec![UserInput::text("steer 1")];
    assert_eq!(call, Outgoing::Steer { token: 1, turn_id: "u".into(), input, client_id: Some("m1".into()) });
    assert_eq!(bench.step(2, reply(1, Ok(Some("u")))), "steered 1 Accepted");
}

#[test]
fn outcomes_are_typed() {
    let outcomes = [
        (Ok(None), "steered 1 Accepted"),
        (Ok(Some("v")), "steered 1 Unconfirmed(\"Codex added it to another turn\")"),
        (Err(refused("no active turn to steer")), "steered 1 NoActiveTurn"),
        (Err(refused("expected active turn id `u` but found `v`")), "steered 1 WrongTurn"),
        (Err(refused("the active turn is not steerable")), "steered 1 NotSteerable"),
        (Err(refused("input must not be empty")), "steered 1 Failed(\"input must not be empty\")"),
        (Err(timed_out()), "steered 1 Unconfirmed(\"call timed out after 10000 ms\")"),
    ];
    for (result, outcome) in outcomes {
        check_active(
            prompt(),
            [(1, steer(1), "steer 1 u"), (2, reply(1, result), outcome), (3, reply(1, Ok(None)), "")],
        );
    }
}

#[test]
fn steers_wait_for_the_turn_to_run() {
    check(
        prompt(),
        "start",
        [(1, steer(1), ""), (2, accepted(), ""), (3, steer(2), ""), (4, started(), "steer 1 u; steer 2 u")],
    );
    let found = turns(vec![wire_turn("u", TurnStatus::InProgress, vec![prompt_item("c1")])]);
    check(prompt_once(true), "list", [(1, steer(1), ""), (2, found, "steer 1 u")]);
}

#[test]
fn a_turn_that_stops_or_ends_first_takes_none() {
    check(
        prompt(),
        "start",
        [
            (1, steer(1), ""),
            (2, Input::Interrupt, "steered 1 NoActiveTurn"),
            (3, steer(2), "steered 2 NoActiveTurn"),
        ],
    );
    check(
        prompt(),
        "start",
        [(1, steer(1), ""), (2, accepted(), ""), (3, completed(), "steered 1 NoActiveTurn; end Completed")],
    );
    let over = turns(vec![wire_turn("u", TurnStatus::Completed, vec![])]);
    check(
        plan(Begin::Attach("u".into())),
        "list",
        [(1, steer(1), ""), (2, over, "steered 1 NoActiveTurn; end Completed")],
    );
}

#[test]
fn steers_wait_for_a_connection_and_for_what_was_missed() {
    check_active(
        prompt(),
        [
            (1, lost(), "reconnect"),
            (2, steer(1), ""),
            (3, attached("e1"), "list"),
            (4, steer(2), ""),
            (5, running(vec![]), "steer 1 u; steer 2 u"),
        ],
    );
}

#[test]
fn a_steer_whose_reply_cannot_come_has_an_outcome_too() {
    let told = "steered 1 Unconfirmed(\"the connection was lost before Codex answered\"); reconnect";
    check_active(prompt(), [(1, steer(1), "steer 1 u"), (2, lost(), told), (3, reply(1, Ok(None)), "")]);
    let told = "steered 1 Unconfirmed(\"the turn ended before Codex answered\"); end Completed";
    check_active(prompt(), [(1, steer(1), "steer 1 u"), (2, completed(), told)]);
}

#[test]
fn the_echo_of_a_steer_is_no_second_message() {
    let echo = json!({"type": "userMessage", "id": "s", "content": [{"type": "text", "text": "steer 1"}]});
    let bench = check_active(
        prompt(),
        [
            (1, steer(1), "steer 1 u"),
            (2, item_completed(prompt_item("c1")), ""),
            (3, item_completed(Item::from_value(echo)), ""),
            (
                4,
                completed(),
                "steered 1 Unconfirmed(\"the turn ended before Codex answered\"); end Completed",
            ),
        ],
    );
    assert!(bench.result().projected_messages.is_empty());
}
