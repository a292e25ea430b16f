use codex_wire::event::Event;
use codex_wire::item::Item;
use serde_json::{Value, json};

use super::*;
use crate::projection::{Message, Projector};

const T0_MS: u64 = 1_000;

fn event(method: &str, params: &Value) -> Event {
    Event::parse(method, json!({ "params": params }).to_string().as_bytes())
}

fn started(item: &Value) -> Event {
    event("item/started", &json!({"threadId": "t", "turnId": "u", "item": item}))
}

fn completed(item: &Value) -> Event {
    event("item/completed", &json!({"threadId": "t", "turnId": "u", "item": item}))
}

fn display() -> ToolDisplay {
    ToolDisplay::new("turn-1", Options { own_servers: vec!["bridge-tools".to_owned()], ..Options::default() })
}

fn name(item: Value) -> String {
    tool_name(&Item::from_value(item), &["bridge-tools".to_owned()])
}

/// What the start of an item shows.
fn start(item: &Value) -> ToolStarted {
    match &display().observe(&started(item), T0_MS)[..] {
        [Display::ToolStarted(started)] => started.clone(),
        other => panic!("no start but {other:?}"),
    }
}

/// What the end of an item shows.
fn end(item: &Value) -> ToolCompleted {
    let mut display = display();
    display.observe(&started(item), T0_MS);
    match &display.observe(&completed(item), T0_MS + 250)[..] {
        [Display::ToolCompleted(completed)] => completed.clone(),
        other => panic!("no end but {other:?}"),
    }
}

fn command(fields: &Value) -> Value {
    let mut item = json!({
        "type": "commandExecution", "id": "call_1", "command": "ls /tmp", "cwd": "/tmp", "status": "completed",
        "aggregatedOutput": "hello\nworld\n", "exitCode": 0, "durationMs": 42,
    });
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    item
}

fn patch(status: &str, paths: &[&str]) -> Value {
    let change =
        |path: &&str| json!({"path": path, "kind": {"type": "update", "move_path": null}, "diff": "CONTENT"});
    let changes: Vec<_> = paths.iter().map(change).collect();
    json!({"type": "fileChange", "id": "call_2", "status": status, "changes": changes})
}

fn mcp(fields: &Value) -> Value {
    let mut item = json!({
        "type": "mcpToolCall", "id": "call_3", "server": "files", "tool": "read", "status": "completed",
        "arguments": {"path": "/x"}, "result": {"content": []}, "durationMs": 7,
    });
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    item
}

fn dynamic(fields: &Value) -> Value {
    let mut item = json!({
        "type": "dynamicToolCall", "id": "call_4", "tool": "look_up", "status": "completed",
        "arguments": {"word": "x"}, "contentItems": [{"type": "inputText", "text": "found"}], "success": true,
    });
    item.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    item
}

fn web_search() -> Value {
    json!({"type": "webSearch", "id": "ws_1", "query": "rust docs"})
}

// peer: E1, E2, E3, E4, E5, E6, E7, E8, E9
#[test]
fn each_kind_of_item_has_its_name() {
    assert_eq!(name(command(&json!({}))), "exec_command");
    assert_eq!(name(patch("completed", &[])), "apply_patch");
    assert_eq!(name(mcp(&json!({}))), "mcp.files.read");
    assert_eq!(name(json!({"type": "mcpToolCall"})), "mcp.unknown.unknown");
    assert_eq!(name(dynamic(&json!({}))), "look_up");
    assert_eq!(name(mcp(&json!({"server": "bridge-tools", "tool": "status"}))), "status");
    assert_eq!(name(web_search()), "web_search");
    assert_eq!(name(json!({"type": "hologram"})), "hologram");
    assert_eq!(name(json!({})), "unknown");
}

// peer: E10
#[test]
fn the_arguments_of_a_command_are_command_and_directory() {
    assert_eq!(start(&command(&json!({}))).args, json!({"command": "ls /tmp", "cwd": "/tmp"}));
}

// peer: E11
#[test]
fn the_arguments_of_a_patch_are_kinds_and_paths() {
    let item = json!({"type": "fileChange", "id": "call_2", "changes": [
        {"path": "/a.py", "kind": {"type": "add"}, "diff": "CONTENT"},
        {"path": "/b.py", "kind": "update", "diff": "CONTENT"},
    ]});
    let changes = json!([{"kind": "add", "path": "/a.py"}, {"kind": "update", "path": "/b.py"}]);
    assert_eq!(start(&item).args, json!({"changes": changes}));
}

// peer: E12, E13
#[test]
fn the_arguments_of_a_tool_are_always_an_object() {
    assert_eq!(start(&mcp(&json!({}))).args, json!({"path": "/x"}));
    assert_eq!(start(&dynamic(&json!({"arguments": ["a", "b"]}))).args, json!({"arguments": ["a", "b"]}));
    assert_eq!(start(&mcp(&json!({"arguments": null}))).args, json!({}));
}

// peer: E14
#[test]
fn the_preview_of_a_long_command_is_cut() {
    let preview = start(&command(&json!({"command": format!("echo {}", "ü".repeat(500))}))).preview.unwrap();
    assert_eq!(preview.chars().count(), 120);
    assert!(preview.starts_with("echo ü") && preview.ends_with('…'));
    assert_eq!(start(&command(&json!({}))).preview.as_deref(), Some("ls /tmp"));
}

// peer: E15, E16
#[test]
fn the_preview_of_a_patch_names_three_paths() {
    let preview = |paths: &[&str]| start(&patch("inProgress", paths)).preview;
    assert_eq!(preview(&["/p0", "/p1", "/p2", "/p3", "/p4"]).as_deref(), Some("/p0, /p1, /p2, +2 more"));
    assert_eq!(preview(&["/p0"]).as_deref(), Some("/p0"));
    assert_eq!(preview(&[]), None);
}

// peer: E17, E18
#[test]
fn the_preview_of_a_tool_is_its_arguments() {
    assert_eq!(start(&mcp(&json!({}))).preview.as_deref(), Some(r#"{"path":"/x"}"#));
    assert_eq!(start(&mcp(&json!({"arguments": {}}))).preview, None);
    assert_eq!(start(&dynamic(&json!({"arguments": null}))).preview, None);
    assert_eq!(start(&command(&json!({"command": ""}))).preview, None);
}

// peer: E19, E20, E50
#[test]
fn a_finished_command_shows_its_output_and_a_failed_one_its_exit_code() {
    let done = end(&command(&json!({})));
    assert_eq!((done.result.as_str(), done.is_error), ("hello\nworld\n", false));
    let failed =
        end(&command(&json!({"exitCode": 2, "status": "failed", "aggregatedOutput": "no such file\n"})));
    assert_eq!((failed.result.as_str(), failed.is_error), ("[exit 2]\nno such file\n", true));
}

#[test]
fn a_declined_command_is_an_error() {
    let item = command(&json!({"exitCode": null, "status": "declined", "aggregatedOutput": null}));
    assert!(end(&item).is_error);
}

// peer: E21
#[test]
fn a_patch_is_an_error_unless_it_was_applied() {
    assert!(!end(&patch("completed", &["/a"])).is_error);
    for status in ["failed", "declined", "inProgress", "puzzled"] {
        assert!(end(&patch(status, &["/a"])).is_error, "{status}");
    }
    assert!(!end(&patch("completed", &["/a"])).result.contains("CONTENT"));
}

// peer: E22
#[test]
fn an_mcp_error_is_an_error() {
    let failed = end(&mcp(&json!({"error": {"message": "nope"}, "status": "failed"})));
    assert_eq!((failed.result.as_str(), failed.is_error), (r#"[error] {"message":"nope"}"#, true));
    assert!(!end(&mcp(&json!({}))).is_error);
}

// peer: E23
#[test]
fn a_dynamic_tool_that_says_so_failed() {
    assert!(end(&dynamic(&json!({"success": false}))).is_error);
    assert!(!end(&dynamic(&json!({}))).is_error);
}

fn delta(method: &str, params: &Value) -> Vec<Display> {
    display().observe(&event(method, params), T0_MS)
}

// peer: E24
#[test]
fn text_is_shown_as_it_is_written() {
    let shown = delta("item/agentMessage/delta", &json!({"itemId": "m1", "delta": "hello "}));
    assert_eq!(shown, [Display::Text { delta: "hello ".to_owned() }]);
}

// peer: E25
#[test]
fn an_empty_piece_is_not_shown() {
    assert_eq!(delta("item/agentMessage/delta", &json!({"itemId": "m1", "delta": ""})), []);
    assert_eq!(delta("item/agentMessage/delta", &json!({"itemId": "m1"})), []);
}

// peer: E26
#[test]
fn a_piece_under_the_older_name_is_shown() {
    let shown = delta("item/agentMessage/delta", &json!({"itemId": "m1", "text": "older"}));
    assert_eq!(shown, [Display::Text { delta: "older".to_owned() }]);
}

// peer: E27
#[test]
fn reasoning_is_shown_apart_from_text() {
    for method in ["item/reasoning/textDelta", "item/reasoning/summaryTextDelta", "item/reasoning/delta"] {
        let shown = delta(method, &json!({"itemId": "r1", "delta": "thinking"}));
        assert_eq!(shown, [Display::Reasoning { delta: "thinking".to_owned() }], "{method}");
    }
}

// peer: E28, E29, E30, E31, E32, E33, E49
#[test]
fn every_tool_has_a_start_and_an_end_under_the_call_id_of_the_history() {
    let items = [command(&json!({})), patch("completed", &["/a"]), mcp(&json!({})), dynamic(&json!({}))];
    let mut display = display();
    for item in &items {
        let mut projector = Projector::new("turn-1");
        projector.complete(&Item::from_value(item.clone()));
        let shown_start = display.observe(&started(item), T0_MS);
        let shown_end = display.observe(&completed(item), T0_MS);
        let projected = projector.finish().messages;
        let [Display::ToolStarted(start)] = &shown_start[..] else { panic!("{shown_start:?}") };
        let [Display::ToolCompleted(end)] = &shown_end[..] else { panic!("{shown_end:?}") };
        let [Message::Assistant { tool_calls, .. }, Message::Tool { tool_call_id, content }] = &projected[..]
        else {
            panic!("{projected:?}")
        };
        assert_eq!((&start.call_id, &start.name), (&end.call_id, &end.name));
        assert_eq!((&start.call_id, &start.name), (&tool_calls[0].id, &tool_calls[0].function.name));
        assert_eq!((&end.call_id, &end.result), (tool_call_id, content));
        assert!(!end.is_error);
    }
    assert_eq!(end(&web_search()).call_id, start(&web_search()).call_id);
    assert_eq!(start(&web_search()).args, json!({"query": "rust docs"}));
    assert_eq!(start(&web_search()).preview.as_deref(), Some("rust docs"));
}

// peer: E34
#[test]
fn a_non_zero_exit_flags_the_live_card() {
    let mut display = display();
    display.observe(&started(&command(&json!({"status": "inProgress", "exitCode": null}))), T0_MS);
    let shown = display.observe(&completed(&command(&json!({"exitCode": 1}))), T0_MS);
    assert!(matches!(&shown[..], [Display::ToolCompleted(it)] if it.is_error));
}

// peer: E35
#[test]
fn a_duration_is_codex_own_or_as_long_as_we_saw_it_run() {
    assert_eq!(end(&command(&json!({}))).duration_ms, Some(42));
    assert_eq!(end(&command(&json!({"durationMs": null}))).duration_ms, Some(250));
    assert_eq!(end(&patch("completed", &["/a"])).duration_ms, Some(250));
    let missed_start = display().observe(&completed(&patch("completed", &["/a"])), T0_MS);
    assert!(matches!(&missed_start[..], [_, Display::ToolCompleted(it)] if it.duration_ms.is_none()));
}

// peer: E36
#[test]
fn items_that_are_no_tools_show_no_card() {
    for type_name in ["hologram", "plan", "userMessage", "reasoning", "contextCompaction", ""] {
        let item = json!({"type": type_name, "id": "i1"});
        assert_eq!(display().observe(&started(&item), T0_MS), [], "{type_name} started");
        assert_eq!(display().observe(&completed(&item), T0_MS), [], "{type_name} completed");
    }
}

fn agent_message(text: &str) -> Value {
    json!({"type": "agentMessage", "id": "m1", "text": text, "phase": "commentary"})
}

// peer: E37, E39, E40
#[test]
fn a_whole_message_is_shown_once_and_as_no_tool() {
    let mut display = display();
    let text = "I'll look at the config first.";
    assert_eq!(display.observe(&started(&agent_message("")), T0_MS), []);
    let shown = display.observe(&completed(&agent_message(text)), T0_MS);
    let whole = Display::Message {
        item_id: Some("m1".to_owned()),
        text: text.to_owned(),
        phase: Some(Phase::Commentary),
    };
    assert_eq!(shown, [whole]);
    assert_eq!(display.observe(&completed(&agent_message(text)), T0_MS), []);
}

// peer: E38
#[test]
fn a_blank_message_is_not_shown() {
    assert_eq!(display().observe(&completed(&agent_message(" \n")), T0_MS), []);
}

// peer: E41, E42, E51
#[test]
fn malformed_events_are_ignored_and_the_next_one_is_shown() {
    let mut display = display();
    for method in ["item/started", "item/completed", "item/agentMessage/delta", "item/reasoning/textDelta"] {
        assert_eq!(display.observe(&Event::parse(method, b"{}"), T0_MS), [], "{method} without parameters");
        let odd = [
            json!(null),
            json!(7),
            json!("text"),
            json!([1]),
            json!({}),
            json!({"item": null}),
            json!({"item": "text"}),
            json!({"item": {"type": 7}}),
            json!({"item": {"type": "commandExecution", "command": 7}}),
            json!({"delta": 7}),
        ];
        for params in &odd {
            assert_eq!(display.observe(&event(method, params), T0_MS), [], "{method} {params}");
        }
    }
    assert_eq!(display.observe(&started(&command(&json!({}))), T0_MS).len(), 1);
}

// peer: E45
#[test]
fn methods_that_show_nothing_are_silent() {
    let params = json!({"threadId": "t", "turnId": "u", "turn": {"id": "u"}, "thread": {"id": "t"},
        "itemId": "i", "delta": "x", "diff": "x", "message": "x", "item": command(&json!({}))});
    for method in [
        "turn/started",
        "turn/completed",
        "thread/started",
        "thread/status/changed",
        "turn/diff/updated",
        "item/commandExecution/outputDelta",
        "warning",
        "thread/compacted",
        "hologram/projected",
    ] {
        assert_eq!(delta(method, &params), [], "{method}");
    }
}

// peer: E47
#[test]
fn text_and_reasoning_keep_their_order() {
    let mut display = display();
    let mut shown = Vec::new();
    for (method, piece) in [
        ("item/reasoning/summaryTextDelta", "a"),
        ("item/agentMessage/delta", "b"),
        ("item/reasoning/textDelta", "c"),
        ("item/agentMessage/delta", "d"),
    ] {
        shown.extend(display.observe(&event(method, &json!({"itemId": "i", "delta": piece})), T0_MS));
    }
    let [text, reasoning] = [
        |delta: &str| Display::Text { delta: delta.to_owned() },
        |delta: &str| Display::Reasoning { delta: delta.to_owned() },
    ];
    assert_eq!(shown, [reasoning("a"), text("b"), reasoning("c"), text("d")]);
}

// One start has what either kind of listener needs: a progress line takes name and preview, a card takes call id
// and arguments.
// peer: E48
#[test]
fn a_start_serves_a_progress_line_and_a_card() {
    let shown = serde_json::to_value(display().observe(&started(&command(&json!({}))), T0_MS)).unwrap();
    assert_eq!(
        shown,
        json!([{
            "show": "tool_started", "call_id": "codex_exec_call_1", "name": "exec_command", "preview": "ls /tmp",
            "args": {"command": "ls /tmp", "cwd": "/tmp"},
        }])
    );
}

// peer: E53
#[test]
fn a_call_has_one_start_and_one_end_however_often_it_is_reported() {
    let mut display = display();
    let item = command(&json!({}));
    let mut shown = Vec::new();
    for event in [started(&item), started(&item), completed(&item), completed(&item), started(&item)] {
        shown.extend(display.observe(&event, T0_MS));
    }
    assert!(matches!(&shown[..], [Display::ToolStarted(_), Display::ToolCompleted(_)]), "{shown:?}");
}

#[test]
fn an_end_whose_start_was_missed_comes_with_its_start() {
    let shown = display().observe(&completed(&command(&json!({}))), T0_MS);
    let [Display::ToolStarted(start), Display::ToolCompleted(end)] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!(start.call_id, end.call_id);
}

#[test]
fn items_without_an_id_are_matched_in_order() {
    let mut display = display();
    let mut projector = Projector::new("another seed");
    display.observe(&event("turn/started", &json!({"threadId": "t", "turn": {"id": "turn-7"}})), T0_MS);
    projector.name_turn("turn-7");
    let item = command(&json!({"id": null}));
    let mut ended = Vec::new();
    for _ in 0..2 {
        let start = display.observe(&started(&item), T0_MS);
        let end = display.observe(&completed(&item), T0_MS);
        let [Display::ToolStarted(start)] = &start[..] else { panic!("{start:?}") };
        let [Display::ToolCompleted(end)] = &end[..] else { panic!("{end:?}") };
        assert_eq!(start.call_id, end.call_id);
        ended.push(end.call_id.clone());
        projector.complete(&Item::from_value(item.clone()));
    }
    let projected = projector.finish().messages.into_iter().filter_map(|message| match message {
        Message::Tool { tool_call_id, .. } => Some(tool_call_id),
        _ => None,
    });
    assert_eq!(projected.collect::<Vec<_>>(), ended);
}

#[test]
fn calls_that_the_turn_left_open_are_ended_with_it() {
    let mut display = display();
    display.observe(&started(&command(&json!({}))), T0_MS);
    let shown = display.close(T0_MS + 9);
    let [Display::ToolCompleted(end)] = &shown[..] else { panic!("{shown:?}") };
    assert_eq!((end.call_id.as_str(), end.is_error, end.duration_ms), ("codex_exec_call_1", true, Some(9)));
    assert_eq!(display.observe(&completed(&command(&json!({}))), T0_MS + 10), [], "late");
    assert_eq!(display.close(T0_MS + 11), []);
}

#[test]
fn the_mark_of_a_failed_call_is_told_apart_from_its_output() {
    let call = |is_error: bool, result: &str| ToolCompleted {
        call_id: "1".to_owned(),
        name: "exec_command".to_owned(),
        duration_ms: None,
        is_error,
        result: result.to_owned(),
    };
    for (is_error, result, failure, output) in [
        (true, "[exit 2]\n\n  no such file", Some("exit 2"), "  no such file"),
        (true, "[declined]\n", Some("declined"), ""),
        (true, "[error] \"gone\"", Some("error"), "\"gone\""),
        (true, tool::UNFINISHED, Some("unfinished"), "the turn ended before a result came"),
        (true, "[{\"type\": \"text\"}]", Some("failed"), "[{\"type\": \"text\"}]"),
        (true, "[exit soon] I said", Some("failed"), "[exit soon] I said"),
        (false, "[exit 2]\nsaid the program", None, "[exit 2]\nsaid the program"),
    ] {
        let call = call(is_error, result);
        assert_eq!((call.failure(), call.output()), (failure, output), "{result}");
    }
}
