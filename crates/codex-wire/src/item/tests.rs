use serde_json::{Value, json};

use super::*;

/// A finished command as codex 0.166 sends it.
fn finished_command() -> Value {
    json!({
        "type": "commandExecution", "id": "call_000003", "pluginId": null, "scriptPath": null,
        "command": "/bin/bash -lc 'touch x'", "cwd": "/ws", "processId": "48213",
        "source": "unifiedExecStartup", "status": "completed",
        "commandActions": [{"type": "unknown", "command": "touch x"}],
        "aggregatedOutput": "done-accept\n", "exitCode": 0, "durationMs": 12,
        "startedAtMs": 1_794_771_468_411_i64, "completedAtMs": 1_794_771_468_423_i64,
    })
}

#[test]
fn a_captured_command_is_read_in_full() {
    let Item::CommandExecution(command) = Item::from_value(finished_command()) else {
        panic!("not read as a command")
    };
    assert_eq!(command.id.as_deref(), Some("call_000003"));
    assert_eq!(command.command, "/bin/bash -lc 'touch x'");
    assert_eq!(command.cwd.as_deref(), Some("/ws"));
    assert_eq!(command.status, Some(Status::Completed));
    assert_eq!(command.aggregated_output.as_deref(), Some("done-accept\n"));
    assert_eq!(command.exit_code, Some(0));
    assert_eq!(command.duration_ms, Some(12));
}

#[test]
fn a_captured_patch_is_read_in_full() {
    let item = Item::from_value(json!({
        "type": "fileChange", "id": "call_000003", "status": "inProgress",
        "changes": [
            {"path": "/ws/new.txt", "kind": {"type": "add"}, "diff": "hello\nworld\n"},
            {"path": "/ws/old.txt", "kind": {"type": "update", "move_path": null}, "diff": "@@ -1 +1 @@\n"},
            {"path": "/ws/a.txt", "kind": {"type": "update", "move_path": "/ws/b.txt"}, "diff": ""},
            {"path": "/ws/gone.txt", "kind": {"type": "delete"}, "diff": "old\n"},
        ],
    }));
    let Item::FileChange(patch) = item else { panic!("not read as a file change") };
    let kinds: Vec<_> = patch.changes.iter().map(|change| change.kind.clone()).collect();
    let moved = ChangeKind::Update { move_path: Some("/ws/b.txt".to_owned()) };
    assert_eq!(kinds, [ChangeKind::Add, ChangeKind::Update { move_path: None }, moved, ChangeKind::Delete]);
    assert_eq!(patch.changes[0].diff, "hello\nworld\n");
    assert_eq!(patch.status, Some(Status::InProgress));
}

#[test]
fn each_known_type_is_read_and_names_itself() {
    for type_name in [
        "agentMessage",
        "reasoning",
        "commandExecution",
        "fileChange",
        "mcpToolCall",
        "dynamicToolCall",
        "userMessage",
        "webSearch",
        "plan",
        "contextCompaction",
    ] {
        let item = Item::from_value(json!({"type": type_name, "id": "i-1"}));
        assert!(!matches!(item, Item::Other(_)), "{type_name} is not typed");
        assert_eq!((item.type_name(), item.id()), (type_name, Some("i-1")));
    }
}

#[test]
fn an_unknown_type_is_kept_whole() {
    let raw = json!({"type": "sleep", "id": "s-1", "durationMs": 5});
    let item = Item::from_value(raw.clone());
    assert_eq!((item.type_name(), item.id()), ("sleep", Some("s-1")));
    assert_eq!(serde_json::to_value(&item).unwrap(), raw);
}

#[test]
fn a_field_of_the_wrong_type_costs_the_typing_not_the_item() {
    let raw = json!({"type": "commandExecution", "id": "c-1", "command": ["ls"]});
    let Item::Other(other) = Item::from_value(raw.clone()) else { panic!("read as a command") };
    assert_eq!(other.type_name, "commandExecution");
    assert_eq!(other.id.as_deref(), Some("c-1"));
    assert_eq!(other.raw, raw);
}

#[test]
fn nothing_that_is_json_fails_to_read() {
    for raw in [json!(null), json!(7), json!("text"), json!([1]), json!({}), json!({"type": 3, "id": 4})] {
        let item = Item::from_value(raw.clone());
        assert_eq!((item.type_name(), item.id()), ("", None));
        assert_eq!(serde_json::to_value(&item).unwrap(), raw);
    }
}

#[test]
fn unknown_words_are_kept_as_they_came() {
    let item = Item::from_value(json!({"type": "agentMessage", "text": "x", "phase": "epilogue"}));
    let Item::AgentMessage(message) = item else { panic!("not read as a message") };
    assert_eq!(message.phase, Some(Phase::Other("epilogue".to_owned())));

    let item = Item::from_value(json!({
        "type": "commandExecution", "status": "paused", "exitCode": null, "command": null,
    }));
    let Item::CommandExecution(command) = item else { panic!("not read as a command") };
    assert_eq!(command.status.as_ref().map(Status::as_str), Some("paused"));
    assert_eq!(command.exit_code, None);
}

#[test]
fn the_phases_are_known() {
    let read = |word: &str| serde_json::from_value::<Phase>(json!(word)).unwrap();
    assert_eq!(read("commentary"), Phase::Commentary);
    assert_eq!(read("final_answer"), Phase::FinalAnswer);
}

#[test]
fn an_unreadable_change_still_counts_as_one() {
    let item = Item::from_value(json!({
        "type": "fileChange",
        "changes": ["not an object", {"path": "/a", "kind": "add"}, {"path": "/b", "kind": {"type": "chmod"}}],
    }));
    let Item::FileChange(patch) = item else { panic!("not read as a file change") };
    let seen: Vec<_> = patch.changes.iter().map(|it| (it.path.as_str(), it.kind.as_str())).collect();
    assert_eq!(seen, [("", ""), ("/a", "add"), ("/b", "chmod")]);
}

#[test]
fn a_user_message_gives_its_text_parts_only() {
    let item = Item::from_value(json!({
        "type": "userMessage", "id": "u-1", "clientId": "ours",
        "content": [
            {"type": "text", "text": "first", "text_elements": []},
            {"type": "localImage", "path": "/x.png"},
            {"type": "text", "text": "second"},
            "not an object",
        ],
    }));
    let Item::UserMessage(message) = item else { panic!("not read as a user message") };
    assert_eq!(message.client_id.as_deref(), Some("ours"));
    assert_eq!(message.text(), "first\nsecond");
}

#[test]
fn an_empty_id_is_no_id() {
    assert_eq!(Item::from_value(json!({"type": "plan", "id": "", "text": "x"})).id(), None);
}

#[test]
fn a_typed_item_is_written_as_it_is_read() {
    let item = Item::from_value(finished_command());
    let written = serde_json::to_value(&item).unwrap();
    assert_eq!(written["type"], "commandExecution");
    assert_eq!(written["aggregatedOutput"], "done-accept\n");
    assert_eq!(serde_json::from_value::<Item>(written).unwrap(), item);
}
