use std::collections::BTreeMap;

use codex_session::Decision;
use serde_json::{Value, json};

use super::{Dialog, TypedAnswer, ctrl_c_choices};
use crate::cli::render::paint::Paint;

fn dialog(shape: &Value) -> Dialog {
    let mut whole = json!({
        "task_id": "codex-0123456789abcdef0123456789abcdef", "request_id": "req-1", "kind": "command", "title": "", "reason": null,
        "details": [], "hidden_secrets": 0, "decisions": ["accept", "acceptForSession", "decline", "cancel"],
        "method": "m", "state": "open", "created_at": "2026-01-02T03:04:05Z",
    });
    whole.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
    Dialog::new(serde_json::from_value(whole).unwrap())
}

fn questions() -> Dialog {
    dialog(&json!({"decisions": ["answers", "decline"], "questions": [
        {"id": "db", "text": "Which?", "options": [{"label": "SQLite", "description": ""}, {"label": "PostgreSQL", "description": ""}],
         "is_free": false, "is_secret": false},
        {"id": "pw", "text": "Password?", "options": [], "is_free": true, "is_secret": true},
    ]}))
}

#[test]
fn only_a_clear_yes_is_a_yes() {
    let check =
        |typed: &str, step: TypedAnswer| assert_eq!(dialog(&json!({})).answer(typed), step, "{typed}");
    check("y", TypedAnswer::Decide(Decision::Accept));
    check(" YES ", TypedAnswer::Decide(Decision::Accept));
    check("s", TypedAnswer::Decide(Decision::AcceptForSession));
    check("n", TypedAnswer::Decide(Decision::Decline));
    check("c", TypedAnswer::Decide(Decision::Cancel));
    check("d", TypedAnswer::Detach);
    for unclear in ["", "yy", "ok", "a", "accept"] {
        check(unclear, TypedAnswer::Invalid("type y, s, n, c, d".into()));
    }
}

#[test]
fn what_is_not_on_offer_cannot_be_chosen() {
    let mut asked = dialog(&json!({"decisions": ["accept", "decline"]}));
    assert_eq!(asked.answer("s"), TypedAnswer::Invalid("type y, n, d".into()));
}

#[test]
fn questions_are_answered_one_after_the_other() {
    let mut asked = questions();
    assert!(!asked.is_secret());
    assert!(
        matches!(asked.answer("c"), TypedAnswer::Invalid(_)),
        "no such choice, and no words of one's own"
    );
    assert_eq!(asked.answer("b"), TypedAnswer::Next);
    assert!(asked.is_secret());
    let answers =
        BTreeMap::from([("db".into(), vec!["PostgreSQL".into()]), ("pw".into(), vec!["s3cret".into()])]);
    assert_eq!(asked.answer("s3cret"), TypedAnswer::Decide(Decision::Answers(answers)));
}

#[test]
fn a_question_can_be_refused() {
    assert_eq!(questions().answer("!decline"), TypedAnswer::Decide(Decision::Decline));
}

fn form() -> Dialog {
    dialog(&json!({"kind": "elicitation", "decisions": ["form", "decline", "cancel"], "fields": [
        {"name": "colour", "type": "string", "required": true, "description": "Of the door",
         "choices": [{"value": "b", "label": "Blue"}, {"value": "red"}]},
        {"name": "count", "type": "integer", "minimum": 1.0, "maximum": 5.0, "default": 2},
        {"name": "sure", "type": "boolean"},
        {"name": "tags", "type": "array", "choices": [{"value": "new"}, {"value": "old"}]},
    ]}))
}

#[test]
fn a_form_is_filled_in_field_by_field() {
    let mut asked = form();
    let mut screen = Vec::new();
    for typed in ["", "green", "a", "9", "", "maybe", "no", "A, old"] {
        let (lines, prompt) = asked.prompt(Paint::Plain, 80);
        screen.extend(lines);
        screen.push(format!("{prompt}{typed}"));
        match asked.answer(typed) {
            TypedAnswer::Invalid(told) => screen.push(format!("  {told}")),
            TypedAnswer::Next => {}
            end => screen.push(format!("{end:?}")),
        }
    }
    insta::assert_snapshot!(screen.join("\n"));
}

#[test]
fn a_choice_is_meant_by_its_letter_its_value_or_its_label() {
    for (typed, sent) in [("a", "b"), ("BLUE", "b"), ("red", "red")] {
        let mut asked = form();
        assert_eq!(asked.answer(typed), TypedAnswer::Next);
        assert_eq!(asked.answers["colour"], [sent], "{typed}");
    }
}

#[test]
fn a_letter_that_is_the_name_of_another_choice_chooses_nothing() {
    let invalid = "b can mean b and red: use `codex-bridge answer`, which takes values";
    assert_eq!(form().answer("b"), TypedAnswer::Invalid(invalid.into()));
    let named = json!([{"name": "fate", "type": "string", "choices": [{"value": "delete", "label": "b"}, {"value": "keep"}]}]);
    let mut posing = dialog(&json!({"kind": "elicitation", "decisions": ["form"], "fields": named}));
    assert!(matches!(posing.answer("b"), TypedAnswer::Invalid(_)), "{posing:?}");
}

#[test]
fn a_form_can_be_declined_and_one_without_fields_is_sent() {
    assert_eq!(form().answer("!decline"), TypedAnswer::Decide(Decision::Decline));
    let mut empty = dialog(&json!({"kind": "elicitation", "decisions": ["form", "decline", "cancel"]}));
    assert_eq!(empty.answer("y"), TypedAnswer::Decide(Decision::Form(json!({}))));
    let fields = json!([{"name": "a", "type": "string"}]);
    let mut hidden = dialog(&json!({"decisions": ["decline"], "fields": fields}));
    assert_eq!(hidden.answer("y"), TypedAnswer::Invalid("type n, d".into()), "it can only be declined");
}

#[test]
fn the_choices_fit_the_window() {
    let shown = |columns| {
        let (lines, prompt) = dialog(&json!({})).prompt(Paint::Plain, columns);
        let (after_ctrl_c, _) = ctrl_c_choices(Paint::Plain, columns);
        assert!(lines.iter().chain(&after_ctrl_c).all(|line| line.len() <= columns), "{lines:#?}");
        format!("{}\n{prompt}\n{}", lines.join("\n"), after_ctrl_c.join("\n"))
    };
    insta::assert_snapshot!(format!("{}\n---\n{}", shown(80), shown(40)));
}
