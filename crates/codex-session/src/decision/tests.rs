use codex_wire::request::{CommandApproval, ElicitationRequest, FileChangeApproval, NetworkPermissions};

use super::*;

fn reply(request: &ServerRequest, decision: &Decision) -> Value {
    answer(request, decision, false).into_reply().unwrap()
}

fn command() -> ServerRequest {
    ServerRequest::Command(CommandApproval {
        proposed_execpolicy_amendment: Some(vec!["touch".to_owned()]),
        ..CommandApproval::default()
    })
}

// peer: S1
#[test]
fn choices_that_people_type_become_decisions() {
    for (typed, decision) in [
        ("once", Decision::Accept),
        ("session", Decision::AcceptForSession),
        ("always", Decision::AcceptForSession),
        (" Session ", Decision::AcceptForSession),
        ("deny", Decision::Decline),
        ("timeout", Decision::Decline),
        ("", Decision::Decline),
        ("cancel", Decision::Cancel),
    ] {
        assert_eq!(typed.parse(), Ok(decision), "{typed:?}");
    }
}

#[test]
fn commands_and_file_changes_know_four_decisions() {
    for request in [command(), ServerRequest::FileChange(FileChangeApproval::default())] {
        for (decision, word) in [
            (Decision::Accept, "accept"),
            (Decision::AcceptForSession, "acceptForSession"),
            (Decision::AcceptAlways, "accept"),
            (Decision::Decline, "decline"),
            (Decision::Cancel, "cancel"),
            (Decision::Form(json!({})), "decline"),
        ] {
            assert_eq!(reply(&request, &decision), json!({ "decision": word }));
        }
    }
}

#[test]
fn a_rule_for_good_is_written_only_if_the_operator_allows_it() {
    let allowed = answer(&command(), &Decision::AcceptAlways, true).into_reply().unwrap();
    assert_eq!(
        allowed,
        json!({"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": ["touch"]}}})
    );
}

// peer: L8
#[test]
fn permissions_are_granted_as_asked_at_most_and_denied_in_one_shape() {
    let request = ServerRequest::Permissions(PermissionsApproval {
        permissions: Permissions {
            network: Some(NetworkPermissions { enabled: Some(true) }),
            file_system: Some(FileSystemPermissions {
                write: Some(vec!["/a".to_owned(), "/b".to_owned()]),
                ..FileSystemPermissions::default()
            }),
        },
        ..PermissionsApproval::default()
    });
    assert_eq!(reply(&request, &Decision::Decline), json!({"permissions": {}}));
    let wider = Decision::Grant {
        permissions: Permissions {
            network: None,
            file_system: Some(FileSystemPermissions {
                write: Some(vec!["/b".to_owned(), "/".to_owned()]),
                ..FileSystemPermissions::default()
            }),
        },
        scope: GrantScope::Session,
    };
    let granted = json!({"permissions": {"fileSystem": {"write": ["/b"]}}, "scope": "session"});
    assert_eq!(reply(&request, &wider), granted);
    let all = json!({
        "permissions": {"fileSystem": {"write": ["/a", "/b"]}, "network": {"enabled": true}}, "scope": "turn",
    });
    assert_eq!(reply(&request, &Decision::Accept), all);
}

#[test]
fn what_was_typed_does_not_leave_with_the_decision() {
    let typed = BTreeMap::from([("q1".to_owned(), vec!["hunter2".to_owned()])]);
    assert_eq!(Decision::Answers(typed).without_answers(), Decision::Answers(BTreeMap::new()));
    assert_eq!(Decision::Form(json!({"pin": 1234})).without_answers(), Decision::Form(Value::Null));
    assert_eq!(Decision::AcceptForSession.without_answers(), Decision::AcceptForSession);
}

#[test]
fn questions_are_answered_by_id() {
    let request = ServerRequest::UserInput(codex_wire::request::UserInputRequest::default());
    let answers = Decision::Answers(BTreeMap::from([("q1".to_owned(), vec!["Yes".to_owned()])]));
    assert_eq!(reply(&request, &answers), json!({"answers": {"q1": {"answers": ["Yes"]}}}));
    assert_eq!(reply(&request, &Decision::Decline), json!({"answers": {}}));
}

#[test]
fn elicitations_have_a_shape_of_their_own() {
    let mut asked = ElicitationRequest::default();
    let shape = |action: &str, content: Value, meta: Value| json!({"action": action, "content": content, "_meta": meta});
    let request = ServerRequest::Elicitation(asked.clone());
    assert_eq!(reply(&request, &Decision::Accept), shape("accept", Value::Null, Value::Null));
    assert_eq!(reply(&request, &Decision::Decline), shape("decline", Value::Null, Value::Null));
    assert_eq!(reply(&request, &Decision::Cancel), shape("cancel", Value::Null, Value::Null));
    assert_eq!(
        reply(&request, &Decision::Form(json!({"a": 1}))),
        shape("accept", json!({"a": 1}), Value::Null)
    );
    asked.meta = Some(json!({"codex_approval_kind": "mcp_tool_call"}));
    let request = ServerRequest::Elicitation(asked);
    let for_session = shape("accept", Value::Null, json!({"persist": "session"}));
    assert_eq!(reply(&request, &Decision::AcceptForSession), for_session);
}
