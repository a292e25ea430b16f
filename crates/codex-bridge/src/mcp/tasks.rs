//! The Tasks extension (`io.modelcontextprotocol/tasks`, 2026-07-28) over our own tasks: what it calls a task is a
//! stretch of one of ours, so it survives whatever ours survive.

use std::collections::HashSet;

use codex_bridge_core::task::Status;
use rmcp::model::{
    DetailedTask, ElicitResult, ErrorData, GetTaskResult, InputResponses, Task as McpTask, TaskPayload,
    TaskStatus,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::Access;
use super::asking::{self, Manner, how_to_answer};
use super::result::{About, error};
use super::stretch::{Reading, Rest, Stretch};
use crate::failure::Failure;
use crate::view::Task;

/// How often clients should look: a look reads one log.
const POLL_MS: u64 = 1000;

/// What a client is given in place of a result, with what was asked for and left out: whoever looks later does not know
/// what was asked.
pub fn begun(stretch: &Stretch, task: &Task, notes: &[String]) -> McpTask {
    let handle = handle(stretch, task);
    if notes.is_empty() { handle } else { handle.with_status_message(notes.join("; ")) }
}

fn handle(stretch: &Stretch, task: &Task) -> McpTask {
    McpTask::new(stretch.name(), TaskStatus::Working, &task.created_at, &task.updated_at)
        .with_poll_interval_ms(POLL_MS)
}

/// `tasks/get`.
pub async fn get(
    access: &Access,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<GetTaskResult, ErrorData> {
    let stretch = Stretch::named(id);
    let task = access.client.show(&stretch.task_id).await.map_err(error)?;
    // What was looked at a second ago, and every second before that, need not be read each time.
    let is_first_turn = stretch.after == 0 && task.used.turns <= 1 && !task.status.is_at_rest();
    let rest = if is_first_turn {
        None
    } else {
        Reading::new(&stretch).catch_up(&access.client, &task).await.map_err(error)?
    };
    let handle = handle(&stretch, &task);
    let (handle, payload) = match rest {
        Some(rest) if rest.goes_on => {
            let why = rest.reason.unwrap_or_default();
            (
                handle.with_status_message(format!("{}: {why}; it goes on by itself", rest.status)),
                TaskPayload::Working,
            )
        }
        Some(rest) => (handle, ended(&stretch, &task, &rest)),
        None => under_way(handle, &task, Manner::of(access, context)),
    };
    Ok(GetTaskResult::new(DetailedTask::new(handle, payload)))
}

fn ended(stretch: &Stretch, task: &Task, rest: &Rest) -> TaskPayload {
    if rest.status == Status::Cancelled {
        return TaskPayload::Cancelled;
    }
    let about = About { stretch, thread_id: task.thread_id.as_deref(), client_request_id: None, notes: &[] };
    match serde_json::to_value(about.ended(rest)) {
        Ok(Value::Object(result)) => TaskPayload::Completed { result },
        _ => TaskPayload::Working,
    }
}

fn under_way(handle: McpTask, task: &Task, manner: Manner) -> (McpTask, TaskPayload) {
    let asked = asking::input_requests(&task.pending_requests);
    if manner != Manner::Never && !asked.is_empty() {
        return (handle, TaskPayload::InputRequired { input_requests: asked });
    }
    let open: Vec<String> = task.pending_requests.iter().map(how_to_answer).collect();
    let message = if open.is_empty() { task.status.as_str().replace('_', " ") } else { open.join("\n") };
    (handle.with_status_message(message), TaskPayload::Working)
}

/// `tasks/update`.
pub async fn update(access: &Access, id: &str, responses: &InputResponses) -> Result<(), ErrorData> {
    decide(access, &Stretch::named(id).task_id, responses).await.map(drop).map_err(error)
}

/// Passes on what people decided; gives the requests that they did not decide. What is not open any more is left alone.
pub async fn decide(
    access: &Access,
    task_id: &str,
    responses: &InputResponses,
) -> Result<HashSet<String>, Failure> {
    if !access.may_decide {
        return Err(super::may_not_decide());
    }
    let task = access.client.show(task_id).await?;
    let mut undecided = HashSet::new();
    for (id, answer) in responses {
        let Some(request) = task.pending_requests.iter().find(|open| open.request_id == *id) else {
            continue;
        };
        let answer: Option<ElicitResult> = serde_json::from_value(answer.clone()).ok();
        match answer.and_then(|answer| asking::decision(request, &answer)) {
            Some(decision) => {
                access.client.decide(task_id, Some(id), &decision).await?;
            }
            None => {
                undecided.insert(id.clone());
            }
        }
    }
    Ok(undecided)
}

/// `tasks/cancel`. What has ended by itself is as good as cancelled; a turn that runs since then is somebody else's.
pub async fn cancel(access: &Access, id: &str) -> Result<(), ErrorData> {
    let stretch = Stretch::named(id);
    let task = access.client.show(&stretch.task_id).await.map_err(error)?;
    let mut reading = Reading::new(&stretch);
    let rest = reading.catch_up(&access.client, &task).await.map_err(error)?;
    if rest.is_some_and(|rest| !rest.goes_on) {
        return Ok(());
    }
    if reading.has_gap && (task.used.turns > 1 || task.status == Status::Queued) {
        let why = "the log no longer tells whether what runs now is still this turn";
        let hint = format!("`codex-bridge interrupt {}` stops whatever runs", task.task_id);
        return Err(error(Failure::new("wrong_state", why).hint(hint)));
    }
    match access.client.interrupt(&stretch.task_id).await {
        Err(failure) if failure.code != "wrong_state" => Err(error(failure)),
        _ => Ok(()),
    }
}
