use codex_wire::item::Item;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn item(raw: Value) -> Item {
    Item::from_value(raw)
}

/// The messages that a completed item adds.
fn added(projector: &mut Projector, item: &Item) -> Vec<Message> {
    let before = projector.projection.messages.len();
    projector.complete(item);
    projector.projection.messages[before..].to_vec()
}

/// All messages of some items, as JSON.
fn messages(items: &[Value]) -> Vec<Value> {
    project(items).messages.iter().map(|message| serde_json::to_value(message).unwrap()).collect()
}

fn project(items: &[Value]) -> Projection {
    let mut projector = Projector::new("turn-1");
    for raw in items {
        projector.complete(&item(raw.clone()));
    }
    projector.finish()
}

/// The id of the only tool call of an item.
fn call_id(raw: &Value) -> String {
    let messages = messages(std::slice::from_ref(raw));
    messages[0]["tool_calls"][0]["id"].as_str().unwrap().to_owned()
}

/// A finished command as codex 0.166 sends it.
fn captured_command() -> Value {
    json!({
        "type": "commandExecution", "id": "call_000003", "pluginId": null, "scriptPath": null,
        "command": "/bin/bash -lc 'touch made_accept.txt && echo done-accept'", "cwd": "/ws",
        "processId": "48213", "source": "unifiedExecStartup", "status": "completed",
        "commandActions": [{"type": "unknown", "command": "touch made_accept.txt && echo done-accept"}],
        "aggregatedOutput": "done-accept\n", "exitCode": 0, "durationMs": 12,
        "startedAtMs": 1_794_771_468_411_i64, "completedAtMs": 1_794_771_468_423_i64,
    })
}

fn agent_message(id: &str, text: &str, phase: Option<&str>) -> Value {
    json!({"type": "agentMessage", "id": id, "text": text, "phase": phase, "memoryCitation": null})
}

fn reasoning(id: &str, summary: &[&str], content: &[&str]) -> Value {
    json!({"type": "reasoning", "id": id, "summary": summary, "content": content})
}

// peer: P4, P5, P6
#[test]
fn a_captured_command_gives_a_tool_call_and_its_result() {
    let mut projector = Projector::new("turn-1");
    assert!(projector.complete(&item(captured_command())), "a tool call");
    let projection = projector.finish();
    let messages = serde_json::to_value(&projection.messages).unwrap();
    let arguments = r#"{"command":"/bin/bash -lc 'touch made_accept.txt && echo done-accept'","cwd":"/ws"}"#;
    assert_eq!(
        messages,
        json!([
            {"role": "assistant", "tool_calls": [{
                "id": "codex_exec_call_000003", "type": "function",
                "function": {"name": "exec_command", "arguments": arguments},
            }]},
            {"role": "tool", "tool_call_id": "codex_exec_call_000003", "content": "done-accept\n"},
        ])
    );
    assert_eq!(projection.tool_iterations, 1);
    assert_eq!(projection.final_text, None);
}

// peer: P7
#[test]
fn a_non_zero_exit_is_visible_in_the_result() {
    let mut command = captured_command();
    command["exitCode"] = json!(2);
    command["status"] = json!("failed");
    assert_eq!(messages(&[command])[1]["content"], "[exit 2]\ndone-accept\n");
}

#[test]
fn a_command_that_never_ran_says_so() {
    let mut command = captured_command();
    command["exitCode"] = Value::Null;
    command["aggregatedOutput"] = Value::Null;
    command["status"] = json!("declined");
    assert_eq!(messages(&[command])[1]["content"], "[declined]\n");
}

// peer: P8
#[test]
fn an_item_projected_twice_keeps_its_call_id() {
    assert_eq!(call_id(&captured_command()), call_id(&captured_command()));
}

#[test]
fn a_repeated_completion_adds_nothing() {
    let mut projector = Projector::new("turn-1");
    for raw in [captured_command(), agent_message("m1", "done", None)] {
        assert!(!added(&mut projector, &item(raw.clone())).is_empty());
        assert_eq!(added(&mut projector, &item(raw)), []);
    }
    let projection = projector.finish();
    assert_eq!((projection.messages.len(), projection.tool_iterations), (3, 1));
}

// peer: P9
#[test]
fn an_agent_message_is_an_assistant_message_and_the_final_text() {
    let mut projector = Projector::new("turn-1");
    let message = item(agent_message("m1", "Hello there.", None));
    assert!(!projector.complete(&message), "no tool call");
    assert_eq!(projector.final_text(), Some("Hello there."));
    let messages = serde_json::to_value(projector.finish().messages).unwrap();
    assert_eq!(messages, json!([{"role": "assistant", "content": "Hello there."}]));
}

#[test]
fn the_final_answer_wins_over_later_commentary() {
    let projection = project(&[
        agent_message("m1", "looking", Some("commentary")),
        agent_message("m2", "the answer", Some("final_answer")),
        agent_message("m3", "tidying up", Some("commentary")),
    ]);
    assert_eq!(projection.final_text.as_deref(), Some("the answer"));
    assert_eq!(projection.messages.len(), 3);
}

#[test]
fn without_a_final_answer_the_last_message_is_the_text() {
    let items = [agent_message("m1", "one", None), agent_message("m2", "two", Some("commentary"))];
    assert_eq!(project(&items).final_text.as_deref(), Some("two"));
}

#[test]
fn after_a_stream_retry_the_last_message_counts() {
    for phase in [None, Some("final_answer")] {
        let items = [agent_message("m1", "The ans", phase), agent_message("m2", "The answer is 4.", phase)];
        assert_eq!(project(&items).final_text.as_deref(), Some("The answer is 4."));
    }
}

#[test]
fn a_blank_message_is_not_said() {
    let projection = project(&[agent_message("m1", "kept", None), agent_message("m2", " \n", None)]);
    assert_eq!(projection.final_text.as_deref(), Some("kept"));
    assert_eq!(projection.messages.len(), 1);
}

// peer: P10, P11
#[test]
fn reasoning_goes_with_the_next_assistant_message_once() {
    let messages = messages(&[
        reasoning("r1", &["plan", "check"], &["raw"]),
        agent_message("m1", "first", None),
        agent_message("m2", "second", None),
    ]);
    assert_eq!(
        messages,
        [
            json!({"role": "assistant", "content": "first", "reasoning": "plan\ncheck\nraw"}),
            json!({"role": "assistant", "content": "second"}),
        ]
    );
}

#[test]
fn reasoning_before_a_tool_call_goes_with_the_call() {
    let messages =
        messages(&[reasoning("r1", &["why"], &[]), captured_command(), agent_message("m1", "done", None)]);
    assert_eq!(messages[0]["reasoning"], "why");
    assert_eq!(messages[2], json!({"role": "assistant", "content": "done"}));
}

// peer: P12
#[test]
fn a_patch_never_shows_file_content() {
    let patch = json!({
        "type": "fileChange", "id": "call_7", "status": "completed",
        "changes": [
            {"path": "/ws/new.txt", "kind": {"type": "add"}, "diff": "CONTENT-A\n"},
            {"path": "/ws/old.txt", "kind": {"type": "update", "move_path": null}, "diff": "-CONTENT-B\n"},
        ],
    });
    let messages = messages(&[patch]);
    let call = &messages[0]["tool_calls"][0];
    assert_eq!(call["id"], "codex_apply_patch_call_7");
    assert_eq!(call["function"]["name"], "apply_patch");
    assert_eq!(
        call["function"]["arguments"],
        r#"{"changes":[{"kind":"add","path":"/ws/new.txt"},{"kind":"update","path":"/ws/old.txt"}]}"#
    );
    assert_eq!(messages[1]["content"], "apply_patch status=completed, 2 change(s)");
    assert!(!json!(messages).to_string().contains("CONTENT"));
}

fn mcp(server: &str, tool: &str, id: &str) -> Value {
    json!({
        "type": "mcpToolCall", "id": id, "server": server, "tool": tool, "status": "completed",
        "arguments": {"q": 1}, "result": {"content": [{"type": "text", "text": "ok"}]}, "error": null,
    })
}

// peer: P13
#[test]
fn an_mcp_call_is_named_by_server_and_tool() {
    let messages = messages(&[mcp("files", "read_file", "call_7")]);
    let call = &messages[0]["tool_calls"][0];
    assert_eq!(call["id"], "codex_mcp__files__read_file_call_7");
    assert_eq!(call["function"]["name"], "mcp.files.read_file");
    assert_eq!(messages[1]["content"], r#"{"content":[{"text":"ok","type":"text"}]}"#);
}

// peer: P14
#[test]
fn an_mcp_error_is_shown() {
    let mut call = mcp("files", "read", "call_7");
    call["error"] = json!({"message": "no such file"});
    assert_eq!(messages(&[call])[1]["content"], r#"[error] {"message":"no such file"}"#);
}

#[test]
fn long_results_are_cut_on_a_character() {
    let mut call = mcp("files", "read", "call_7");
    call["result"] = json!({"text": "ä".repeat(5000)});
    let content = messages(std::slice::from_ref(&call))[1]["content"].as_str().unwrap().to_owned();
    assert_eq!(content.chars().count(), 4000);
    assert!(content.ends_with("ä…"));

    call["error"] = json!({"message": "ö".repeat(5000)});
    let content = messages(&[call])[1]["content"].as_str().unwrap().to_owned();
    assert_eq!(content.chars().count(), "[error] ".len() + 1000);
    assert!(content.ends_with("ö…"));
}

#[test]
fn a_secret_is_not_cut_in_half() {
    let secret = format!("sk-{}", "a1B2".repeat(12));
    for padding in 3940..4010 {
        let mut call = mcp("files", "read", "call_7");
        call["result"] = json!({"text": format!("{} {secret} {}", "x".repeat(padding), "y".repeat(200))});
        let content = messages(&[call])[1]["content"].as_str().unwrap().to_owned();
        assert!(!content.contains("a1B2a1B2a1B2"), "a piece of the secret is left at {padding}");
    }
}

#[test]
fn a_secret_that_only_the_program_knows_is_not_cut_in_half() {
    let mut call = mcp("files", "read", "call_7");
    call["result"] = json!({"text": format!("{}correct-horse-battery{}", "x".repeat(3980), "y".repeat(200))});
    let mut projector = Projector::new("turn-1").with_redactor(Redactor::knowing(["correct-horse-battery"]));
    projector.complete(&item(call));
    let messages = serde_json::to_string(&projector.finish().messages).unwrap();
    assert!(!messages.contains("correct"), "{messages}");
}

#[test]
fn a_dynamic_call_gives_its_content_or_its_success() {
    let mut call = json!({
        "type": "dynamicToolCall", "id": "call_7", "tool": "look_up", "namespace": null, "status": "completed",
        "arguments": ["a", "b"], "contentItems": [{"type": "inputText", "text": "found"}], "success": true,
    });
    let shown = messages(std::slice::from_ref(&call));
    assert_eq!(shown[0]["tool_calls"][0]["id"], "codex_dyn_look_up_call_7");
    assert_eq!(shown[0]["tool_calls"][0]["function"]["name"], "look_up");
    assert_eq!(shown[0]["tool_calls"][0]["function"]["arguments"], r#"{"arguments":["a","b"]}"#);
    assert_eq!(shown[1]["content"], r#"[{"text":"found","type":"inputText"}]"#);

    call["contentItems"] = Value::Null;
    assert_eq!(messages(&[call])[1]["content"], "success=true");
}

// peer: P15
#[test]
fn a_user_message_keeps_its_text_parts_only() {
    let message = json!({"type": "userMessage", "id": "u1", "clientId": null, "content": [
        {"type": "text", "text": "look at this", "text_elements": []},
        {"type": "localImage", "path": "/ws/x.png"},
        {"type": "text", "text": "and that"},
    ]});
    assert_eq!(messages(&[message]), [json!({"role": "user", "content": "look at this\nand that"})]);
}

// peer: P16
#[test]
fn an_item_that_is_no_message_is_kept_typed_and_never_becomes_prose() {
    let raw = json!({"type": "hologram", "id": "h1", "beam": {"colour": "red"}});
    let mut projector = Projector::new("turn-1");
    assert!(!projector.complete(&item(raw.clone())), "no tool call");
    projector.complete(&item(json!({"type": "plan", "id": "p1", "text": "1. look"})));
    projector.complete(&item(json!({"type": "webSearch", "id": "w1", "query": "rust"})));
    let projection = projector.finish();
    assert_eq!(projection.messages, []);
    assert_eq!(projection.tool_iterations, 0);
    let kept: Vec<_> = projection.opaque.iter().map(|it| it.type_name.as_str()).collect();
    assert_eq!(kept, ["hologram", "plan", "webSearch"]);
    assert_eq!(
        serde_json::to_value(&projection.opaque[0]).unwrap(),
        json!({"type_name": "hologram", "item": raw})
    );
}

#[test]
fn a_tool_item_that_cannot_be_read_gives_no_invented_call() {
    let projection = project(&[json!({"type": "commandExecution", "id": "c1", "command": ["ls"]})]);
    assert_eq!(projection.messages, []);
    assert_eq!(projection.opaque[0].type_name, "commandExecution");
}

// peer: P17
#[test]
fn call_ids_depend_on_the_item_alone() {
    let alone = call_id(&mcp("files", "read", "call_9"));
    let after_others = messages(&[captured_command(), mcp("files", "read", "call_9")]);
    assert_eq!(after_others[2]["tool_calls"][0]["id"], json!(alone));
}

// peer: P18
#[test]
fn items_without_an_id_get_ids_that_do_not_collide() {
    let nameless = |type_name: &str| json!({"type": type_name, "command": "ls", "server": "s", "tool": "t"});
    let items = [
        "commandExecution",
        "commandExecution",
        "fileChange",
        "mcpToolCall",
        "mcpToolCall",
        "dynamicToolCall",
    ];
    let items: Vec<_> = items.into_iter().map(nameless).chain([captured_command()]).collect();
    let ids = |projection: &Projection| -> Vec<String> {
        let tool_ids = projection.messages.iter().filter_map(|message| match message {
            Message::Tool { tool_call_id, .. } => Some(tool_call_id.clone()),
            _ => None,
        });
        tool_ids.collect()
    };
    let first = ids(&project(&items));
    assert_eq!(first.len(), 7);
    assert_eq!(first.iter().collect::<HashSet<_>>().len(), 7, "{first:?}");
    assert_eq!(first, ids(&project(&items)), "a replay gives other ids");
    assert!(first.iter().all(|id| id.starts_with("codex_")));
}

// peer: P19
#[test]
fn arguments_have_sorted_keys_and_keep_what_is_not_ascii() {
    let mut call = mcp("files", "read", "call_7");
    call["arguments"] = json!({"zeta": 1, "alpha": {"y": "grün", "b": [{"d": 1, "c": 2}]}});
    let arguments = &messages(&[call])[0]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(arguments, r#"{"alpha":{"b":[{"c":2,"d":1}],"y":"grün"},"zeta":1}"#);
}

// peer: P20, S12
#[test]
fn tool_items_give_assistant_then_tool() {
    let mut second = captured_command();
    second["id"] = json!("call_000004");
    let projection = project(&[captured_command(), second, agent_message("m1", "done", None)]);
    let roles: Vec<_> = projection
        .messages
        .iter()
        .map(|message| serde_json::to_value(message).unwrap()["role"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(roles, ["assistant", "tool", "assistant", "tool", "assistant"]);
    assert_eq!(projection.tool_iterations, 2);
    assert_eq!(projection.final_text.as_deref(), Some("done"));
}

// peer: P21
#[test]
fn a_compaction_gives_no_message_but_is_noted() {
    let projection = project(&[json!({"type": "contextCompaction", "id": "c1"})]);
    assert!(projection.compacted);
    assert_eq!((projection.messages.len(), projection.opaque.len()), (0, 0));
    assert!(!project(&[captured_command()]).compacted);
}

fn user_message(id: &str, client_id: Option<&str>, text: &str) -> Item {
    item(
        json!({"type": "userMessage", "id": id, "clientId": client_id, "content": [{"type": "text", "text": text}]}),
    )
}

// peer: P22
#[test]
fn the_echo_of_what_we_submitted_is_not_a_second_user_message() {
    let mut projector = Projector::new("turn-1");
    projector.submitted(Echo { client_id: Some("ours-1".to_owned()), text: "fix it".to_owned() });
    projector.submitted(Echo { client_id: None, text: "and test it".to_owned() });
    assert_eq!(added(&mut projector, &user_message("u1", Some("ours-1"), "fix it")), []);
    assert_eq!(added(&mut projector, &user_message("u2", None, "and test it\n")), []);
    let steer = user_message("u3", Some("theirs"), "fix it");
    assert_eq!(added(&mut projector, &steer), [Message::User { content: "fix it".to_owned() }]);
    let repeat = user_message("u4", None, "and test it");
    assert_eq!(added(&mut projector, &repeat).len(), 1, "said again by someone else");
}

#[test]
fn a_server_that_does_not_show_client_ids_is_known_by_the_text() {
    let mut projector = Projector::new("turn-1");
    projector.submitted(Echo { client_id: Some("ours-1".to_owned()), text: "fix it".to_owned() });
    assert_eq!(added(&mut projector, &user_message("u1", None, "fix it")), []);
}

#[test]
fn names_that_could_be_read_in_two_ways_do_not_collide() {
    let pairs = [
        (mcp("a__b", "c", "call_1"), mcp("a", "b__c", "call_1")),
        (mcp("a", "read", "file_call_1"), mcp("a", "read_file", "call_1")),
        (mcp("a", "my", "call_5"), mcp("a", "my_call", "5")),
        (mcp("a_", "b", "call_1"), mcp("a", "_b", "call_1")),
        (mcp("", "b", "call_1"), mcp("_", "b", "call_1")),
        (mcp("a", "", "call_1"), mcp("a_", "", "call_1")),
    ];
    for (one, other) in pairs {
        assert_ne!(call_id(&one), call_id(&other));
    }
}

#[test]
fn side_effects_are_told_in_one_line_each() {
    let mut declined = captured_command();
    declined["id"] = json!("call_2");
    declined["status"] = json!("declined");
    let patch = json!({"type": "fileChange", "id": "call_3", "status": "completed", "changes": [
        {"path": "a.txt", "kind": {"type": "add"}, "diff": "x"},
        {"path": "b.txt", "kind": {"type": "update"}, "diff": "y"},
    ]});
    let command = json!({"type": "commandExecution", "id": "call_1", "command": "touch x", "exitCode": 0});
    let running =
        json!({"type": "commandExecution", "id": "call_5", "command": "make", "status": "inProgress"});
    let mut projector = Projector::new("turn-1");
    projector.start(&item(command.clone()));
    projector.start(&item(running));
    for raw in [command, declined, patch, mcp("files", "read", "call_4")] {
        projector.complete(&item(raw));
    }
    assert_eq!(
        projector.finish().side_effects,
        [
            "ran: touch x (exit 0)",
            "changed: a.txt (add)",
            "changed: b.txt (update)",
            "called: mcp.files.read",
            "may have run: make",
        ]
    );
}

proptest! {
    #[test]
    fn different_calls_never_share_an_id(
        one in ("[ab_-]{0,4}", "([ab_-]|call|tool){0,4}", "([ab_1-]|call|item){1,4}"),
        other in ("[ab_-]{0,4}", "([ab_-]|call|tool){0,4}", "([ab_1-]|call|item){1,4}"),
    ) {
        let mcp_id = |(server, tool, id): &(String, String, String)| call_id(&mcp(server, tool, id));
        prop_assert_eq!(one == other, mcp_id(&one) == mcp_id(&other));
        let dynamic_id = |(_, tool, id): &(String, String, String)| {
            call_id(&json!({"type": "dynamicToolCall", "id": id, "tool": tool}))
        };
        let is_same = (&one.1, &one.2) == (&other.1, &other.2);
        prop_assert_eq!(is_same, dynamic_id(&one) == dynamic_id(&other));
    }

    #[test]
    fn no_json_makes_the_projector_fail(type_name in "[a-zA-Z]{0,20}", text in ".{0,40}", number in any::<i64>()) {
        for type_name in [&*type_name, "agentMessage", "commandExecution", "fileChange", "mcpToolCall", "userMessage"] {
            project(&[
                json!({"type": type_name, "id": text, "text": text, "command": text, "exitCode": number}),
                json!({"type": type_name, "id": number, "changes": [text], "content": text, "error": number}),
                json!({"type": type_name, "arguments": text, "changes": {"a": number}}),
            ]);
        }
    }
}
