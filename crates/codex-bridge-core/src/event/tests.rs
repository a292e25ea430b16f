use serde_json::json;

use super::*;

fn stored(kind: &str, data: &Value) -> Line {
    Line::read(kind, &data.to_string()).unwrap()
}

#[test]
fn a_line_is_the_same_on_disk_and_on_the_wire() {
    for (kind, data) in [
        ("state", json!({"status": "queued", "client_request_id": "mine"})),
        ("thread_opened", json!({"thread_id": "t", "host": null})),
        ("turn_started", json!({"turn_id": "u", "number": 1, "prompt": "do it", "prompt_cut_bytes": 7})),
        ("steered", json!({"item_id": "i", "client_id": "c", "by": "ada", "text": "more"})),
        ("message", json!({"item_id": "i", "text": "hello", "phase": "final_answer"})),
        ("thought", json!({"text": "hm"})),
        ("tool_started", json!({"call_id": "c", "name": "exec_command", "args": {"command": "ls"}})),
        ("tool_completed", json!({"call_id": "c", "name": "exec_command", "is_error": false, "result": ""})),
        ("terminal_input", json!({"of_call": "c", "command": null, "text": "y\n", "text_cut_bytes": 0})),
        ("request", json!({"request_id": "req-1", "digest": "d", "title": "May it?", "asks": "command"})),
        (
            "request_closed",
            json!({"request_id": "req-1", "outcome": "resolved", "decision": "accept", "decided_by": "ada"}),
        ),
        (
            "request_decided",
            json!({"closing": {"closing": "taken", "decision": "decline", "by": {"by": "policy", "detail": "so"}}}),
        ),
        ("diff", json!({"diff": "--- a\n"})),
        (
            "turn_ended",
            json!({"outcome": "completed", "final_text": "done", "error": null, "outcome_unknown": false,
                "side_effects": []}),
        ),
        ("retrying", json!({"message": "m"})),
        ("warning", json!({"message": "m"})),
        ("notice", json!({"about": "login", "message": "m"})),
    ] {
        let line = stored(kind, &data);
        assert!(!matches!(line, Line::Other(_)), "{kind} is not known");
        assert_eq!(serde_json::from_str::<Value>(&line.data().unwrap()).unwrap(), data);
        let mut wire = data;
        wire["kind"] = kind.into();
        assert_eq!(serde_json::to_value(&line).unwrap(), wire);
        assert_eq!(serde_json::from_value::<Line>(wire).unwrap(), line);
    }
}

#[test]
fn what_is_not_known_is_kept() {
    for (kind, data) in
        [("hologram", json!({"depth": 3})), ("message", json!({"words": ["of", "a", "later", "version"]}))]
    {
        let line = stored(kind, &data);
        assert_eq!(line, Line::Other(Other { kind: kind.into(), data: data.as_object().cloned().unwrap() }));
        assert_eq!(
            (line.kind(), serde_json::from_str::<Value>(&line.data().unwrap()).unwrap()),
            (kind, data)
        );
        assert_eq!(serde_json::from_value::<Line>(serde_json::to_value(&line).unwrap()).unwrap(), line);
    }
}

#[test]
fn the_lines_of_an_older_log_are_read() {
    let state = stored("state", &json!({"status": "working"}));
    assert!(matches!(state, Line::State(StateChanged { status: Status::Working, goes_on: false, .. })));
    let started = stored("turn_started", &json!({"turn_id": "u"}));
    assert!(matches!(started, Line::TurnStarted(TurnStarted { number: None, prompt: None, .. })));
    let steered = stored("steered", &json!({"client_id": "c"}));
    assert!(matches!(steered, Line::Steered(Steered { text: None, .. })));
}
