//! Tasks, events and requests in the tool's replies. Times are seconds since 1970, with a fraction.

use codex_bridge_core::TaskView;
use codex_bridge_core::bridge::{EndNotice, NotifyOutcome};
use codex_bridge_core::event::{Event, Line};
use codex_bridge_core::request::RequestRecord;
use codex_bridge_core::task::{NotificationStatus, TimeMs};
use serde_json::{Map, Value, json};

use crate::view;

/// The length of an event's summary.
const SUMMARY_CHARS: usize = 1200;
/// The length of the summary of a final answer; `final_text` has all of it.
const FINAL_SUMMARY_CHARS: usize = 500;

/// How the tool reaches Codex. Earlier bridges used a mailbox of files.
pub fn protocol() -> Value {
    json!({ "transport": "app-server unix socket", "mailbox": false })
}

/// A time in seconds.
pub fn seconds(ms: TimeMs) -> Value {
    // Exact for the next two hundred thousand years.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 have 41 bits, a float holds 53")]
    let seconds = ms as f64 / 1000.0;
    json!(seconds)
}

/// A task in full.
pub fn task(view: &TaskView, last_event: Option<&Event>) -> Map<String, Value> {
    let task = &view.task;
    let time = |ms: Option<TimeMs>| ms.map_or(Value::Null, seconds);
    let is_notified = task.notification.status != NotificationStatus::None;
    let mut fields = json!({
        "task_id": task.id,
        "hermes_task_id": task.id,
        "status": view.status(),
        "reason": task.reason,
        "prompt_summary": task.prompt_summary,
        "codex_thread_id": task.thread_id,
        "codex_turn_id": task.turn_id,
        "cwd": task.settings.cwd,
        "model": task.settings.model,
        "effort": task.settings.effort,
        "sandbox": task.settings.sandbox,
        "approval_policy": task.settings.approval_policy,
        "degraded_mode": "none",
        "last_progress_summary": last_event.map(|event| format!("{}: {}", event.line.kind(), summary(event))),
        "final_summary": task.final_text.as_ref().map(|text| cut(text, FINAL_SUMMARY_CHARS)),
        "final_text": task.final_text,
        "error_summary": task.error.as_ref().map(|error| cut(&error.message, FINAL_SUMMARY_CHARS)),
        "error": task.error,
        "usage": task.usage.as_ref().map(view::Usage::from),
        "notify_target": task.notify_target,
        "notification_status": is_notified.then_some(&task.notification.status),
        "notified_at": time(task.notification.sent_at),
        "notification_error": task.notification.error,
        "created_at": seconds(task.created_at),
        "updated_at": seconds(task.updated_at),
        "completed_at": time(task.completed_at),
        "host": task.host,
        "active_connection": task.status.is_running(),
        "pending_requests": view.open_requests.iter().map(request).collect::<Vec<_>>(),
    });
    fields.as_object_mut().map(std::mem::take).unwrap_or_default()
}

/// A pending request.
fn request(record: &RequestRecord) -> Value {
    let payload = view::Request::from(record.clone());
    json!({
        "request_id": record.request_id,
        "digest": record.digest,
        "method": record.method,
        "payload": payload,
        "status": "pending",
        "created_at": seconds(record.created_at),
    })
}

/// One line of a task's log, in short form.
pub fn recent_event(event: &Event) -> Value {
    json!({
        "seq": event.seq,
        "source_event_type": event.line.kind(),
        "normalized_status": match &event.line {
            Line::State(state) => Some(state.status),
            _ => None,
        },
        "payload_summary": summary(event),
        "created_at": seconds(event.at),
    })
}

/// One line of a task's log, in full.
pub fn event(event: &Event) -> Value {
    let mut line = json!(event.line);
    line["seq"] = event.seq.into();
    line["created_at"] = seconds(event.at);
    line
}

/// An event in one line.
fn summary(event: &Event) -> String {
    let text = match &event.line {
        Line::Message(message) => Some(message.text.as_str()),
        Line::Thought(thought) => Some(thought.text.as_str()),
        Line::Steered(steered) => steered.text.as_deref(),
        Line::TerminalInput(input) => Some(input.text.as_str()),
        Line::Retrying(retrying) => Some(retrying.message.as_str()),
        Line::Warning(warning) => Some(warning.message.as_str()),
        Line::Notice(notice) => Some(notice.message.as_str()),
        Line::TurnEnded(ended) => ended.final_text.as_deref(),
        Line::ToolStarted(call) => call.preview.as_deref(),
        Line::Request(request) => Some(request.title.as_str()),
        Line::State(state) => Some(state.status.as_str()),
        _ => None,
    };
    let whole = || serde_json::to_string(&event.line).unwrap_or_default();
    cut(&text.map_or_else(whole, str::to_owned), SUMMARY_CHARS)
}

/// The text in one line of at most this many characters. A cut is marked.
fn cut(text: &str, max_chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max_chars {
        return line;
    }
    let mut line: String = line.chars().take(max_chars - 1).collect();
    line.push('…');
    line
}

/// The notification about the end of one task.
pub fn notification(notice: &EndNotice) -> Value {
    let mut entry = json!({
        "task_id": notice.task.id,
        "status": notice.task.status,
        "target": notice.task.notify_target,
        "notification_status": "no_target",
        "sent": false,
        "message": notice.message,
    });
    match &notice.outcome {
        NotifyOutcome::NoTarget => {}
        NotifyOutcome::DryRun => entry["notification_status"] = "dry_run".into(),
        NotifyOutcome::Sent { at } => {
            entry["notification_status"] = "sent".into();
            entry["sent"] = true.into();
            entry["notified_at"] = seconds(*at);
            entry["delivery"] = json!({ "success": true, "target": notice.task.notify_target });
        }
        NotifyOutcome::Pending { error } => {
            entry["notification_status"] = "pending".into();
            if let Some(error) = error {
                entry["error"] = error.clone().into();
            }
        }
        NotifyOutcome::Failed { error } => {
            entry["notification_status"] = "failed".into();
            entry["error"] = error.clone().into();
        }
    }
    entry
}
