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
