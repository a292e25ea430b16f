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

#[test]
fn a_call_that_is_over_does_not_speak_for_a_later_one_with_its_id() {
    check(&[plain("c"), output("c")], Escalation::Unknown);
    check(&[plain("c"), output("c"), escalated("c")], Escalation::Asked);
    check(&[escalated("c"), output("c"), plain("c")], Escalation::None);
    check(&[escalated("c"), plain("c")], Escalation::Asked);
    check(&[plain("c"), escalated("c")], Escalation::Asked);
}

#[test]
fn a_call_is_found_behind_long_outputs_up_to_a_bound() {
    let long =
        |bytes: usize| json!({"type": "response_item", "payload": {"output": "x".repeat(bytes)}}).to_string();
    check(&[escalated("c"), long(300 * 1024)], Escalation::Asked);
    check(&[long(300 * 1024), plain("c")], Escalation::None);
    check(&[plain("c"), long(5 * 1024 * 1024)], Escalation::None);
    check(&[plain("c"), long(33 * 1024 * 1024)], Escalation::Unknown);
    // The line itself may be longer than the first windows.
    let command = json!({"cmd": "x".repeat(5 * 1024 * 1024), "sandbox_permissions": "require_escalated"});
    check(&[call("c", &command.to_string())], Escalation::Asked);
}
