use std::collections::BTreeMap;

use codex_session::Decision;
use serde_json::{Value, json};

use super::{Inquiry, Step, leaving};
use crate::cli::render::paint::Paint;

fn inquiry(shape: &Value) -> Inquiry {
    let mut whole = json!({
        "task_id": "codex-0123456789abcdef0123456789abcdef", "request_id": "req-1", "kind": "command", "title": "", "reason": null,
        "details": [], "hidden_secrets": 0, "decisions": ["accept", "acceptForSession", "decline", "cancel"],
        "method": "m", "state": "open", "created_at": "2026-01-02T03:04:05Z",
    });
    whole.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
    Inquiry::new(serde_json::from_value(whole).unwrap())
}

fn questions() -> Inquiry {
    inquiry(&json!({"decisions": ["answers", "decline"], "questions": [
        {"id": "db", "text": "Which?", "options": [{"label": "SQLite", "description": ""}, {"label": "PostgreSQL", "description": ""}],
         "is_free": false, "is_secret": false},
        {"id": "pw", "text": "Password?", "options": [], "is_free": true, "is_secret": true},
    ]}))
}

#[test]
fn only_a_clear_yes_is_a_yes() {
    let check = |typed: &str, step: Step| assert_eq!(inquiry(&json!({})).answer(typed), step, "{typed}");
    check("y", Step::Decide(Decision::Accept));
    check(" YES ", Step::Decide(Decision::Accept));
    check("s", Step::Decide(Decision::AcceptForSession));
    check("n", Step::Decide(Decision::Decline));
    check("c", Step::Decide(Decision::Cancel));
    check("d", Step::Detach);
    for unclear in ["", "yy", "ok", "a", "accept"] {
        check(unclear, Step::Again("type y, s, n, c, d".into()));
    }
}

#[test]
fn what_is_not_on_offer_cannot_be_chosen() {
    let mut asked = inquiry(&json!({"decisions": ["accept", "decline"]}));
    assert_eq!(asked.answer("s"), Step::Again("type y, n, d".into()));
}

#[test]
fn questions_are_answered_one_after_the_other() {
    let mut asked = questions();
    assert!(!asked.is_secret());
    assert!(matches!(asked.answer("c"), Step::Again(_)), "no such choice, and no words of one's own");
    assert_eq!(asked.answer("b"), Step::Next);
    assert!(asked.is_secret());
    let answers =
        BTreeMap::from([("db".into(), vec!["PostgreSQL".into()]), ("pw".into(), vec!["s3cret".into()])]);
    assert_eq!(asked.answer("s3cret"), Step::Decide(Decision::Answers(answers)));
}

#[test]
fn a_question_can_be_refused() {
    assert_eq!(questions().answer("!decline"), Step::Decide(Decision::Decline));
}

#[test]
fn the_choices_fit_the_window() {
    let shown = |columns| {
        let (lines, prompt) = inquiry(&json!({})).prompt(Paint::Plain, columns);
        let (leaving, _) = leaving(Paint::Plain, columns);
        assert!(lines.iter().chain(&leaving).all(|line| line.len() <= columns), "{lines:#?}");
        format!("{}\n{prompt}\n{}", lines.join("\n"), leaving.join("\n"))
    };
    insta::assert_snapshot!(format!("{}\n---\n{}", shown(80), shown(40)));
}
