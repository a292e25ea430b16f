use std::io::Write;

use serde_json::json;

use super::*;

fn call(id: &str, arguments: &str) -> String {
    let payload =
        json!({"type": "function_call", "name": "exec_command", "call_id": id, "arguments": arguments});
    json!({"type": "response_item", "ordinal": 7, "payload": payload}).to_string()
}

fn output(id: &str) -> String {
    let payload = json!({"type": "function_call_output", "call_id": id, "output": "done"});
    json!({"type": "response_item", "payload": payload}).to_string()
}

fn escalated(id: &str) -> String {
    call(id, r#"{"cmd":"ls","sandbox_permissions":"require_escalated"}"#)
}

fn plain(id: &str) -> String {
    call(id, r#"{"cmd":"ls"}"#)
}

/// A file with these lines.
fn rollout(lines: &[String]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    for line in lines {
        writeln!(file, "{line}").unwrap();
    }
    file
}

#[track_caller]
fn check(lines: &[String], expected: Escalation) {
    assert_eq!(Escalation::of_call(rollout(lines).path(), "c"), expected, "{lines:#?}");
}

#[test]
fn the_arguments_of_the_call_tell() {
    for (arguments, expected) in [
        (r#"{"cmd":"ls"}"#, Escalation::None),
        (r#"{"cmd":"echo require_escalated"}"#, Escalation::None),
        (r#"{"cmd":"ls","sandbox_permissions":null}"#, Escalation::None),
        (r#"{"cmd":"ls","sandbox_permissions":"use_default"}"#, Escalation::None),
        (r#"{"cmd":"ls","sandbox_permissions":"require_escalated"}"#, Escalation::Asked),
        (r#"{"cmd":"ls","sandbox_permissions":"with_additional_permissions"}"#, Escalation::Asked),
        (r#"{"cmd":"ls","sandbox_permissions":"a word of a later Codex"}"#, Escalation::Asked),
        (r#"{"cmd":"ls","additional_permissions":{"network":{"enabled":true}}}"#, Escalation::Asked),
        (r#"{"cmd":"ls","with_escalated_permissions":true}"#, Escalation::Asked),
        (r#"{"cmd":"ls""#, Escalation::Unknown),
        ("[]", Escalation::Unknown),
    ] {
        check(&[call("c", arguments)], expected);
    }
}

#[test]
fn what_is_not_found_is_unknown() {
    check(&[], Escalation::Unknown);
    check(&[plain("d"), plain("cc")], Escalation::Unknown);
    check(&["no json: c".to_owned()], Escalation::Unknown);
    // A line about the call is not the call.
    let item = json!({"type": "event_msg", "payload": {"type": "item_started", "call_id": "c", "item": {"id": "c"}}});
    check(&[item.to_string()], Escalation::Unknown);
    // Nor is a call of another shape one that we can read.
    let custom = json!({"type": "response_item", "payload": {"type": "custom_tool_call", "call_id": "c", "input": "x"}});
    check(&[custom.to_string()], Escalation::Unknown);
    assert_eq!(Escalation::of_call(Path::new("/nowhere/rollout.jsonl"), "c"), Escalation::Unknown);
    assert_eq!(Escalation::of_call(Path::new("/tmp"), "c"), Escalation::Unknown);
    assert_eq!(Escalation::of_call(rollout(&[plain("")]).path(), ""), Escalation::Unknown);
}

#[test]
fn a_call_in_a_text_is_no_call() {
    let said = json!({"type": "response_item", "payload": {"type": "message", "call_id": "d", "content": plain("c")}});
    check(&[said.to_string(), escalated("c")], Escalation::Asked);
    check(&[escalated("c"), said.to_string()], Escalation::Asked);
    check(&[said.to_string()], Escalation::Unknown);
}

fn turn_begins() -> String {
    json!({"type": "event_msg", "payload": {"type": "task_started", "turn_id": "t"}}).to_string()
}

#[test]
fn only_the_last_turn_tells() {
    check(&[plain("c"), output("c"), turn_begins(), escalated("c")], Escalation::Asked);
    check(&[escalated("c"), output("c"), turn_begins(), plain("c")], Escalation::None);
    check(&[plain("c"), turn_begins()], Escalation::Unknown);
    // A turn begins where Codex says so, and not where a model does.
    let said = json!({"type": "response_item", "payload": {"type": "message", "content": turn_begins()}});
    check(&[escalated("c"), said.to_string()], Escalation::Asked);
}

#[test]
fn an_id_that_stands_twice_in_a_turn_tells_nothing() {
    let plan = json!({"type": "function_call", "name": "update_plan", "call_id": "c", "arguments": "{}"});
    let plan = json!({"type": "response_item", "payload": plan}).to_string();
    let large = json!({"cmd": "x".repeat(300 * 1024), "sandbox_permissions": "require_escalated"});
    for lines in [
        vec![plain("c"), output("c")],
        vec![escalated("c"), output("c"), plan.clone()],
        vec![escalated("c"), plain("c")],
        vec![call("c", &large.to_string()), plan.clone()],
        vec![plan],
    ] {
        check(&lines, Escalation::Unknown);
        check(&[vec![turn_begins()], lines].concat(), Escalation::Unknown);
    }
}

#[test]
fn a_call_is_found_behind_long_outputs_up_to_a_bound() {
    let long =
        |bytes: usize| json!({"type": "response_item", "payload": {"output": "x".repeat(bytes)}}).to_string();
    check(&[turn_begins(), escalated("c"), long(300 * 1024)], Escalation::Asked);
    check(&[escalated("c"), long(300 * 1024)], Escalation::Asked);
    check(&[long(300 * 1024), plain("c")], Escalation::None);
    check(&[plain("c"), long(5 * 1024 * 1024)], Escalation::None);
    check(&[plain("c"), long(33 * 1024 * 1024)], Escalation::Unknown);
    // The line itself may be longer than the first windows.
    let command = json!({"cmd": "x".repeat(5 * 1024 * 1024), "sandbox_permissions": "require_escalated"});
    check(&[call("c", &command.to_string())], Escalation::Asked);
}
