//! The actions of the tool, one function each.

use std::path::PathBuf;
use std::time::Duration;

use codex_bridge_core::TaskView;
use codex_bridge_core::bridge::{self, NotifyMode};
use codex_bridge_core::desk::calls::{Decide, Fork, Prompt};
use codex_bridge_core::desk::{Caller, Desk};
use codex_bridge_core::request::DecisionWord;
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{ShownStatus, Status};
use serde_json::{Map, Value, json};

use super::call::Call;
use super::reply;
use crate::calls::timeout;
use crate::failure::Failure;
use crate::view::{self, OutcomeWord, no_result_yet};

/// The number of events that `status` shows.
const RECENT_EVENTS: u32 = 20;
/// How long `start` waits for the turn to begin, so that the reply has the turn's id.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// The longest wait. Agents' own calls time out soon after.
const WAIT_LIMIT: Duration = Duration::from_secs(50);

type Reply = Result<Value, Failure>;

pub async fn start(desk: &Desk, caller: &Caller, call: Call, caller_cwd: Option<PathBuf>) -> Reply {
    let started = desk.start(caller, call.into_start(caller_cwd)).await?;
    let view = until_begun(desk, caller, started).await?;
    let message = match view.task.status {
        Status::Queued => "Codex task accepted; it is queued.",
        _ => "Codex task started through the app-server.",
    };
    with_task(desk, caller, &view, json!({ "message": message, "protocol": reply::protocol() })).await
}

/// Waits until the turn has begun, but no longer than `BEGIN_LIMIT`.
async fn until_begun(desk: &Desk, caller: &Caller, started: TaskView) -> Result<TaskView, Failure> {
    let has_begun =
        |view: &TaskView| !matches!(view.status(), ShownStatus::Stored(Status::Queued | Status::Starting));
    Ok(desk.wait_until(caller, started.task.id.as_str(), BEGIN_LIMIT, has_begun).await?)
}

pub async fn status(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let view = desk.show(caller, call.task_id()?).await?;
    let events = desk.log(caller, view.task.id.as_str()).await?.last(RECENT_EVENTS).await?;
    let mut task = reply::task(&view, events.last());
    task.insert("recent_events".to_owned(), events.iter().map(reply::recent_event).collect());
    Ok(json!({ "success": true, "task_id": view.task.id, "task": task }))
}

pub async fn list(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let limit = Some(call.limit()?);
    let tasks = desk.list(caller, &TaskFilter { limit, ..TaskFilter::default() }).await?;
    let mut listed = Vec::new();
    for view in &tasks {
        let last = desk.log(caller, view.task.id.as_str()).await?.last(1).await?;
        listed.push(reply::task(view, last.last()));
    }
    Ok(json!({ "success": true, "tasks": listed }))
}

pub async fn notify_completed(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let dry_run = call.dry_run.unwrap_or_default();
    let mode = if dry_run { NotifyMode::DryRun } else { NotifyMode::Send };
    let notices = desk.notify_ended(caller, call.limit()? as usize, mode).await?;
    let notifications: Vec<Value> = notices.iter().map(reply::notification).collect();
    Ok(json!({
        "success": true, "dry_run": dry_run, "processed": notifications.len(), "notifications": notifications,
    }))
}

pub async fn steer(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let text = call.instruction.as_deref().unwrap_or_default();
    let view = desk.steer(caller, call.task_id()?, text).await?;
    with_task(
        desk,
        caller,
        &view,
        json!({ "result": { "outcome": OutcomeWord::Accepted, "turn_id": view.task.turn_id } }),
    )
    .await
}

pub async fn interrupt(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let view = desk.interrupt(caller, call.task_id()?, None).await?;
    let outcome = view::interrupt_outcome(view.task.status);
    with_task(desk, caller, &view, json!({ "result": { "outcome": outcome, "turn_id": view.task.turn_id } }))
        .await
}

pub async fn respond(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let named = call.request_id.as_deref().or(call.instruction.as_deref());
    let request_id = call.needs("request_id", named)?;
    let decide = Decide { decision: decision(call), digest: call.digest.clone(), revealed: false };
    let report = desk.decide(caller, call.task_id()?, request_id, &decide).await?;
    let view = desk.show(caller, call.task_id()?).await?;
    let response = view::Decided::from(report);
    with_task(desk, caller, &view, json!({ "response": response })).await
}

/// The decision. Answers take precedence over `accept` and `acceptForSession`.
fn decision(call: &Call) -> Value {
    let word = call.decision.as_deref().map(|word| DecisionWord::from(word.trim()));
    match (&call.answers, word) {
        (Some(answers), None | Some(DecisionWord::Accept | DecisionWord::AcceptForSession))
            if !answers.is_empty() =>
        {
            json!({ "answers": answers })
        }
        (_, word) => json!(word.unwrap_or(DecisionWord::Decline)),
    }
}

pub async fn continue_task(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let prompt = call.prompt.clone().or(call.instruction.clone()).unwrap_or_default();
    let turn = Prompt { prompt, client_request_id: None };
    let continued = desk.continue_task(caller, call.task_id()?, turn).await?;
    let view = until_begun(desk, caller, continued.view).await?;
    with_task(desk, caller, &view, json!({ "message": "Codex task continued." })).await
}

pub async fn wait(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let limit = timeout(call.timeout_s, WAIT_LIMIT)?;
    let task_id = call.task_id()?;
    let view = match desk.wait(caller, task_id, limit).await {
        Err(bridge::Error::Closing) => desk.show(caller, task_id).await?,
        waited => waited?,
    };
    let is_done = view.task.status.is_finished() || !view.open_requests.is_empty();
    with_task(desk, caller, &view, json!({ "timed_out": !is_done })).await
}

pub async fn events(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let task = desk.find(caller, call.task_id()?).await?;
    let after = call.after.unwrap_or_default();
    let events = desk.log(caller, task.id.as_str()).await?.after(after, call.limit()?).await?;
    let next = events.last().map_or(after, |event| event.seq);
    let events: Vec<Value> = events.iter().map(reply::event).collect();
    Ok(
        json!({ "success": true, "task_id": task.id, "status": task.status, "events": events, "next_after": next }),
    )
}

pub async fn result(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let view = desk.show(caller, call.task_id()?).await?;
    let task = &view.task;
    if !task.status.is_finished() {
        return Err(no_result_yet(&view));
    }
    Ok(json!({
        "success": true, "task_id": task.id, "status": task.status, "final_text": task.final_text,
        "error": task.error, "reason": task.reason,
        "completed_at": task.completed_at.map(reply::seconds),
    }))
}

pub async fn fork(desk: &Desk, caller: &Caller, call: &Call) -> Reply {
    let fork = Fork { prompt: call.prompt.clone(), client_request_id: None };
    let view = desk.fork(caller, call.task_id()?, fork).await?;
    with_task(desk, caller, &view, json!({ "message": "Codex task forked." })).await
}

/// A successful reply with the task and further fields.
async fn with_task(desk: &Desk, caller: &Caller, view: &TaskView, more: Value) -> Reply {
    let last = desk.log(caller, view.task.id.as_str()).await?.last(1).await?;
    let mut fields = Map::from_iter([("success".to_owned(), true.into())]);
    fields.insert("task_id".to_owned(), json!(view.task.id));
    fields.insert("task".to_owned(), Value::Object(reply::task(view, last.first())));
    fields.extend(more.as_object().cloned().unwrap_or_default());
    Ok(Value::Object(fields))
}
