use serde_json::json;

use super::*;

/// A command approval as codex 0.166 sends it.
fn captured_command() -> Value {
    json!({
        "kind": "command", "threadId": "t", "turnId": "u", "itemId": "call_000003", "startedAtMs": 1_794_771_468_411_i64,
        "environmentId": "local", "command": "/bin/bash -lc 'touch x'", "cwd": "/ws",
        "commandActions": [{"type": "unknown", "command": "touch x"}],
        "proposedExecpolicyAmendment": ["touch", "x"],
        "availableDecisions": ["accept", {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch", "x"]}}, "cancel"],
    })
}

#[test]
fn a_captured_command_approval_is_read() {
    let request = ServerRequest::parse(method::COMMAND, captured_command());
    let ServerRequest::Command(command) = &request else { panic!("{request:?}") };
    assert_eq!(command.command.as_deref(), Some("/bin/bash -lc 'touch x'"));
    assert_eq!((command.kind.as_deref(), command.cwd.as_deref()), (Some("command"), Some("/ws")));
    assert_eq!(
        command.proposed_execpolicy_amendment.as_deref(),
        Some(&["touch".to_owned(), "x".to_owned()][..])
    );
    assert_eq!(command.available_decisions.as_ref().unwrap().len(), 3);
    assert_eq!((request.thread_id(), request.turn_id()), (Some("t".into()), Some("u".into())));
    assert!(request.is_for_a_person());
}

#[test]
fn a_captured_file_approval_is_read() {
    let params = json!({"threadId": "t", "turnId": "u", "itemId": "call_000003", "startedAtMs": 1, "reason": null,
        "grantRoot": null});
    let request = ServerRequest::parse(method::FILE_CHANGE, params);
    let ServerRequest::FileChange(change) = &request else { panic!("{request:?}") };
    assert_eq!((change.item_id.as_str(), &change.reason, &change.grant_root), ("call_000003", &None, &None));
}

#[test]
fn captured_permissions_are_read_and_granted_as_they_came() {
    let asked = json!({"network": {"enabled": true}, "fileSystem": {"write": ["/p"],
        "entries": [{"path": {"type": "path", "path": "/p"}, "access": "write"}]}});
    let mut captured = asked.clone();
    captured["fileSystem"]["read"] = Value::Null;
    let params = json!({"threadId": "t", "turnId": "u", "itemId": "i", "cwd": "/ws", "reason": "why",
        "environmentId": "local", "permissions": captured});
    let ServerRequest::Permissions(approval) = ServerRequest::parse(method::PERMISSIONS, params) else {
        panic!("not read")
    };
    assert_eq!(serde_json::to_value(&approval.permissions).unwrap(), asked);
}

#[test]
fn captured_questions_are_read() {
    let params = json!({"threadId": "t", "turnId": "u", "itemId": "i", "isBlocking": true, "autoResolutionMs": null,
    "questions": [
        {"id": "q1", "header": "H", "question": "Really?", "isOther": true, "isSecret": false,
         "options": [{"label": "Yes", "description": "do it"}]},
        {"id": "q2", "header": "", "question": "Key?", "isOther": false, "isSecret": true, "options": null},
    ]});
    let ServerRequest::UserInput(asked) = ServerRequest::parse(method::USER_INPUT, params) else {
        panic!("not read")
    };
    assert_eq!(asked.questions[0].options.as_ref().unwrap()[0].label, "Yes");
    assert!(asked.questions[1].is_secret && asked.questions[1].options.is_none());
}

#[test]
fn a_captured_tool_approval_is_told_from_a_form() {
    let form = json!({"threadId": "t", "turnId": null, "serverName": "s", "mode": "form", "_meta": null, "message": "m",
        "requestedSchema": {"type": "object"}});
    let request = ServerRequest::parse(method::ELICITATION, form.clone());
    assert_eq!((request.thread_id(), request.turn_id()), (Some("t".into()), None));
    let ServerRequest::Elicitation(asked) = request else { panic!("not read") };
    assert!(!asked.is_tool_approval());
    let mut approval = form;
    approval["_meta"] = json!({"codex_approval_kind": "mcp_tool_call", "persist": ["session", "always"]});
    let ServerRequest::Elicitation(asked) = ServerRequest::parse(method::ELICITATION, approval) else {
        panic!("not read")
    };
    assert!(asked.is_tool_approval());
}

#[test]
fn requests_of_programs_are_read_and_not_for_people() {
    let call = json!({"threadId": "t", "turnId": "u", "callId": "c", "namespace": null, "tool": "lookup",
        "arguments": {"text": "x"}});
    let request = ServerRequest::parse(method::TOOL_CALL, call);
    assert_eq!(request.thread_id(), Some("t".into()));
    for request in [request, ServerRequest::parse(method::CURRENT_TIME, json!({"threadId": "t"}))] {
        assert!(!matches!(request, ServerRequest::Unknown { .. }), "{request:?}");
        assert!(!request.is_for_a_person(), "{request:?}");
    }
}

#[test]
fn unknown_fields_and_values_are_no_fault() {
    let mut params = captured_command();
    params["mood"] = json!({"deep": [1]});
    params["kind"] = json!("telepathy");
    params["availableDecisions"] = json!([{"acceptForEver": {}}]);
    let request = ServerRequest::parse(method::COMMAND, params);
    assert!(matches!(request, ServerRequest::Command(_)), "{request:?}");
}

#[test]
fn what_cannot_be_read_is_kept_as_unknown() {
    for (method, params) in [
        ("test/unknown", json!({"threadId": "t"})),
        (method::COMMAND, json!("x")),
        (method::COMMAND, json!({"command": 5})),
        (method::FILE_CHANGE, Value::Null),
        (method::PERMISSIONS, json!({"permissions": 5})),
        (method::USER_INPUT, json!({"questions": {}})),
    ] {
        let request = ServerRequest::parse(method, params.clone());
        assert_eq!(request, ServerRequest::Unknown { method: method.into(), params });
        assert_eq!((request.method(), request.thread_id(), request.turn_id()), (method, None, None));
        assert!(!request.is_for_a_person());
    }
}

#[test]
fn every_request_names_the_method_that_it_came_under() {
    for name in [
        method::COMMAND,
        method::FILE_CHANGE,
        method::PERMISSIONS,
        method::USER_INPUT,
        method::ELICITATION,
        method::TOOL_CALL,
        method::CURRENT_TIME,
    ] {
        let request = ServerRequest::parse(name, json!({}));
        assert!(!matches!(request, ServerRequest::Unknown { .. }), "{name}");
        assert_eq!(request.method(), name);
        assert_eq!((request.thread_id(), request.turn_id()), (None, None), "{name}");
    }
}

#[test]
fn a_decision_is_bound_to_fields_that_are_not_known_and_not_to_the_time() {
    for name in [method::COMMAND, method::FILE_CHANGE, method::PERMISSIONS] {
        let digest = |params| ServerRequest::parse(name, params).digest(None);
        let plain = digest(json!({"itemId": "i", "startedAtMs": 1}));
        assert_eq!(plain, digest(json!({"itemId": "i", "startedAtMs": 2})), "{name}");
        assert_ne!(plain, digest(json!({"itemId": "i", "startedAtMs": 1, "alsoRuns": "rm -r ."})), "{name}");
    }
}
