use serde_json::{Value, json};

use super::LogRenderer;
use crate::cli::render::paint::Paint;

fn rendered(width: usize, events: &[Value]) -> String {
    let mut renderer = LogRenderer::new(Paint::Plain, width);
    let events = events.iter().map(|event| serde_json::from_value(event.clone()).unwrap());
    events.flat_map(|event| renderer.render(&event)).collect::<Vec<_>>().join("\n")
}

fn began(id: &str, command: &str) -> Value {
    json!({"kind": "tool_started", "call_id": id, "name": "exec_command", "preview": command, "args": {"command": command}})
}

fn ended(id: &str, result: &str, is_error: bool) -> Value {
    json!({"kind": "tool_completed", "call_id": id, "name": "exec_command", "duration_ms": 214, "is_error": is_error, "result": result})
}

fn a_whole_turn() -> Vec<Value> {
    let output = (1..=40).map(|number| format!("test number {number} ... ok")).collect::<Vec<_>>().join("\n");
    vec![
        json!({"kind": "state", "status": "queued"}),
        json!({"kind": "thread_opened", "thread_id": "t"}),
        json!({"kind": "turn_started", "turn_id": "u"}),
        json!({"kind": "message", "text": "I will run the tests and then write down what they say, in a note beside them.", "phase": "commentary"}),
        began("1", "/bin/bash -lc 'cargo test'"),
        ended("1", &output, false),
        json!({"kind": "request", "request_id": "req-1", "title": "Let Codex change files?"}),
        json!({"kind": "request_closed", "request_id": "req-1", "outcome": "resolved", "decision": "accept", "decided_by": "ana"}),
        json!({"kind": "tool_started", "call_id": "2", "name": "apply_patch", "args": {"changes": [{"kind": "add", "path": "note.txt"}]}}),
        json!({"kind": "tool_completed", "call_id": "2", "name": "apply_patch", "is_error": false, "result": "apply_patch status=completed, 1 change(s)"}),
        began("3", "false"),
        ended("3", "[exit 1]\nno\n", true),
        json!({"kind": "retrying", "message": "stream disconnected"}),
        json!({"kind": "message", "text": "Done.", "phase": "final_answer"}),
        json!({"kind": "diff", "diff": "--- /dev/null\n+++ b/note.txt\n@@ -0,0 +1,2 @@\n+a\n+b\n"}),
        json!({"kind": "turn_ended", "outcome": "completed", "final_text": "Done.", "error": null}),
        json!({"kind": "state", "status": "completed"}),
    ]
}

#[test]
fn a_turn_is_told_in_wide_lines() {
    insta::assert_snapshot!(rendered(80, &a_whole_turn()));
}

#[test]
fn a_turn_is_told_in_a_narrow_window() {
    let rendered = rendered(40, &a_whole_turn());
    assert!(rendered.lines().all(|line| super::super::width::columns(line) <= 40), "{rendered}");
    insta::assert_snapshot!(rendered);
}

#[test]
fn a_call_that_ends_under_something_else_says_which_one_it_is() {
    let rendered = rendered(
        60,
        &[began("1", "sleep 5"), began("2", "ls"), ended("2", "a\n", false), ended("1", "", false)],
    );
    insta::assert_snapshot!(rendered);
}

#[test]
fn a_failed_turn_says_why() {
    let rendered = rendered(
        60,
        &[
            json!({"kind": "turn_ended", "outcome": "failed", "final_text": null, "error": {"kind": "auth", "message": "not logged in: run `codex login`"}}),
            json!({"kind": "state", "status": "paused", "reason": "Codex is not logged in: run `codex login`"}),
        ],
    );
    insta::assert_snapshot!(rendered);
}

#[test]
fn an_answer_that_no_message_told_is_told_at_the_end() {
    let rendered =
        rendered(60, &[json!({"kind": "turn_ended", "outcome": "completed", "final_text": "Forty-two."})]);
    assert_eq!(rendered, "Forty-two.");
}

#[test]
fn text_of_a_model_cannot_write_over_the_terminal() {
    let rendered = rendered(
        60,
        &[
            json!({"kind": "message", "text": "\u{1b}[2Jhidden\rshown \u{202e}x"}),
            began("1", "echo \u{1b}]0;title\u{7}"),
            ended("1", "\u{1b}[31mred\u{1b}[0m\n", false),
        ],
    );
    assert!(
        !rendered.contains('\u{1b}') && !rendered.contains('\r') && !rendered.contains('\u{202e}'),
        "{rendered:?}"
    );
}

#[test]
fn unknown_events_are_passed_over() {
    assert_eq!(rendered(60, &[json!({"kind": "something_new", "x": 1})]), "");
}

#[test]
fn what_was_added_is_told_with_who_said_it_as_far_as_that_is_known() {
    let added = |by: Value, text: &str| json!({"kind": "steered", "by": by, "text": text});
    assert_eq!(
        rendered(60, &[added(json!("ana"), "be brief\nand kind")]),
        "+ added by ana: be brief\n  and kind"
    );
    assert_eq!(rendered(60, &[added(Value::Null, "be brief")]), "+ added: be brief");
    assert_eq!(rendered(60, &[json!({"kind": "steered", "item_id": "i", "client_id": "c"})]), "");
}

#[test]
fn input_to_a_running_command_is_told_like_a_command() {
    let typed = |more: Value| {
        let mut event =
            json!({"kind": "terminal_input", "of_call": "1", "text": "rm -r build\n", "text_cut_bytes": 0});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        rendered(80, &[event])
    };
    assert_eq!(typed(json!({"command": null})), "$ input to a running command: rm -r build");
    let named = typed(json!({"command": "/bin/bash -c 'bash -i'"}));
    assert_eq!(named, "$ input to the running command bash -i: rm -r build");
    let cut = typed(json!({"command": null, "text_cut_bytes": 7}));
    assert_eq!(cut, "$ input to a running command: rm -r build … (7 more bytes)");
    assert!(!typed(json!({"text": "\u{1b}[2Jx"})).contains('\u{1b}'));
}

#[test]
fn what_the_operator_declines_beforehand_is_told_with_the_reason() {
    let decided = |decision: &str| {
        let by = json!({"by": "policy", "detail": "such commands are declined"});
        rendered(
            80,
            &[
                json!({"kind": "request_decided", "closing": {"closing": "taken", "decision": decision, "by": by}}),
            ],
        )
    };
    assert_eq!(decided("decline"), "→ declined without asking: such commands are declined");
    assert_eq!(decided("accept"), "");
}
