use serde_json::{Value, json};

use super::*;
use crate::thread::TurnStatus;

fn parse(method: &str, params: &Value) -> Event {
    let line = json!({"method": method, "params": params, "emittedAtMs": 1}).to_string();
    Event::parse(method, line.as_bytes())
}

// By value: what is expected is put together where it is handed over.
#[allow(clippy::needless_pass_by_value)]
#[track_caller]
fn check(method: &str, params: Value, expected: Event) {
    assert_eq!(parse(method, &params), expected, "{method}");
}

fn delta_of(kind: DeltaKind, text: &str) -> Event {
    Event::Delta(Delta { item_id: "i".into(), kind, text: text.into() })
}

#[test]
fn every_kind_of_delta_is_read() {
    let params =
        || json!({"threadId": "t", "turnId": "u", "itemId": "i", "delta": "piece", "summaryIndex": 0});
    check("item/agentMessage/delta", params(), delta_of(DeltaKind::Message, "piece"));
    check("item/reasoning/textDelta", params(), delta_of(DeltaKind::Reasoning, "piece"));
    check("item/reasoning/summaryTextDelta", params(), delta_of(DeltaKind::Reasoning, "piece"));
    check("item/reasoning/delta", params(), delta_of(DeltaKind::Reasoning, "piece"));
    check("item/commandExecution/outputDelta", params(), delta_of(DeltaKind::Output, "piece"));
}

// peer: E26
#[test]
fn a_piece_under_its_old_name_is_read_and_the_new_name_wins() {
    let old = json!({"itemId": "i", "text": "old"});
    check("item/agentMessage/delta", old, delta_of(DeltaKind::Message, "old"));
    let both = json!({"itemId": "i", "text": "old", "delta": "new"});
    check("item/agentMessage/delta", both, delta_of(DeltaKind::Message, "new"));
    let null = json!({"itemId": "i", "text": "old", "delta": null});
    check("item/agentMessage/delta", null, delta_of(DeltaKind::Message, "old"));
}

#[test]
fn a_piece_keeps_its_escapes_line_breaks_and_every_script() {
    for text in ["a\"b\\c\n\t", "żółć 🦀 漢字", "\u{0}\u{1b}[31m"] {
        check(
            "item/agentMessage/delta",
            json!({"itemId": "i", "delta": text}),
            delta_of(DeltaKind::Message, text),
        );
    }
}

// peer: E25
#[test]
fn an_empty_piece_is_no_piece() {
    check("item/agentMessage/delta", json!({"itemId": "i", "delta": ""}), Event::Other);
    check("item/agentMessage/delta", json!({"itemId": "i"}), Event::Other);
}

#[test]
fn turns_are_read() {
    let params = json!({"threadId": "t", "turn": {"id": "u", "rootTurnId": "u", "items": [], "status": "inProgress",
        "error": null, "startedAt": 1, "completedAt": null, "durationMs": null}});
    let Event::TurnStarted(turn) = parse("turn/started", &params) else { panic!("not read") };
    assert_eq!((turn.id.as_str(), turn.status), ("u", TurnStatus::InProgress));
    let params = json!({"threadId": "t", "turn": {"id": "u", "status": "failed",
        "error": {"message": "no", "codexErrorInfo": "unauthorized", "additionalDetails": null},
        "items": [{"type": "agentMessage", "id": "m", "text": "so far"}]}});
    let Event::TurnCompleted(turn) = parse("turn/completed", &params) else { panic!("not read") };
    assert_eq!(turn.status, TurnStatus::Failed);
    assert_eq!(turn.error.unwrap().info(), Some("unauthorized"));
    assert_eq!(turn.items[0].id(), Some("m"));
}

#[test]
fn items_are_read() {
    let params = json!({"threadId": "t", "turnId": "u", "startedAtMs": 1,
        "item": {"type": "commandExecution", "id": "c", "command": "ls", "status": "inProgress"}});
    let Event::ItemStarted(item) = parse("item/started", &params) else { panic!("not read") };
    assert_eq!((item.type_name(), item.is_in_progress()), ("commandExecution", Some(true)));
    let params = json!({"item": {"type": "hologram", "id": "h"}});
    let Event::ItemCompleted(item) = parse("item/completed", &params) else { panic!("not read") };
    assert_eq!((item.type_name(), item.id()), ("hologram", Some("h")));
}

#[test]
fn threads_and_their_states_are_read() {
    let params = json!({"thread": {"id": "t", "parentThreadId": "p", "status": {"type": "idle"}}});
    let Event::ThreadStarted(thread) = parse("thread/started", &params) else { panic!("not read") };
    assert_eq!((thread.any_id(), thread.parent_thread_id.as_deref()), (Some("t".into()), Some("p")));
    let params = json!({"threadId": "t", "status": {"type": "active", "activeFlags": ["waitingOnApproval"]}});
    let Event::ThreadStatus(status) = parse("thread/status/changed", &params) else { panic!("not read") };
    assert_eq!(status.kind, "active");
}

#[test]
fn usage_diffs_limits_and_resolutions_are_read() {
    let count = json!({"totalTokens": 1290, "inputTokens": 1234, "cachedInputTokens": 1000,
        "cacheWriteInputTokens": 0, "outputTokens": 56, "reasoningOutputTokens": 12});
    let params = json!({"tokenUsage": {"total": count, "last": count, "modelContextWindow": 258_400}});
    let Event::TokenUsage(usage) = parse("thread/tokenUsage/updated", &params) else { panic!("not read") };
    assert_eq!((usage.total.total_tokens, usage.last.reasoning_output_tokens), (1290, 12));
    check("turn/diff/updated", json!({"diff": "+a"}), Event::DiffUpdated("+a".into()));
    check("serverRequest/resolved", json!({"requestId": 0}), Event::RequestResolved(0.into()));
    let text = RequestId::Text("0".into());
    check("serverRequest/resolved", json!({"requestId": "0"}), Event::RequestResolved(text));
    let params = json!({"rateLimits": {"primary": {"usedPercent": 100, "resetsAt": 5}, "secondary": null}});
    let Event::RateLimits(limits) = parse("account/rateLimits/updated", &params) else { panic!("not read") };
    assert_eq!(limits.resets_at(), Some(5));
    check("thread/compacted", json!({"threadId": "t"}), Event::Compacted);
}

#[test]
fn errors_and_warnings_are_read() {
    let params =
        json!({"error": {"message": "Reconnecting... 1/5", "additionalDetails": "reset"}, "willRetry": true});
    let Event::Error { error, will_retry: true } = parse("error", &params) else { panic!("not read") };
    assert_eq!(
        (error.message.as_str(), error.additional_details.as_deref()),
        ("Reconnecting... 1/5", Some("reset"))
    );
    let silent = parse("error", &json!({"error": {"message": "no"}}));
    assert!(matches!(silent, Event::Error { will_retry: false, .. }), "{silent:?}");
    for (method, params) in [
        ("warning", json!({"message": "mind"})),
        ("guardianWarning", json!({"message": "mind"})),
        ("configWarning", json!({"summary": "mind", "details": null})),
        ("deprecationNotice", json!({"summary": "mind"})),
    ] {
        check(method, params, Event::Warning("mind".into()));
    }
}

#[test]
fn what_is_typed_into_a_running_command_is_read() {
    let params = |stdin: &str| json!({"threadId": "t", "turnId": "u", "itemId": "i", "processId": "7", "stdin": stdin});
    for text in ["ls\n", ""] {
        let typed = Event::TerminalInput { item_id: "i".into(), text: text.into() };
        check("item/commandExecution/terminalInteraction", params(text), typed);
    }
}

#[test]
fn every_method_of_the_contract_is_read() {
    let params = json!({
        "itemId": "i", "delta": "d", "item": {"type": "plan"}, "turn": {"id": "u"}, "thread": {"id": "t"},
        "status": {"type": "idle"}, "tokenUsage": {}, "diff": "d", "requestId": 1, "error": {}, "message": "m",
        "rateLimits": {}, "threadSettings": {}, "name": "docs", "stdin": "ls\n",
    });
    for method in METHODS {
        assert_ne!(parse(method, &params), Event::Other, "{method}");
    }
}

// peer: P3
#[test]
fn an_unknown_method_is_other() {
    check("item/hologram/delta", json!({"delta": "x"}), Event::Other);
    check("", json!({}), Event::Other);
}

// peer: E42, E51
#[test]
fn parameters_that_cannot_be_read_are_other() {
    for method in METHODS.iter().filter(|method| **method != "thread/compacted") {
        for params in [json!(null), json!([]), json!("x"), json!(5), json!({})] {
            assert_eq!(parse(method, &params), Event::Other, "{method} {params}");
        }
        for line in [&b"{}"[..], b"", b"\xff", b"{\"params\":"] {
            assert_eq!(Event::parse(method, line), Event::Other);
        }
    }
    check("turn/completed", json!({"turn": {"id": 5}}), Event::Other);
    check("item/agentMessage/delta", json!({"itemId": "i", "delta": 5}), Event::Other);
}
