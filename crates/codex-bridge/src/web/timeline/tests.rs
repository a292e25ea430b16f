use codex_bridge_core::event::{Event, Line};
use serde_json::{Value, json};

use super::{Entry, EntryKind, Links, Prompt, Timeline, whole_text};

fn event(seq: i64, kind: &str, mut body: Value) -> Event {
    body["kind"] = kind.into();
    let line = serde_json::from_value(body).unwrap();
    assert!(kind == "later" || !matches!(line, Line::Other(_)), "{line:?} is not known");
    Event { task_id: None, seq, at: seq * 1000, line }
}

fn entries(events: &[Event]) -> Vec<Entry> {
    let mut timeline = Timeline::new(&[], Links::default());
    for event in events {
        timeline.read(event);
    }
    timeline.since(0)
}

fn started(seq: i64, command: &str) -> Event {
    event(seq, "tool_started", json!({"call_id": "c1", "name": "exec_command", "args": {"command": command}}))
}

#[test]
fn a_call_and_its_end_are_one_entry() {
    let end = json!({"call_id": "c1", "name": "exec_command", "is_error": true, "result": "[exit 2]\nno such file",
        "duration_ms": 1500});
    let shown = entries(&[started(1, "/bin/bash -lc 'cat x'"), event(2, "tool_completed", end)]);
    let [Entry { key, last: 2, kind: EntryKind::Call(call), .. }] = shown.as_slice() else {
        panic!("{shown:#?}")
    };
    assert_eq!(key, "call-c1");
    assert_eq!((call.state, call.head.as_str(), call.ending.as_str()), ("bad", "$ cat x", "exit 2 · 1.5 s"));
    assert_eq!(call.output.head, "no such file");
    assert!(call.is_open);
}

#[test]
fn the_end_of_a_call_that_began_further_back_has_its_name() {
    let end = json!({"call_id": "c9", "name": "exec_command", "is_error": false, "result": "ok"});
    let shown = entries(&[event(2, "tool_completed", end)]);
    assert!(
        matches!(&shown[0].kind, EntryKind::Call(call) if call.head == "exec_command" && call.state == "good")
    );
}

#[test]
fn only_what_changed_since_is_given() {
    let mut timeline = Timeline::new(&[], Links::default());
    for event in [
        started(1, "true"),
        event(2, "message", json!({"text": "old"})),
        event(3, "tool_completed", json!({"call_id": "c1", "name": "exec_command", "result": ""})),
        event(4, "message", json!({"text": "new"})),
    ] {
        timeline.read(&event);
    }
    let keys: Vec<String> = timeline.since(2).into_iter().map(|entry| entry.key).collect();
    assert_eq!(keys, ["call-c1", "e4"]);
}

#[test]
fn a_question_is_one_with_its_answer() {
    let shown = entries(&[
        event(1, "request", json!({"request_id": "req-1", "title": "Let Codex run a command?"})),
        event(
            2,
            "request_closed",
            json!({"request_id": "req-1", "outcome": "resolved", "decision": "accept",
            "decided_by": "token phone"}),
        ),
    ]);
    let [Entry { kind: EntryKind::Asked { outcome, .. }, .. }] = shown.as_slice() else {
        panic!("{shown:#?}")
    };
    assert_eq!(outcome.as_deref(), Some("approved by token phone"));
}

#[test]
fn the_answer_is_not_told_twice() {
    let shown = entries(&[
        event(1, "message", json!({"text": "Done."})),
        event(2, "turn_ended", json!({"final_text": "Done.", "error": null})),
    ]);
    assert_eq!(shown.len(), 1, "{shown:#?}");
}

fn prompt(body: Value, summary: &str) -> Prompt {
    let turn = json!({"task_id": "codex-1", "number": 7, "client_id": "c", "progress": "ended", "turn_id": "u",
        "prompt_summary": summary, "created_at": 0});
    let mut timeline = Timeline::new(&[serde_json::from_value(turn).unwrap()], Links::default());
    timeline.read(&event(1, "turn_started", body));
    let shown = timeline.since(0);
    let [Entry { kind: EntryKind::Prompt(prompt), .. }] = shown.as_slice() else { panic!("{shown:#?}") };
    prompt.clone()
}

#[test]
fn a_prompt_is_shown_as_the_log_has_it() {
    let shown = prompt(json!({"turn_id": "u", "number": 7, "prompt": "go \u{202e}on"}), "go");
    let whole = Prompt { number: 7, beginning: None, text: "go on".into(), missing: None, lost: None };
    assert_eq!(shown, whole);
    let lines = "one line\n".repeat(40);
    let folded = prompt(json!({"turn_id": "u", "number": 7, "prompt": lines}), "one line");
    assert_eq!(folded.beginning.unwrap().lines().count(), 6);
    assert_eq!(folded.text.lines().count(), 40);
    let long = json!({"turn_id": "u", "number": 7, "prompt": "ä".repeat(20_000), "prompt_cut_bytes": 5000});
    let cut = prompt(long.clone(), "ä");
    assert_eq!(
        (cut.missing.as_deref(), cut.lost.as_deref()),
        (Some("23 KB"), Some("5 KB more were not stored"))
    );
    assert!(cut.beginning.unwrap().len() <= 1000);
    assert_eq!(whole_text(&event(1, "turn_started", long)).len(), 40_000);
}

#[test]
fn the_prompt_of_an_older_log_is_its_beginning_and_says_so() {
    let short = prompt(json!({"turn_id": "u"}), "go on");
    assert_eq!((short.number, short.text.as_str(), short.lost), (7, "go on", None));
    let long = prompt(json!({"turn_id": "u"}), &"x".repeat(200));
    assert_eq!(long.lost.as_deref(), Some("only the beginning was stored"));
}

#[test]
fn long_texts_are_cut_and_can_be_had_whole() {
    let output = "x".repeat(1_000_000);
    let end = event(2, "tool_completed", json!({"call_id": "c1", "name": "exec_command", "result": output}));
    let shown = entries(&[started(1, &format!("echo {}", "y".repeat(50_000))), end.clone()]);
    let EntryKind::Call(call) = &shown[0].kind else { panic!("{shown:#?}") };
    assert_eq!(call.output.missing.as_deref(), Some("983 KB"));
    assert!(call.head.len() <= 160 && call.whole.as_ref().unwrap().missing.is_some());
    assert_eq!(whole_text(&end).len(), 1_000_000);
    let message = entries(&[event(1, "message", json!({"text": "z".repeat(1_000_000)}))]);
    assert!(
        matches!(&message[0].kind, EntryKind::Message { html, missing: Some(_) } if html.len() < 200_000)
    );
}

#[test]
fn what_deceives_the_eye_is_taken_out() {
    let shown = entries(&[
        started(1, "echo \u{1b}[31m\u{202e}evil"),
        event(2, "warning", json!({"message": "\u{1b}]0;title\u{7}w"})),
    ]);
    let EntryKind::Call(call) = &shown[0].kind else { panic!("{shown:#?}") };
    assert_eq!(call.head, "$ echo evil");
    assert!(matches!(&shown[1].kind, EntryKind::Note { text, .. } if !text.contains(char::is_control)));
}

#[test]
fn a_call_that_waits_for_an_answer_does_not_seem_to_run() {
    let asked =
        json!({"request_id": "r1", "title": "Let Codex run a command?", "asks": "command", "call_id": "c1"});
    let closed =
        json!({"request_id": "r1", "outcome": "resolved", "decision": "accept", "decided_by": "anna"});
    let events = [started(1, "make"), event(2, "request", asked), event(3, "request_closed", closed)];
    let state = |count: usize| match &entries(&events[..count])[0].kind {
        EntryKind::Call(call) => call.state,
        _ => panic!("no call"),
    };
    assert_eq!([1, 2, 3].map(state), ["running", "waiting", "running"]);
    let changed: Vec<_> = entries(&events).iter().map(|entry| entry.last).collect();
    assert_eq!(changed[0], 3, "the page is told that it runs");
}
