//! The notifications of a turn, in the shapes of codex 0.166.

use serde_json::{Value, json};

use super::{Item, Step, group, item, notify, reply_turn, turn_object};

/// `turn/started`.
pub fn started() -> Step {
    notify("turn/started", json!({ "threadId": "$thread", "turn": turn_object("inProgress") }))
}

/// `turn/completed`, with the turn's last agent message as the real one has it.
pub fn completed() -> Step {
    ended("completed").with("/turn/items", "$summary")
}

/// `turn/completed` without the agent message.
pub fn completed_without_message() -> Step {
    ended("completed")
}

/// `turn/completed` of an interrupted turn.
pub fn interrupted() -> Step {
    ended("interrupted")
}

/// `turn/completed` of a failed turn.
pub fn failed(message: &str, codex_error_info: impl Into<Value>) -> Step {
    ended("failed").with("/turn/error", error_object(message, &codex_error_info.into()))
}

/// `turn/completed` of a failed turn that does not say why.
pub fn failed_without_error() -> Step {
    ended("failed")
}

/// An `error` after which Codex tries again.
pub fn error_retried(message: &str, codex_error_info: impl Into<Value>) -> Step {
    error(message, &codex_error_info.into(), true)
}

/// An `error` that ends the turn; the real one sends [`failed`] after it.
pub fn error_final(message: &str, codex_error_info: impl Into<Value>) -> Step {
    error(message, &codex_error_info.into(), false)
}

/// A whole agent message: started and completed.
pub fn message(text: &str) -> Step {
    item::agent(text).lifecycle()
}

/// A whole agent message with a phase: `commentary` or `final_answer`.
pub fn message_in_phase(text: &str, phase: &str) -> Step {
    item::agent(text).with("phase", phase).lifecycle()
}

/// A whole agent message that comes in chunks first.
pub fn streamed_message(chunks: &[&str]) -> Step {
    let whole: Item = item::agent(&chunks.concat());
    let mut steps = vec![whole.started()];
    steps.extend(chunks.iter().map(|chunk| delta(chunk)));
    steps.push(whole.completed());
    Step::FreshItem(steps)
}

/// A piece of the agent message `$item`.
pub fn delta(text: &str) -> Step {
    notify("item/agentMessage/delta", of_item(json!({ "delta": text })))
}

/// A piece of the reasoning summary of `$item`.
pub fn reasoning_delta(text: &str) -> Step {
    notify("item/reasoning/summaryTextDelta", of_item(json!({ "delta": text, "summaryIndex": 0 })))
}

/// `thread/tokenUsage/updated`: the last response's tokens and the whole thread's.
pub fn token_usage(last_total: u64, thread_total: u64) -> Step {
    notify(
        "thread/tokenUsage/updated",
        json!({
            "threadId": "$thread",
            "turnId": "$turn",
            "tokenUsage": {
                "total": tokens(thread_total),
                "last": tokens(last_total),
                "modelContextWindow": 258_400,
            },
        }),
    )
}

/// `account/rateLimits/updated` with one window.
pub fn rate_limits(used_percent: u64, resets_at_s: i64) -> Step {
    let window = json!({ "usedPercent": used_percent, "windowDurationMins": 300, "resetsAt": resets_at_s });
    notify(
        "account/rateLimits/updated",
        json!({ "rateLimits": { "limitId": "codex", "limitName": null, "primary": window, "secondary": null } }),
    )
}

/// `turn/diff/updated`.
pub fn diff(text: &str) -> Step {
    notify("turn/diff/updated", json!({ "threadId": "$thread", "turnId": "$turn", "diff": text }))
}

/// `warning` about this thread.
pub fn warning(message: &str) -> Step {
    notify("warning", json!({ "threadId": "$thread", "message": message }))
}

/// The deprecated `thread/compacted`.
pub fn compacted() -> Step {
    notify("thread/compacted", json!({ "threadId": "$thread", "turnId": "$turn" }))
}

/// `thread/status/changed` to active.
pub fn status_active() -> Step {
    status(&json!({ "type": "active", "activeFlags": [] }))
}

/// `thread/status/changed` to active and waiting for an approval.
pub fn status_waiting_on_approval() -> Step {
    status(&json!({ "type": "active", "activeFlags": ["waitingOnApproval"] }))
}

/// `thread/status/changed` to idle.
pub fn status_idle() -> Step {
    status(&json!({ "type": "idle" }))
}

/// `thread/status/changed` to the state after a failed turn.
pub fn status_system_error() -> Step {
    status(&json!({ "type": "systemError" }))
}

/// A whole turn as the real one plays it: the answer to `turn/start`, one message, its usage, the end.
pub fn happy_turn(text: &str) -> Step {
    group([
        reply_turn(),
        status_active(),
        started(),
        item::user("$prompt").with("clientId", "$client_id").with("content", "$input").lifecycle(),
        streamed_message(&[text]),
        token_usage(1290, 1290),
        status_idle(),
        completed(),
    ])
}

fn ended(status: &str) -> Step {
    notify("turn/completed", json!({ "threadId": "$thread", "turn": turn_object(status) }))
}

fn error(message: &str, codex_error_info: &Value, will_retry: bool) -> Step {
    notify(
        "error",
        json!({
            "error": error_object(message, codex_error_info),
            "willRetry": will_retry,
            "threadId": "$thread",
            "turnId": "$turn",
        }),
    )
}

fn error_object(message: &str, codex_error_info: &Value) -> Value {
    json!({
        "message": message,
        "codexErrorInfo": codex_error_info,
        "additionalDetails": null,
        "misalignment": null,
    })
}

fn status(status: &Value) -> Step {
    notify("thread/status/changed", json!({ "threadId": "$thread", "status": status }))
}

fn tokens(total: u64) -> Value {
    let output = total / 10;
    json!({
        "totalTokens": total,
        "inputTokens": total - output,
        "cachedInputTokens": 0,
        "cacheWriteInputTokens": 0,
        "outputTokens": output,
        "reasoningOutputTokens": 0,
    })
}

fn of_item(mut params: Value) -> Value {
    params["threadId"] = json!("$thread");
    params["turnId"] = json!("$turn");
    params["itemId"] = json!("$item");
    params
}
