use codex_bridge_core::request::{DecisionWord, RequestRecord, RequestState};
use codex_bridge_core::task::TaskId;
use serde_json::{Value, json};

use super::{Extent, Fields, decision, extent, files, missing, outcome};
use crate::view;

fn record(ask: Value, state: RequestState) -> RequestRecord {
    let key = serde_json::from_value(json!({"epoch": "e", "id": 0})).unwrap();
    RequestRecord {
        key,
        task_id: TaskId("codex-1".into()),
        request_id: "req-1".into(),
        method: String::new(),
        ask: serde_json::from_value(ask).unwrap(),
        state,
        digest: "d".into(),
        sealed_ask: None,
        sealed_decision: None,
        decision: Some(DecisionWord::Accept),
        decided_by: Some("token anna".into()),
        decided_at: Some(0),
        created_at: 0,
        expires_at: None,
        closed_at: Some(0),
    }
}

fn fields(pairs: &[(&str, &str)]) -> Fields {
    Fields(pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect())
}

#[test]
fn a_form_gives_values_of_the_right_kind() {
    let known =
        json!([{"name": "name", "type": "string", "required": true}, {"name": "count", "type": "integer"}]);
    let asked = record(json!({"kind": "form", "fields": known}), RequestState::Open);
    let said = fields(&[("decision", "form"), ("field.name", "x"), ("field.count", "3")]);
    assert_eq!(decision(&asked, &said).unwrap().decision, json!({"form": {"name": "x", "count": 3}}));
    let missing = decision(&asked, &fields(&[("decision", "form")])).unwrap();
    assert_eq!(missing.decision, json!({"form": {}}), "the desk says that the name is missing");
}

#[test]
fn answers_are_choices_or_words_of_ones_own() {
    let asked = record(
        json!({"questions": [{"id": "q1", "text": "Which?", "options": []}, {"id": "q2", "text": "Why?", "options": []}]}),
        RequestState::Open,
    );
    let said = fields(&[
        ("decision", "answers"),
        ("field.q1", "red"),
        ("own.q1", " "),
        ("field.q2", "blue"),
        ("own.q2", "because"),
    ]);
    assert_eq!(
        decision(&asked, &said).unwrap().decision,
        json!({"answers": {"q1": ["red"], "q2": ["because"]}})
    );
    let half = fields(&[("decision", "answers"), ("field.q1", "red")]);
    let half = decision(&asked, &half).unwrap().decision;
    assert_eq!(
        half,
        json!({"answers": {"q1": ["red"], "q2": []}}),
        "the desk says that an answer is missing"
    );
}

#[test]
fn the_outcome_names_the_decision_the_decider_and_the_time() {
    let text = |state| outcome(&record(json!({}), state));
    assert_eq!(text(RequestState::Open), None);
    assert_eq!(
        text(RequestState::Resolved).as_deref(),
        Some("approved by token anna at 1970-01-01 00:00:00 UTC")
    );
    assert!(text(RequestState::Expired).unwrap().contains("nobody answered in time"));
    assert!(text(RequestState::Orphaned).unwrap().contains("ended before Codex received it"));
}

#[test]
fn the_card_says_how_much_of_the_changes_is_missing() {
    let sentence = |cut_bytes: [u64; 2], kept: Option<u64>| {
        let change = |bytes| json!({"path": "/ws/a", "kind": "add", "cut_bytes": bytes, "diff": "+a\n"});
        let changes = cut_bytes.map(change);
        let ask = json!({"kind": "file_change", "changes": changes, "whole_changes_bytes": kept});
        missing(&view::Request::from(record(ask, RequestState::Open)))
    };
    assert_eq!(sentence([0, 0], None), None);
    let lost = sentence([40_000, 2_000], None).unwrap();
    assert!(lost.contains("42 KB more") && lost.contains("were not stored"), "{lost}");
    let kept = sentence([40_000, 2_000], Some(100_000)).unwrap();
    assert!(kept.contains("42 KB more") && !kept.contains("not stored"), "{kept}");
}

#[test]
fn a_cut_diff_says_how_many_lines_there_are_and_how_many_are_shown() {
    let change = json!({"path": "/ws/a", "kind": "add", "cut_bytes": 9000, "diff": "+a\n+b\n-c\n",
        "added_lines": 1600, "removed_lines": 1});
    let ask = |whole: Option<u64>| {
        let ask = json!({"kind": "file_change", "changes": [change], "whole_changes_bytes": whole});
        view::Request::from(record(ask, RequestState::Open))
    };
    let shown = files(&ask(None));
    assert_eq!([shown[0].plus(), shown[0].minus()], ["+1,600, 2 shown", "−1"]);
    assert_eq!((extent(&ask(None)), extent(&ask(Some(9)))), (Extent::Lost, Extent::Beginning));
    // An older store has no counts, so only the shown lines are counted.
    let old = json!({"path": "/ws/a", "kind": "add", "cut_bytes": 9000, "diff": "+a\n"});
    let old = record(json!({"kind": "file_change", "changes": [old]}), RequestState::Open);
    assert_eq!(files(&view::Request::from(old))[0].plus(), "+1");
}

#[test]
fn all_lines_of_a_change_are_on_its_card_whatever_they_look_like() {
    let diff = "--- /ws/a\n+++ /ws/a\n@@ -1 +1 @@\n-one\n+two\n+beyond the hunk\n--- /ws/b\n+++ /ws/b\n@@ -1 +1 @@\n+b\nwords\n";
    let change = json!({"path": "/ws/a", "kind": "update", "cut_bytes": 0, "diff": diff});
    let asked = record(json!({"kind": "file_change", "changes": [change]}), RequestState::Open);
    let shown = files(&view::Request::from(asked));
    let lines: Vec<&str> = shown[0].lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(lines, diff.lines().skip(2).collect::<Vec<_>>());
    assert_eq!((shown[0].added, shown[0].removed), (4, 2));
    // A header that names another file is no header of this one.
    let foreign =
        json!({"path": "/ws/a", "kind": "update", "cut_bytes": 0, "diff": "--- /ws/z\n+++ /ws/z\n+z\n"});
    let asked = record(json!({"kind": "file_change", "changes": [foreign]}), RequestState::Open);
    assert_eq!(files(&view::Request::from(asked))[0].lines.len(), 3);
}
