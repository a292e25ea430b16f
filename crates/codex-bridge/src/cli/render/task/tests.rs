use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{ending, table, task, time_ms};
use crate::cli::render::paint::Paint;
use crate::cli::render::width::columns;
use crate::view::{ShortTask, Task};

const NOW: &str = "2026-01-02T03:10:00Z";

fn tasks<T: DeserializeOwned>() -> Vec<T> {
    let shapes = json!([
        {
            "task_id": "codex-0123456789abcdef0123456789abcdef", "status": "waiting_for_approval", "cwd": "/home/ana/code/a-project-with-a-long-name",
            "prompt_summary": "Fix the flaky test in the parser\nand explain why it was flaky in the first place",
            "sandbox": "read-only", "approval_policy": "untrusted", "created_at": "2026-01-02T03:04:05Z",
            "updated_at": "2026-01-02T03:04:06Z",
            "pending_requests": [{
                "task_id": "codex-0123456789abcdef0123456789abcdef", "request_id": "req-0102030405060708090a0b0c0d0e0f10", "kind": "command", "reason": null,
                "hidden_secrets": 0, "decisions": ["accept"], "method": "m", "state": "open", "created_at": "2026-01-02T03:04:05Z", "title": "Let Codex run a command?",
                "details": [{"label": "Command", "text": "cargo test"}, {"label": "Directory", "text": "/home/ana/work"}],
            }],
        },
        {
            "task_id": "codex-ba9876543210fedcba9876543210fedc", "status": "completed", "cwd": "/srv/x", "prompt_summary": "日本語で説明して",
            "sandbox": "workspace-write", "approval_policy": "on-request", "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-01T00:02:05Z", "completed_at": "2026-01-01T00:02:05Z", "model": "gpt-5.5",
            "thread_id": "0199-thread",
            "final_text": "All is explained. It was the clock, which is read twice, and between the two readings anything may happen.",
        },
        {
            "task_id": "codex-00000000000f", "status": "failed", "cwd": "/srv/x", "prompt_summary": "x",
            "sandbox": "read-only", "approval_policy": "untrusted", "created_at": "2026-01-02T03:09:59Z",
            "error": {"kind": "provider", "message": "the provider is overloaded"},
        },
    ]);
    let whole = |shape: &Value| {
        let tokens = json!({"total_tokens": 12_345, "input_tokens": 0, "cached_input_tokens": 0, "output_tokens": 0, "reasoning_output_tokens": 0});
        let mut whole = json!({
            "reason": null, "thread_id": null, "turn_id": null, "model": null, "effort": null, "final_text": null,
            "error": null, "usage": null, "pending_requests": [], "limits": {}, "used": {}, "notify_target": null,
            "notification": {}, "updated_at": NOW, "completed_at": null, "host": null,
        });
        whole.as_object_mut().unwrap().extend(shape.as_object().unwrap().clone());
        if shape["status"] == "completed" {
            whole["usage"] = json!({"total": tokens, "last": tokens, "model_context_window": null});
        }
        serde_json::from_value(whole).unwrap()
    };
    shapes.as_array().unwrap().iter().map(whole).collect()
}

fn tabled(width: usize) -> String {
    let lines = table(&tasks::<ShortTask>(), Paint::Plain, width, time_ms(NOW));
    assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
    lines.join("\n")
}

#[test]
fn tasks_are_listed_in_a_wide_window() {
    insta::assert_snapshot!(tabled(120));
}

#[test]
fn tasks_are_listed_in_an_ordinary_window() {
    insta::assert_snapshot!(tabled(80));
}

#[test]
fn tasks_are_listed_in_a_narrow_window() {
    insta::assert_snapshot!(tabled(40));
}

#[test]
fn a_task_is_shown_with_what_it_waits_for() {
    insta::assert_snapshot!(task(&tasks::<Task>()[0], Paint::Plain, 70, time_ms(NOW)).join("\n"));
}

#[test]
fn a_finished_task_is_shown_with_its_answer() {
    insta::assert_snapshot!(task(&tasks::<Task>()[1], Paint::Plain, 60, time_ms(NOW)).join("\n"));
}

#[test]
fn the_end_of_a_task_is_one_line_or_two() {
    let ends = |width| {
        let lines: Vec<String> =
            tasks::<Task>().iter().flat_map(|task| ending(task, 125_000, Paint::Plain, width)).collect();
        assert!(lines.iter().all(|line| columns(line) <= width), "{lines:#?}");
        lines.join("\n")
    };
    insta::assert_snapshot!(format!("{}\n---\n{}", ends(80), ends(40)));
}
