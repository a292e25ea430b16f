use serde_json::json;

use super::*;

// By value: what is expected is put together where it is handed over.
#[allow(clippy::needless_pass_by_value)]
#[track_caller]
fn check<C: Call>(call: &C, method: &str, params: Value) {
    assert_eq!(C::METHOD, method);
    assert_eq!(serde_json::to_value(call).unwrap(), params);
}

#[test]
fn settings_that_are_left_to_codex_are_not_sent() {
    check(&ThreadStart::default(), "thread/start", json!({}));
    let settings =
        ThreadSettings { cwd: Some("/ws".into()), sandbox: Some("read-only".into()), ..Default::default() };
    let start = ThreadStart { settings: settings.clone(), dynamic_tools: None };
    check(&start, "thread/start", json!({"cwd": "/ws", "sandbox": "read-only"}));
    let resume = ThreadResume {
        thread_id: "t".into(),
        exclude_turns: true,
        initial_turns_page: Some(InitialTurnsPage { limit: 2, items_view: "full" }),
        settings,
    };
    let expected = json!({"threadId": "t", "excludeTurns": true, "cwd": "/ws", "sandbox": "read-only",
        "initialTurnsPage": {"limit": 2, "itemsView": "full"}});
    check(&resume, "thread/resume", expected);
}

#[test]
fn parameters_are_always_an_object() {
    check(&ThreadLoadedList {}, "thread/loaded/list", json!({}));
}

#[test]
fn a_prompt_is_sent_in_the_wires_own_spelling() {
    let start = TurnStart {
        thread_id: "t".into(),
        input: vec![
            UserInput::text("hi"),
            UserInput::Image { url: "data:x".into() },
            UserInput::LocalImage { path: "/a.png".into() },
        ],
        client_user_message_id: Some("m".into()),
        approvals_reviewer: Some("user".into()),
        permissions: Some("ours".into()),
        ..TurnStart::default()
    };
    let expected = json!({
        "threadId": "t",
        "input": [
            {"type": "text", "text": "hi"},
            {"type": "image", "url": "data:x"},
            {"type": "localImage", "path": "/a.png"},
        ],
        "clientUserMessageId": "m", "approvalsReviewer": "user", "permissions": "ours",
    });
    check(&start, "turn/start", expected);
}

#[test]
fn steers_and_interrupts_name_their_turn() {
    let steer = TurnSteer {
        thread_id: "t".into(),
        input: vec![UserInput::text("more")],
        client_user_message_id: None,
        expected_turn_id: "u".into(),
    };
    let mut expected =
        json!({"threadId": "t", "input": [{"type": "text", "text": "more"}], "expectedTurnId": "u"});
    check(&steer, "turn/steer", expected.clone());
    expected["clientUserMessageId"] = json!("m");
    check(&TurnSteer { client_user_message_id: Some("m".into()), ..steer }, "turn/steer", expected);
    let interrupt = TurnInterrupt { thread_id: "t".into(), turn_id: String::new() };
    check(&interrupt, "turn/interrupt", json!({"threadId": "t", "turnId": ""}));
}

#[test]
fn threads_are_read_back_and_branched() {
    let list =
        ThreadTurnsList { thread_id: "t".into(), limit: 5, sort_direction: "desc", items_view: "full" };
    let expected = json!({"threadId": "t", "limit": 5, "sortDirection": "desc", "itemsView": "full"});
    check(&list, "thread/turns/list", expected);
    let fork = ThreadFork {
        thread_id: "t".into(),
        last_turn_id: Some("u".into()),
        exclude_turns: true,
        settings: ThreadSettings::default(),
    };
    check(&fork, "thread/fork", json!({"threadId": "t", "lastTurnId": "u", "excludeTurns": true}));
    let read = ThreadRead { thread_id: "t".into(), include_turns: false };
    check(&read, "thread/read", json!({"threadId": "t", "includeTurns": false}));
}

fn opened(json: Value) -> Option<ThreadId> {
    serde_json::from_value::<ThreadOpened>(json).unwrap().id()
}

// peer: S55, S56, S57
#[test]
fn a_thread_id_is_found_under_every_key_that_servers_have_used() {
    assert_eq!(opened(json!({"thread": {"id": "a", "sessionId": "b"}, "sessionId": "c"})), Some("a".into()));
    assert_eq!(opened(json!({"thread": {"sessionId": "b"}})), Some("b".into()));
    assert_eq!(opened(json!({"sessionId": "c"})), Some("c".into()));
    assert_eq!(opened(json!({"threadId": "d"})), Some("d".into()));
    assert_eq!(opened(json!({})), None);
    assert_eq!(opened(json!({"thread": {"id": ""}, "sessionId": ""})), None);
}

#[test]
fn a_captured_thread_is_read_with_the_settings_that_hold() {
    let reply = json!({
        "thread": {"id": "t", "extra": null, "status": {"type": "idle"}, "path": "/r.jsonl", "turns": [], "gitInfo": null},
        "model": "m", "cwd": "/ws", "approvalPolicy": "on-request", "approvalsReviewer": "user",
        "sandbox": {"type": "readOnly", "networkAccess": false}, "reasoningEffort": null,
    });
    let opened: ThreadOpened = serde_json::from_value(reply).unwrap();
    assert_eq!(opened.sandbox.unwrap()["type"], "readOnly");
    assert_eq!(opened.approval_policy, Some(json!("on-request")));
    assert_eq!((opened.cwd.as_deref(), opened.approvals_reviewer.as_deref()), (Some("/ws"), Some("user")));
    assert_eq!(opened.thread.path.as_deref(), Some("/r.jsonl"));
}

#[test]
fn a_steer_that_names_no_turn_is_read() {
    assert_eq!(serde_json::from_str::<Steered>("{}").unwrap().turn_id, None);
    assert_eq!(serde_json::from_str::<Steered>(r#"{"turnId":"u"}"#).unwrap().turn_id, Some("u".into()));
}
