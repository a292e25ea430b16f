use serde_json::{Value, json};

use super::*;

/// A notice with something in every field, as all versions have written them.
fn full(event: &str, status: &str) -> Value {
    json!({
        "event": event, "task_id": "codex-0123456789ab", "status": status, "prompt": "fix it", "cwd": "/srv",
        "answer": "Fixed.", "answer_cut_chars": 3, "error": {"kind": "model", "message": "cut off"},
        "reason": "so", "work_ms": 4, "tokens": 5, "files": ["a.rs"], "more_files": 6,
        "requests": [{"request_id": "req-1", "digest": "d", "ask": {"kind": "command", "title": "Run?"},
            "is_long": true, "was_shown": true, "expires_at": 7}],
        "more_requests": 8, "is_of_conversation": true, "closing": "[hop 1]", "in_reply_to": "m-1", "at": 9,
    })
}

/// The same with these fields as they are where they mean nothing.
fn without(mut record: Value, fields: &[&str]) -> Value {
    for field in fields {
        match *field {
            "prompt" => record["prompt"] = "".into(),
            "files" | "requests" => record[field] = json!([]),
            "answer_cut_chars" | "more_files" | "more_requests" => record[field] = 0.into(),
            _ => {
                record.as_object_mut().unwrap().remove(*field);
            }
        }
    }
    record
}

fn read(record: &Value) -> Notice {
    serde_json::from_value(record.clone()).unwrap()
}

/// Reads a record with something in every field, and what is written again: all but what means nothing there.
fn check(record: &Value, meaningless: &[&str]) -> Notice {
    let notice = read(record);
    let mut written = json!(notice);
    // What is asked has fields of its own, each of them empty here.
    for asked in written["requests"].as_array_mut().unwrap() {
        asked["ask"] = record["requests"][0]["ask"].clone();
    }
    assert_eq!(written, without(record.clone(), meaningless));
    assert_eq!(read(&json!(notice)), notice);
    notice
}

#[test]
fn what_was_written_with_all_fields_is_read_as_what_it_tells() {
    let of_requests = ["requests", "more_requests", "is_of_conversation"];
    let of_replies = ["closing", "in_reply_to"];
    let of_finished = ["answer", "answer_cut_chars", "error", "reason", "work_ms", "files", "more_files"];
    for (event, status) in [
        ("completed", "completed"),
        ("failed", "failed"),
        ("failed", "cancelled"),
        ("failed", "lost"),
        ("paused", "paused"),
    ] {
        let notice = check(&full(event, status), &[&of_requests[..], &of_replies].concat());
        let Content::Finished(rest) = notice.content else { panic!("{notice:?}") };
        assert_eq!(rest.answer, Some(Excerpt { text: "Fixed.".into(), cut_chars: 3 }));
    }
    for (event, is_question) in [("approval", false), ("question", true)] {
        let notice =
            check(&full(event, "working"), &[&of_finished[..], &of_replies, &["more_requests"]].concat());
        let Content::Asks(asks) = notice.content else { panic!("{notice:?}") };
        assert_eq!((asks.is_question, asks.in_conversation, asks.requests.len()), (is_question, true, 1));
    }
    let of_tasks = ["prompt", "tokens", "error", "reason", "work_ms", "files", "more_files"];
    let plain = without(full("reply", "working"), &of_requests);
    let notice = check(&plain, &of_tasks);
    assert!(matches!(&notice.content, Content::Reply(reply) if reply.task.is_some()), "{notice:?}");
    assert_eq!(notice.in_reply_to(), Some("m-1"));
}

#[test]
fn a_reply_that_asks_is_a_reminder() {
    let mut record = without(full("reply", "working"), &["closing", "in_reply_to", "answer_cut_chars"]);
    record["answer"] = REMINDER.into();
    let meaningless = [
        "prompt",
        "tokens",
        "error",
        "reason",
        "work_ms",
        "files",
        "more_files",
        "more_requests",
        "is_of_conversation",
    ];
    let notice = check(&record, &meaningless);
    assert!(matches!(notice.content, Content::Reminder(_)), "{notice:?}");
}

#[test]
fn what_is_about_no_task_has_one_in_json_all_the_same() {
    let reply = Notice { at: 1, content: Content::Reply(Reply::new(None, "so")) };
    let test = Notice { at: 1, content: Content::Test };
    for notice in [reply, test] {
        let record = json!(notice);
        assert_eq!((&record["task_id"], &record["status"]), (&json!(NO_TASK), &json!("completed")));
        assert_eq!(read(&record), notice);
    }
}
