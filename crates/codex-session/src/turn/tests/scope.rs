//! What counts as an event of this very turn, and what ends it.

use super::*;

// peer: S7, S8, S9
#[test]
fn events_of_other_threads_and_turns_neither_end_nor_feed_it() {
    let turn = |id| wire_turn(id, TurnStatus::Completed, vec![message("c", "child")]);
    let bench = check_active(
        prompt(),
        [
            (1, of_thread("child", Some("u"), Event::TurnCompleted(turn("u"))), ""),
            (1, of_thread("child", Some("v"), Event::ItemCompleted(message("c", "child"))), ""),
            (1, of_thread("t", Some("older"), Event::TurnCompleted(turn("older"))), ""),
            (1, of_thread("t", None, Event::TurnCompleted(turn("older"))), ""),
            (1, of_thread("t", Some("older"), Event::ItemCompleted(message("o", "old"))), ""),
            (2, asks(0), "ask 0"),
            (2, of_thread("child", Some("v"), Event::ItemCompleted(message("c2", "child"))), ""),
            (3, decides(0, Decision::Accept), "answer 0 Accept"),
            (4, resolved(0), "closed 0 taken Accept by ann"),
            (5, item_completed(message("m", "parent")), ""),
            (6, completed(), "end Completed"),
        ],
    );
    assert_eq!(bench.result().final_text, "parent");
    assert_eq!(bench.told_items(), ["m"]);
}

#[test]
fn a_completion_says_itself_whose_it_is() {
    let older = Event::TurnCompleted(wire_turn("older", TurnStatus::Completed, vec![]));
    check(
        prompt(),
        "start",
        [(1, of_thread("t", None, older), ""), (2, accepted(), ""), (3, completed(), "end Completed")],
    );
}

#[test]
fn the_final_answer_wins_over_later_words() {
    let phased = |id: &str, text: &str, phase: &str| {
        let item = json!({"type": "agentMessage", "id": id, "text": text, "phase": phase});
        item_completed(Item::from_value(item))
    };
    let bench = check_active(
        prompt(),
        [
            (1, phased("m1", "cut", "final_answer"), ""),
            (2, phased("m2", "whole", "final_answer"), ""),
            (3, phased("m3", "by the way", "commentary"), ""),
            (4, completed(), "end Completed"),
        ],
    );
    assert_eq!(bench.result().final_text, "whole");
}

#[test]
fn the_last_message_may_come_with_the_end() {
    let turn = wire_turn("u", TurnStatus::Completed, vec![message("m", "only here")]);
    let bench = check_active(prompt(), [(1, own(Event::TurnCompleted(turn)), "end Completed")]);
    assert_eq!(bench.result().final_text, "only here");
}

// peer: S23, S24
#[test]
fn a_compaction_on_the_way_is_noted() {
    let item = Item::from_value(json!({"type": "contextCompaction", "id": "k"}));
    for event in [Event::ItemCompleted(item), Event::Compacted] {
        let bench = check_active(prompt(), [(1, own(event), ""), (2, completed(), "end Completed")]);
        assert!(bench.result().compacted);
    }
}

// peer: T20
#[test]
fn the_end_is_final() {
    let program = ServerRequest::ToolCall(codex_wire::request::DynamicToolCall::default());
    check_active(
        limited(Limits { work_ms: Some(1_000), idle_ms: Some(100), quiet_after_tool_ms: Some(10) }),
        [
            (1, completed(), "end Completed"),
            (2, completed(), ""),
            (2, ended(TurnStatus::Failed), ""),
            (2, item_completed(message("m", "late")), ""),
            (3, asks(0), "answer 0 Decline"),
            (
                3,
                asks_as(RequestId::Text("s-1".to_owned()), program),
                "answer s-1 no tool named  is offered here",
            ),
            (3, decides(0, Decision::Accept), "NotOpen"),
            (3, resolved(0), ""),
            (4, steer(1), "steered 1 NoActiveTurn"),
            (5, Input::Interrupt, ""),
            (6, lost(), ""),
            (7, attached("e1"), ""),
            (8, running(vec![]), ""),
            (9, host_gone(), ""),
            (3_600_000, Input::Time, ""),
        ],
    );
}

// peer: S44
#[test]
fn words_are_no_end() {
    let bench = check_active(
        limited(Limits { work_ms: Some(1_000), ..Limits::default() }),
        [
            (1, item_completed(message("m", "all done")), ""),
            (1_000, Input::Time, "interrupt u"),
            (
                1_001,
                ended(TurnStatus::Interrupted),
                "clean; end Interrupted Timeout: the turn timed out after 1 s of work",
            ),
        ],
    );
    assert!(bench.result().interrupted);
}

// peer: S59, S60, S61, S62
#[test]
fn an_abort_marker_is_nothing_but_itself() {
    for marker in ["<turn_aborted>", " <turn_aborted/>\n", "<turn_aborted />"] {
        assert!(is_abort_marker(marker), "{marker}");
    }
    for text in ["", "hello", "it said <turn_aborted>", "<turn_aborted> and then"] {
        assert!(!is_abort_marker(text), "{text}");
    }
}

// peer: S48, S49
#[test]
fn an_abort_marker_alone_has_the_turn_read_back() {
    let marker = || item_completed(message("m", "<turn_aborted>"));
    let over = || turns(vec![wire_turn("u", TurnStatus::Interrupted, vec![message("m", "<turn_aborted>")])]);
    let aborted = "end Interrupted Aborted: codex reported turn_aborted";
    check_active(
        prompt(),
        [(1, marker(), ""), (2_000, Input::Time, ""), (2_001, Input::Time, "list"), (2_002, over(), aborted)],
    );
    // Codex works on: so do we.
    let bench = check_active(
        prompt(),
        [
            (1, marker(), ""),
            (2_001, Input::Time, "list"),
            (2_002, running(vec![]), ""),
            (9_000, completed(), "end Completed"),
        ],
    );
    assert!(bench.result().error.is_none());
    // The real end, or anything else, makes the look needless.
    check_active(prompt(), [(1, marker(), ""), (2, ended(TurnStatus::Interrupted), aborted)]);
    let more = item_completed(message("m2", "going on"));
    let bench = check_active(prompt(), [(1, marker(), ""), (2, more, ""), (2_001, Input::Time, "")]);
    assert_eq!(bench.deadline(), None);
    // A quotation is prose.
    let quoted = item_completed(message("m", "it printed <turn_aborted>"));
    let bench = check_active(prompt(), [(1, quoted, "")]);
    assert_eq!(bench.deadline(), None);
}

#[test]
fn a_read_back_that_fails_is_tried_again_while_the_turn_is_silent() {
    let marker = item_completed(message("m", "<turn_aborted>"));
    let fails = || Input::Reply(Reply::Turns(Err(timed_out())));
    let over = turns(vec![wire_turn("u", TurnStatus::Interrupted, vec![])]);
    check_active(
        prompt(),
        [
            (1, marker, ""),
            (2_001, Input::Time, "list"),
            (
                3_000,
                fails(),
                "warn: the turn could not be read from its thread, events may be missing: call timed out after 10000 ms",
            ),
            (13_000, Input::Time, "list"),
            (
                14_000,
                turns(vec![]),
                "warn: the turn could not be read from its thread, events may be missing: it is not among the latest turns of its thread",
            ),
            (24_000, Input::Time, "list"),
            (24_001, over, "end Interrupted Aborted: codex reported turn_aborted"),
        ],
    );
    check_active(
        prompt(),
        [
            (1, item_completed(message("m", "<turn_aborted>")), ""),
            (2_001, Input::Time, "list"),
            (
                3_000,
                fails(),
                "warn: the turn could not be read from its thread, events may be missing: call timed out after 10000 ms",
            ),
            (4_000, item_completed(message("m2", "alive")), ""),
            (13_000, Input::Time, ""),
        ],
    );
}

#[test]
fn an_item_that_comes_twice_is_told_once() {
    let item = || item_completed(message("m", "once"));
    let bench = check_active(prompt(), [(1, item(), ""), (2, item(), ""), (3, completed(), "end Completed")]);
    assert_eq!(bench.told_items(), ["m"]);
    assert_eq!(bench.result().projected_messages.len(), 1);
}

// peer: T9
#[test]
fn codex_may_interrupt_by_itself() {
    check_active(prompt(), [(1, ended(TurnStatus::Interrupted), "end Interrupted")]);
}

// peer: P1, P2, P3
#[test]
fn what_is_no_item_makes_no_message_no_tool_iteration_and_no_text() {
    let item = json!({"type": "agentMessage", "id": "m1", "text": "said before"});
    let command = json!({"type": "commandExecution", "id": "c1", "command": "ls", "status": "completed"});
    let turn = json!({"id": "u", "status": "inProgress", "items": [item]});
    let delta = json!({"itemId": "i", "delta": "piece"});
    let story = [
        ("item/commandExecution/outputDelta", delta.clone()),
        ("item/agentMessage/delta", delta.clone()),
        ("item/reasoning/summaryTextDelta", delta),
        ("turn/started", json!({ "turn": turn })),
        ("thread/started", json!({"thread": {"id": "t"}})),
        ("item/hologram/projected", json!({ "item": command })),
    ];
    let story = story.map(|(method, params)| {
        let line = json!({ "params": params }).to_string();
        (1, own(Event::parse(method, line.as_bytes())), "")
    });
    let bench = check_active(prompt(), story.into_iter().chain([(2, completed(), "end Completed")]));
    let result = bench.result();
    assert_eq!((result.projected_messages.len(), result.tool_iterations), (0, 0));
    assert_eq!(result.final_text, "");
}
