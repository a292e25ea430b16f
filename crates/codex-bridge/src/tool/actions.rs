//! The actions of the tool, one function each.

use std::path::PathBuf;
use std::time::Duration;

use codex_bridge_core::TaskView;
use codex_bridge_core::bridge::{DecisionOutcome, DecisionReport, Giver, NewBranch, Telling};
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::Status;
use codex_session::{Decision, SteerOutcome};
use serde_json::{Map, Value, json};

use super::call::{Action, Call};
use super::reply;
use crate::calls::{Door, Limits, Start, answers_of, decision_word};
use crate::failure::Failure;
use crate::http::{App, Caller, requests, tasks};
use crate::view;

/// How many events `status` shows.
const RECENT_EVENTS: u32 = 20;
/// How long `start` waits for the turn to begin, so that its reply can name it.
const BEGIN_LIMIT: Duration = Duration::from_secs(10);
/// The longest that `wait` waits: agents' own calls time out soon after.
const WAIT_LIMIT_S: f64 = 50.0;
/// How an agent of this machine's own user is called on the record.
const AGENT: &str = "agent";

type Reply = Result<Value, Failure>;

/// Who calls, for the record.
fn name(caller: &Caller) -> &str {
    if caller.is_here() { AGENT } else { &caller.name }
}

/// As whom they hand over work.
fn giver(caller: &Caller) -> Giver {
    Giver { name: name(caller).to_owned(), ..caller.giver() }
}

/// Refuses to go on with a task that the caller could not have begun.
pub async fn within_reach(app: &App, caller: &Caller, call: &Call) -> Result<(), Failure> {
    // A call without a task that we know goes on with nothing; the action itself says what is wrong with it.
    let id = call.task_id.as_deref();
    if app.bridge.find(id.unwrap_or_default()).await.is_err() {
        return Ok(());
    }
    match (call.action, id) {
        (Action::Steer, Some(id)) => tasks::may_steer(app, caller, id).await,
        (Action::Continue | Action::Fork, Some(id)) => tasks::within_reach(app, caller, id).await,
        _ => Ok(()),
    }
}

/// Puts on the record who commands what, unless what they do is recorded with it.
pub async fn note(app: &App, caller: &Caller, call: &Call) -> Result<(), Failure> {
    let action = match call.action {
        Action::Steer => "steer",
        Action::Interrupt | Action::Cancel => "interrupt",
        _ => return Ok(()),
    };
    // A call without a task that we know commands nothing; the action itself says what is wrong with it.
    let id = call.task_id.as_deref().unwrap_or_default();
    if app.bridge.find(id).await.is_err() { Ok(()) } else { tasks::note(app, name(caller), action, id).await }
}

pub async fn start(app: &App, caller: &Caller, call: Call, caller_cwd: Option<PathBuf>) -> Reply {
    let start = Start {
        caller_cwd,
        cwd: call.cwd,
        sandbox: call.sandbox,
        approval_policy: call.approval_policy,
        model: call.model,
        effort: call.effort,
        profile: call.profile,
        codex_home: call.codex_home,
        client_request_id: caller.own_name(call.client_request_id),
        notify_target: call.notify_target,
        limits: Limits::default(),
        ..Start::new(caller.door(Door::Agent), call.prompt.unwrap_or_default())
    };
    let started = tasks::hand_over(app, start, giver(caller)).await?;
    let view = until_begun(app, started).await?;
    let message = match view.task.status {
        Status::Queued => "Codex task accepted; it waits for its turn.",
        _ => "Codex task started through the app-server.",
    };
    with_task(app, &view, json!({ "message": message, "protocol": reply::protocol() })).await
}

/// The task once its turn has begun, or as it stands when that takes too long.
async fn until_begun(app: &App, started: TaskView) -> Result<TaskView, Failure> {
    let has_begun = |view: &TaskView| !matches!(view.task.status, Status::Queued | Status::Starting);
    Ok(app.bridge.wait_until(started.task.id.as_str(), BEGIN_LIMIT, has_begun).await?)
}

pub async fn status(app: &App, call: &Call) -> Reply {
    let view = app.bridge.show(call.task_id()?).await?;
    let events = app.bridge.last_events(&view.task.id, RECENT_EVENTS).await?;
    let mut task = reply::task(&view, events.last());
    task.insert("recent_events".to_owned(), events.iter().map(reply::recent_event).collect());
    Ok(json!({ "success": true, "task_id": view.task.id, "task": task }))
}

pub async fn list(app: &App, call: &Call) -> Reply {
    let limit = u32::try_from(call.limit()?).map_err(Failure::internal)?;
    let tasks = app.bridge.list(&TaskFilter { limit: Some(limit), ..TaskFilter::default() }).await?;
    let mut listed = Vec::new();
    for view in &tasks {
        let last = app.bridge.last_events(&view.task.id, 1).await?;
        listed.push(reply::task(view, last.last()));
    }
    Ok(json!({ "success": true, "tasks": listed }))
}

pub async fn notify_completed(app: &App, caller: &Caller, call: &Call) -> Reply {
    let dry_run = call.dry_run.unwrap_or_default();
    let telling = if dry_run { Telling::Rehearsal } else { Telling::Real };
    let all = app.bridge.tell_ended(call.limit()?, telling).await?;
    // Some ask every minute: only what was told is on the record, so that nothing else is crowded out of it.
    if !dry_run && !all.is_empty() {
        app.bridge.note(name(caller), "notify completed", None).await?;
    }
    let notifications: Vec<Value> = all.iter().map(reply::told).collect();
    Ok(json!({
        "success": true, "dry_run": dry_run, "processed": notifications.len(), "notifications": notifications,
    }))
}

pub async fn steer(app: &App, caller: &Caller, call: &Call) -> Reply {
    let text = call.needs("instruction", call.instruction.as_deref())?;
    let (outcome, message) = match app.bridge.steer(call.task_id()?, text, &giver(caller)).await? {
        SteerOutcome::Accepted => ("accepted", None),
        refused => view::steer_outcome(refused),
    };
    let view = app.bridge.show(call.task_id()?).await?;
    if outcome != "accepted" {
        let refused = || format!("Codex did not take it: {}", outcome.replace('_', " "));
        let why = message.map_or_else(refused, |why| format!("Codex has not confirmed it: {why}"));
        return Err(Failure::new("not_steered", why)
            .hint("look at the task's status; a task that has ended is continued instead"));
    }
    with_task(app, &view, json!({ "result": { "outcome": outcome, "turn_id": view.task.turn_id } })).await
}

pub async fn interrupt(app: &App, call: &Call) -> Reply {
    let view = app.bridge.interrupt(call.task_id()?).await?;
    let outcome = view::interrupt_outcome(view.task.status);
    with_task(app, &view, json!({ "result": { "outcome": outcome, "turn_id": view.task.turn_id } })).await
}

pub async fn respond(app: &App, caller: &Caller, call: &Call) -> Reply {
    let named = call.request_id.as_deref().or(call.instruction.as_deref());
    let request_id = call.needs("request_id", named)?;
    let decision = decision(call)?;
    let which = requests::which(caller, request_id, call.digest.as_deref())?;
    let report = app.bridge.decide(call.task_id()?, which, decision, name(caller)).await?;
    if !matches!(report.outcome, DecisionOutcome::Resolved | DecisionOutcome::Sent) {
        return Err(too_late(report));
    }
    let view = app.bridge.show(call.task_id()?).await?;
    let response = view::Decided::from(report);
    with_task(app, &view, json!({ "response": response })).await
}

/// Answers win over a decision: whoever gives them means them.
fn decision(call: &Call) -> Result<Decision, Failure> {
    match (&call.answers, call.decision.as_deref()) {
        (Some(answers), None | Some("accept" | "acceptForSession")) if !answers.is_empty() => {
            Ok(Decision::Answers(answers_of(&Value::Object(answers.clone()))?))
        }
        (_, None) => Ok(Decision::Decline),
        (_, Some("acceptAlways")) => {
            Err(Failure::new("unknown_decision", "acceptAlways is for people, not for agents")
                .hint("use accept, acceptForSession, decline or cancel"))
        }
        (_, Some(word)) => decision_word(word),
    }
}

/// Says what was decided, by whom and when.
fn too_late(report: DecisionReport) -> Failure {
    let decided = view::Decided::from(report);
    let first = match (&decided.decision, &decided.decided_by, &decided.decided_at) {
        (Some(what), Some(who), Some(when)) => format!(": {what}, by {who}, at {when}"),
        _ => String::new(),
    };
    let (code, what) = match decided.outcome.as_str() {
        "expired" => ("expired", "expired before it was answered"),
        "orphaned" => ("orphaned", "went away with its turn before it was answered"),
        _ => ("already_resolved", "was already decided"),
    };
    Failure::new(code, format!("request {} {what}{first}", decided.request_id))
        .hint("look at the task's status for what is open now")
}

pub async fn continue_task(app: &App, caller: &Caller, call: &Call) -> Reply {
    let prompt = call.needs("prompt", call.prompt.as_deref().or(call.instruction.as_deref()))?;
    let queued = app.bridge.continue_once(call.task_id()?, prompt, None, &giver(caller)).await?;
    let view = until_begun(app, queued).await?;
    with_task(app, &view, json!({ "message": "Codex goes on." })).await
}

pub async fn wait(app: &App, call: &Call) -> Reply {
    let limit = call.timeout_s.unwrap_or(WAIT_LIMIT_S);
    let out_of_range = || {
        Failure::new("bad_timeout", format!("timeout_s {limit} is out of range")).hint("use 0 to 50 seconds")
    };
    let limit = Duration::try_from_secs_f64(limit).map_err(|_| out_of_range())?;
    if limit > Duration::from_secs_f64(WAIT_LIMIT_S) {
        return Err(out_of_range());
    }
    let task_id = call.task_id()?;
    let view = tokio::select! {
        view = app.bridge.wait(task_id, limit) => view?,
        () = app.ended() => app.bridge.show(task_id).await?,
    };
    let is_over = view.task.status.is_at_rest() || !view.open_requests.is_empty();
    with_task(app, &view, json!({ "timed_out": !is_over })).await
}

pub async fn events(app: &App, call: &Call) -> Reply {
    let task = app.bridge.find(call.task_id()?).await?;
    let after = call.after.unwrap_or_default();
    let limit = u32::try_from(call.limit()?).map_err(Failure::internal)?;
    let events = app.bridge.events(&task.id, after, limit).await?;
    let next = events.last().map_or(after, |event| event.seq);
    let events: Vec<Value> = events.iter().map(reply::event).collect();
    Ok(
        json!({ "success": true, "task_id": task.id, "status": task.status, "events": events, "next_after": next }),
    )
}

pub async fn result(app: &App, call: &Call) -> Reply {
    let view = app.bridge.show(call.task_id()?).await?;
    let task = &view.task;
    if !task.status.is_at_rest() {
        let message = format!("task {} is {}: it has no result yet", task.id, task.status);
        return Err(Failure::new("wrong_state", message).hint("use wait"));
    }
    Ok(json!({
        "success": true, "task_id": task.id, "status": task.status, "final_text": task.final_text,
        "error": task.error, "reason": task.reason,
        "completed_at": task.completed_at.map(reply::seconds),
    }))
}

pub async fn fork(app: &App, caller: &Caller, call: &Call) -> Reply {
    let new = NewBranch { prompt: call.prompt.clone(), client_request_id: None, by: giver(caller) };
    let view = app.bridge.fork(call.task_id()?, new).await?;
    with_task(app, &view, json!({ "message": "Codex task branched." })).await
}

/// A success with the task and whatever else the action tells.
async fn with_task(app: &App, view: &TaskView, more: Value) -> Reply {
    let last = app.bridge.last_events(&view.task.id, 1).await?;
    let mut fields = Map::from_iter([("success".to_owned(), true.into())]);
    fields.insert("task_id".to_owned(), json!(view.task.id));
    fields.insert("task".to_owned(), Value::Object(reply::task(view, last.first())));
    fields.extend(more.as_object().cloned().unwrap_or_default());
    Ok(Value::Object(fields))
}
