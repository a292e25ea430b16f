use super::*;
use crate::request::{
    CommandApproval, DynamicToolCall, ElicitationRequest, FileChangeApproval, FileSystemPermissions,
    NetworkPermissions, PermissionsApproval, UserInputRequest,
};

#[track_caller]
fn check(answer: Answer, expected: Value) {
    assert_eq!(answer.into_reply(), Ok(expected));
}

#[test]
fn command_and_file_decisions_have_their_four_words() {
    for (verdict, word) in [
        (Verdict::Accept, "accept"),
        (Verdict::AcceptForSession, "acceptForSession"),
        (Verdict::Decline, "decline"),
        (Verdict::Cancel, "cancel"),
    ] {
        check(Answer::Command(CommandDecision::Plain(verdict)), json!({"decision": word}));
        check(Answer::FileChange(verdict), json!({"decision": word}));
    }
}

#[test]
fn an_amendment_carries_its_prefix() {
    let amendment = CommandDecision::AmendExecpolicy(vec!["git".into(), "status".into()]);
    let expected =
        json!({"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["git", "status"]}}});
    check(Answer::Command(amendment), expected);
}

#[test]
fn a_grant_says_what_and_for_how_long() {
    let granted = Permissions {
        file_system: Some(FileSystemPermissions { write: Some(vec!["/p".into()]), ..Default::default() }),
        network: Some(NetworkPermissions { enabled: Some(true) }),
    };
    let expected = json!({"permissions": {"fileSystem": {"write": ["/p"]}, "network": {"enabled": true}}, "scope": "turn"});
    check(Answer::Permissions { granted, scope: GrantScope::Turn }, expected);
}

// peer: L8
#[test]
fn a_denial_of_permissions_is_exactly_the_empty_grant() {
    for scope in [GrantScope::Turn, GrantScope::Session] {
        check(Answer::Permissions { granted: Permissions::default(), scope }, json!({"permissions": {}}));
    }
}

#[test]
fn questions_are_answered_by_id() {
    let answers = BTreeMap::from([("q1".to_owned(), vec!["Yes".to_owned(), "but".to_owned()])]);
    check(Answer::UserInput(answers), json!({"answers": {"q1": {"answers": ["Yes", "but"]}}}));
}

#[test]
fn elicitations_are_answered_with_all_three_members() {
    let meta = Some(json!({"persist": "session"}));
    let accept =
        Answer::Elicitation { action: ElicitationAction::Accept, content: Some(json!({"a": 1})), meta };
    check(accept, json!({"action": "accept", "content": {"a": 1}, "_meta": {"persist": "session"}}));
    let cancel = Answer::Elicitation { action: ElicitationAction::Cancel, content: None, meta: None };
    check(cancel, json!({"action": "cancel", "content": null, "_meta": null}));
}

#[test]
fn a_tool_call_has_its_shape() {
    let tool = Answer::ToolCall { text: "42".into(), success: true };
    check(tool, json!({"contentItems": [{"type": "inputText", "text": "42"}], "success": true}));
}

#[test]
fn a_refusal_is_an_error_without_data() {
    let error = Answer::unknown_method("test/unknown").into_reply().unwrap_err();
    let expected = json!({"code": METHOD_NOT_FOUND, "message": "unsupported request test/unknown"});
    assert_eq!(serde_json::to_value(&error).unwrap(), expected);
    assert_eq!(error.to_string(), "unsupported request test/unknown (code -32601)");
}

#[test]
fn when_nobody_can_decide_the_answer_is_no() {
    let decline = json!({"decision": "decline"});
    for (request, expected) in [
        (ServerRequest::Command(CommandApproval::default()), decline.clone()),
        (ServerRequest::FileChange(FileChangeApproval::default()), decline),
        (ServerRequest::Permissions(PermissionsApproval::default()), json!({"permissions": {}})),
        (ServerRequest::UserInput(UserInputRequest::default()), json!({"answers": {}})),
        (
            ServerRequest::Elicitation(ElicitationRequest::default()),
            json!({"action": "decline", "content": null, "_meta": null}),
        ),
    ] {
        assert_eq!(Answer::fail_closed(&request).into_reply(), Ok(expected), "{request:?}");
    }
    let call = DynamicToolCall { tool: "lookup".into(), ..Default::default() };
    let reply = Answer::fail_closed(&ServerRequest::ToolCall(call)).into_reply().unwrap();
    assert_eq!(reply["success"], false);
    let unknown = ServerRequest::Unknown { method: "m".into(), params: Value::Null };
    assert_eq!(Answer::fail_closed(&unknown).into_reply().unwrap_err().code, METHOD_NOT_FOUND);
    // An error would fail the turn.
    let reply = Answer::fail_closed(&ServerRequest::CurrentTime).into_reply().unwrap();
    assert!(reply["currentTimeAt"].as_i64().unwrap() > 1_700_000_000);
}

#[test]
fn an_error_keeps_its_data() {
    let line =
        r#"{"code":-32600,"data":{"type":"modelProviderMismatch","modelProvider":"fake0"},"message":"no"}"#;
    let error: RpcError = serde_json::from_str(line).unwrap();
    assert_eq!(error.data.unwrap()["modelProvider"], "fake0");
    let bare: RpcError = serde_json::from_str(r#"{"code":1}"#).unwrap();
    assert_eq!((bare.message.as_str(), bare.data), ("", None));
}
