use serde_json::json;

use super::*;

fn request(kind: &str, decisions: &[&str], more: &Value) -> Request {
    let mut fields = json!({
        "task_id": "codex-1", "request_id": "req-1", "kind": kind, "title": "Run this?", "reason": null,
        "details": [{"label": "Command", "text": "rm -r x"}], "hidden_secrets": 1, "decisions": decisions,
        "method": "m", "created_at": "", "state": "open",
    });
    fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(fields).unwrap()
}

fn answer(action: ElicitationAction, content: Value) -> ElicitResult {
    ElicitResult::new(action).with_content(content)
}

#[test]
fn a_form_offers_the_decisions_of_the_request_except_permanent_rules() {
    let request =
        request("command", &["accept", "acceptForSession", "acceptAlways", "decline", "cancel"], &json!({}));
    let form = serde_json::to_value(form(&request).unwrap()).unwrap();
    assert_eq!(form["mode"], "form");
    let decision = &form["requestedSchema"]["properties"]["decision"];
    assert_eq!(decision["enum"], json!(["accept", "acceptForSession", "decline", "cancel"]));
    assert_eq!(form["requestedSchema"]["required"], json!(["decision"]));
    let message = form["message"].as_str().unwrap();
    assert!(message.contains("Command: rm -r x") && message.contains("Hidden secrets: 1"), "{message}");
    let always = answer(ElicitationAction::Accept, json!({"decision": "acceptAlways"}));
    assert_eq!(super::decision(&request, &always), None);
}

#[test]
fn foreign_lines_cannot_imitate_ours() {
    let command = "x\nDirectory: /tmp\nHidden secrets: 0";
    let diff = "--- a\n+++ a\n@@ -1 +1 @@\n-x\nReason: tidying up";
    let more = json!({
        "details": [{"label": "Command", "text": command}], "sub_agent": "thread-7",
        "changes": [{"path": "a", "kind": "update", "diff": diff, "cut_bytes": 0}],
    });
    let message = message(&request("command", &["accept"], &more), |_| true);
    let ours: Vec<&str> = message.lines().filter(|line| !line.starts_with("  ")).collect();
    assert_eq!(
        ours,
        [
            "Codex asks (task codex-1): Run this?",
            "Command:",
            "Hidden secrets: 1",
            "Asked by a sub-agent, thread thread-7"
        ],
        "{message}"
    );
    assert!(
        message.contains("\n  Directory: /tmp\n") && message.contains("\n  Reason: tidying up"),
        "{message}"
    );
}

#[test]
fn only_a_choice_decides() {
    let request = request("command", &["accept", "decline"], &json!({}));
    let check = |action, content, expected: Option<Decision>| {
        assert_eq!(super::decision(&request, &answer(action, content)), expected);
    };
    check(ElicitationAction::Accept, json!({"decision": "accept"}), Some(Decision::Accept));
    check(ElicitationAction::Accept, json!({"decision": "decline"}), Some(Decision::Decline));
    check(ElicitationAction::Decline, json!({}), Some(Decision::Decline));
    // Dismissed, empty, not offered, of the wrong type.
    check(ElicitationAction::Cancel, json!({"decision": "accept"}), None);
    check(ElicitationAction::Accept, json!({}), None);
    check(ElicitationAction::Accept, json!({"decision": "acceptForSession"}), None);
    check(ElicitationAction::Accept, json!({"decision": true}), None);
}

#[test]
fn questions_have_a_field_each_and_all_must_be_answered() {
    let questions = json!({"questions": [
        {"id": "a", "text": "Which?", "options": [{"label": "red", "description": "hot"}, {"label": "blue"}]},
        {"id": "b", "text": "Why?", "is_free": true},
    ]});
    let request = request("question", &["answers"], &questions);
    let form = serde_json::to_value(form(&request).unwrap()).unwrap();
    let fields = &form["requestedSchema"]["properties"];
    assert_eq!((&fields["a"]["enum"], &fields["a"]["title"]), (&json!(["red", "blue"]), &json!("Which?")));
    assert_eq!((&fields["b"]["enum"], &fields["b"]["type"]), (&Value::Null, &json!("string")));
    let both = answer(ElicitationAction::Accept, json!({"a": "red", "b": "so"}));
    let expected =
        BTreeMap::from([("a".to_owned(), vec!["red".to_owned()]), ("b".to_owned(), vec!["so".to_owned()])]);
    assert_eq!(super::decision(&request, &both), Some(Decision::Answers(expected)));
    assert_eq!(super::decision(&request, &answer(ElicitationAction::Accept, json!({"a": "red"}))), None);
}

#[test]
fn a_form_of_a_server_is_passed_on_with_its_rules() {
    let details = [("Message", "Which colour?"), ("Fields", "colour (string)")];
    let more = json!({
        "details": details.map(|(label, text)| json!({"label": label, "text": text})),
        "fields": [
            {"name": "colour", "type": "string", "required": true, "choices": [{"value": "r", "label": "Red"}, {"value": "b"}]},
            {"name": "count", "type": "integer", "minimum": 1.0, "maximum": 5.0, "default": 2, "title": "How\u{7} many"},
            {"name": "mail", "type": "string", "format": "email"},
            {"name": "tags", "type": "array", "choices": [{"value": "a"}], "max_length": 1, "default": ["a"]},
        ],
    });
    let request = request("elicitation", &["form", "decline", "cancel"], &more);
    let form = serde_json::to_value(form(&request).unwrap()).unwrap();
    assert_eq!(
        form["requestedSchema"],
        json!({
            "type": "object", "required": ["colour"],
            "properties": {
                "colour": {"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "b"]},
                "count": {"type": "integer", "minimum": 1, "maximum": 5, "default": 2, "title": plain("How\u{7} many")},
                "mail": {"type": "string", "format": "email"},
                "tags": {"type": "array", "items": {"type": "string", "enum": ["a"]}, "maxItems": 1, "default": ["a"]},
            },
        })
    );
    let message = form["message"].as_str().unwrap();
    assert!(message.contains("Message: Which colour?"), "{message}");
    assert!(message.contains("Fields"), "a client need not show the defaults of fields: {message}");
    let told = how_to_answer(&request);
    assert!(
        told.contains("Fields: colour (string)") && told.contains("codex-1 req-1 FIELD=VALUE`"),
        "{told}"
    );

    let check = |action, content: Option<Value>, expected| {
        let mut answer = ElicitResult::new(action);
        answer.content = content;
        assert_eq!(super::decision(&request, &answer), expected);
    };
    let filled = json!({"colour": "r", "count": 9});
    check(ElicitationAction::Accept, Some(filled.clone()), Some(Decision::Form(filled)));
    // No values: the form was not shown, and its defaults were not seen.
    check(ElicitationAction::Accept, None, None);
    check(ElicitationAction::Decline, None, Some(Decision::Decline));
    check(ElicitationAction::Cancel, None, None);
}

#[test]
fn secrets_pages_and_unknown_fields_are_not_asked_for() {
    let secret = json!({"questions": [{"id": "a", "text": "Password?", "is_secret": true}]});
    assert!(form(&request("question", &["answers"], &secret)).is_none());
    let unknown = json!({"fields": [{"name": "a", "type": "string"}, {"name": "x", "type": "other"}]});
    assert!(form(&request("elicitation", &["form", "decline"], &unknown)).is_none());
    assert!(form(&request("elicitation", &["decline", "cancel"], &json!({}))).is_none());
}

#[test]
fn a_person_whom_the_client_cannot_ask_is_told_what_to_type() {
    let approval = how_to_answer(&request("command", &["accept", "decline"], &json!({})));
    assert!(approval.contains("`codex-bridge approve codex-1 req-1`"), "{approval}");
    let question = how_to_answer(&request("question", &["answers"], &json!({})));
    assert!(question.contains("`codex-bridge answer codex-1 req-1 KEY=ANSWER`"), "{question}");
    let options = json!({"questions": [{"id": "a", "text": "Which?", "options": [{"label": "red", "description": "hot"}]}]});
    let question = how_to_answer(&request("question", &["answers"], &options));
    for part in ["\n  1. Which?\n     - red: hot", "req-1 a=ANSWER`", "\"answers\": {\"KEY\": \"ANSWER\"}"] {
        assert!(question.contains(part), "{part:?} is missing in {question}");
    }
}

#[test]
fn a_long_request_is_shortened_for_progress_and_results() {
    let long =
        json!({"changes": [{"path": "a", "diff": "+ä".repeat(100_000), "kind": "update", "cut_bytes": 0}]});
    let text = how_to_answer(&request("file_change", &["accept", "decline"], &long));
    assert!(text.chars().count() < SHOWN_CHARS + 500, "{} characters", text.chars().count());
    assert!(text.contains("`codex-bridge requests codex-1` shows the rest"), "{text}");
    assert!(text.contains("`codex-bridge approve codex-1 req-1`"), "{text}");
}

#[test]
fn a_client_that_names_no_kind_of_elicitation_means_forms() {
    let has_forms = |elicitation: Value| {
        supports_forms(&serde_json::from_value(json!({ "elicitation": elicitation })).unwrap())
    };
    assert!(
        has_forms(json!({})) && has_forms(json!({"form": {}})) && has_forms(json!({"form": {}, "url": {}}))
    );
    assert!(!has_forms(json!({"url": {}})) && !has_forms(Value::Null));
}
