use codex_bridge_core::outbox::Notice;
use codex_bridge_core::outbox::notice::NO_TASK;
use serde_json::{Value, json};

use super::{Limit, Mentions};

fn text(notice: &Notice, may_be_duplicate: bool, limit: Limit) -> String {
    super::text(notice, may_be_duplicate, limit, Mentions::Relayed)
}

fn chat(notice: &Notice, may_be_duplicate: bool, limit: Limit) -> String {
    super::chat(notice, may_be_duplicate, limit, Mentions::Relayed)
}

fn notice(more: &Value) -> Notice {
    let mut fields = json!({
        "event": "completed", "task_id": "codex-0123456789abcdef0123456789abcdef", "status": "completed", "prompt": "fix the test",
        "cwd": "/work", "at": 0,
    });
    for (name, value) in more.as_object().unwrap() {
        fields[name] = value.clone();
    }
    serde_json::from_value(fields).unwrap()
}

const WIDE: Limit = Limit::Chars(10_000);

#[test]
fn a_completed_task_is_told_in_short() {
    let notice = notice(&json!({
        "answer": "It was a race.\n", "work_ms": 185_000, "tokens": 12_345, "files": ["src/a.rs", "src/b.rs"],
        "more_files": 3,
    }));
    insta::assert_snapshot!(text(&notice, false, WIDE), @r"
    Codex task codex-0123456789ab completed
    Asked: fix the test

    It was a race.

    3 min 05 s · 12k tokens · 5 files changed
      src/a.rs
      src/b.rs
      and 3 more
    ");
}

#[test]
fn a_failure_says_why_and_a_repetition_that_it_may_be_one() {
    let notice = notice(&json!({
        "event": "failed", "status": "lost", "reason": "its host died", "work_ms": 400,
        "error": {"kind": "x", "message": "the model is gone"},
    }));
    insta::assert_snapshot!(text(&notice, true, WIDE), @r"
    (may be a duplicate: this may have been sent before)
    Codex task codex-0123456789ab: lost
    Asked: fix the test

    Error: the model is gone
    Why: its host died

    0.4 s
    ");
}

#[test]
fn an_approval_shows_all_that_it_covers_and_how_to_answer() {
    let ask = json!({
        "kind": "command", "title": "Run a command?",
        "details": [
            {"label": "Command", "text": "if [[ -f x ]]; then\n  npm i @types/node\nfi"},
            {"label": "Directory", "text": "/work"}, {"label": "Reason", "text": "it is needed"},
        ],
    });
    let notice = notice(&json!({
        "event": "approval", "status": "working",
        "requests": [{"request_id": "req-12ab34cd12ab34cd12ab34cd12ab34cd", "ask": ask, "expires_at": 60_000}],
    }));
    insta::assert_snapshot!(text(&notice, false, WIDE), @r"
    Codex task codex-0123456789ab needs approval
    Asked: fix the test

    Run a command?
    Command:
      if [[ -f x ]]; then
        npm i @types/node
      fi
    Directory: /work
    Reason: it is needed
    Approve: codex-bridge approve codex-0123456789ab req-12ab34cd12ab
    Decline: codex-bridge decline codex-0123456789ab req-12ab34cd12ab
    Declined automatically at 1970-01-01T00:01:00.000Z.
    ");
}

#[test]
fn a_secret_is_never_asked_for_in_a_chat() {
    let ask = json!({
        "kind": "questions", "title": "Codex asks",
        "questions": [{"id": "q1", "text": "The token?", "is_secret": true}],
    });
    let notice = notice(&json!({
        "event": "question", "status": "working", "requests": [{"request_id": "req-1", "ask": ask}],
    }));
    let said = chat(&notice, false, WIDE);
    let elsewhere = "codex-bridge answer codex-0123456789ab req-1 -";
    assert!(said.contains("q1: The token?") && said.contains(elsewhere), "{said}");
    assert!(!said.contains("/answer"), "{said}");
}

#[test]
fn a_question_shows_its_choices() {
    let ask = json!({
        "kind": "questions", "title": "Codex asks", "details": [],
        "questions": [{"id": "q1", "text": "Which one?", "options": [{"label": "red"}, {"label": "blue"}]}],
    });
    let notice = notice(&json!({
        "event": "question", "status": "working", "requests": [{"request_id": "req-1", "ask": ask}],
    }));
    let text = text(&notice, false, WIDE);
    assert!(text.contains("q1: Which one?\n  - red\n  - blue\nAnswer: codex-bridge answer"), "{text}");
}

#[test]
fn a_long_answer_is_cut_in_the_platforms_own_unit() {
    let notice = notice(&json!({ "answer": "𝄞é".repeat(4000), "work_ms": 1000 }));
    for limit in [Limit::Chars(500), Limit::Utf16(500), Limit::Bytes(500), Limit::Utf16(4096)] {
        let text = text(&notice, false, limit);
        let length = limit.length(&text);
        assert!((limit.max() - 4..=limit.max()).contains(&length), "{limit:?}: {length}");
        assert!(text.contains("`codex-bridge show codex-0123456789ab` shows all of it"), "{text}");
        assert!(text.ends_with("1.0 s"), "the end stays: {text}");
    }
    // Where not even the frame fits, it is still cut.
    assert_eq!(Limit::Bytes(20).length(&text(&notice, false, Limit::Bytes(20))), 20);
}

#[test]
fn what_json_makes_longer_is_counted_as_it_stands_there() {
    let notice = notice(&json!({ "answer": "say \"\\\" and 𝄞\n".repeat(4000) }));
    let limit = Limit::JsonBytes(18_000);
    let text = text(&notice, false, limit);
    let in_json = serde_json::to_string(&text).unwrap().len() - 2;
    assert_eq!(in_json, limit.length(&text));
    assert!((17_990..=18_000).contains(&in_json), "{in_json}");
}

#[test]
fn an_answer_that_was_cut_before_says_so() {
    let text = text(&notice(&json!({ "answer": "a beginning", "answer_cut_chars": 7 })), false, WIDE);
    assert!(text.contains("a beginning\n… (cut;"), "{text}");
}

#[test]
fn what_is_about_no_task_names_none_when_it_is_cut() {
    let reply = notice(&json!({"event": "reply", "task_id": NO_TASK, "answer": "x".repeat(500)}));
    assert!(chat(&reply, false, Limit::Chars(200)).ends_with("x\n… (cut)"));
}

#[test]
fn what_stands_at_the_end_stays_whole_however_much_is_cut() {
    let closing = "[re: row-1] [codex-bridge hop 2]";
    let long =
        notice(&json!({"event": "reply", "answer": "x".repeat(500), "closing": closing, "prompt": ""}));
    for said in [chat(&long, false, Limit::Chars(200)), text(&long, false, Limit::Utf16(200))] {
        assert!(said.ends_with(closing) && said.chars().count() <= 200, "{said}");
        assert!(said.contains("… (cut"), "{said}");
    }
    let cut_before =
        notice(&json!({"event": "reply", "answer": "x", "answer_cut_chars": 9, "closing": closing}));
    assert!(chat(&cut_before, false, WIDE).ends_with(closing));
}
