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

/// Passes on what people decided; gives the requests that they did not decide. What is not open any more is left alone: a
/// client sends its answers again when it does not know what became of them. One that fails keeps no other back; the
/// first failure is told at the end.
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
    let mut failed = None;
    for (name, answer) in responses {
        let Some(request) = task.pending_requests.iter().find(|open| asking::name(open) == *name) else {
            continue;
        };
        let answer: Option<ElicitResult> = serde_json::from_value(answer.clone()).ok();
        match answer.and_then(|answer| asking::decision(request, &answer)) {
            Some(decision) => {
                let decided = access.client.decide(task_id, request.shown(), &decision).await;
                failed = failed.or(decided.err());
            }
            None => {
                undecided.insert(request.request_id.clone());
            }
        }
    }
    failed.map_or(Ok(undecided), Err)
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

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use axum::extract::Path;
    use axum::routing::{get, post};
    use axum::{Json, Router};
    use serde_json::json;

    use super::*;
    use crate::client::Client;
    use crate::http::{Caller, Refusal};

    /// A daemon whose one task asks three things at once, of which the first cannot be decided.
    fn asking_daemon(decided: Arc<Mutex<Vec<String>>>) -> Router {
        let request = |id: &str| {
            json!({
                "task_id": "codex-1", "request_id": id, "digest": "d", "kind": "command", "title": "Run this?", "reason": null,
                "details": [], "hidden_secrets": 0, "decisions": ["accept", "decline"], "method": "m",
                "created_at": "", "state": "open",
            })
        };
        let open = ["a", "b", "c"].map(request);
        let task = json!({
            "task_id": "codex-1", "status": "waiting_for_approval", "prompt_summary": "", "cwd": "/",
            "sandbox": "read-only", "approval_policy": "untrusted", "limits": {}, "used": {}, "notification": {},
            "created_at": "", "updated_at": "", "pending_requests": open,
        });
        let decide = move |Path((task, id)): Path<(String, String)>| async move {
            decided.lock().unwrap().push(id.clone());
            if id == "a" {
                return Err(Refusal::from(Failure::new("store_full", "no space")));
            }
            Ok(Json(json!({ "task_id": task, "request_id": id, "outcome": "resolved" })))
        };
        Router::new()
            .route("/v1/tasks/codex-1", get(async move || Json(task)))
            .route("/v1/tasks/{id}/requests/{request}/decision", post(decide))
    }

    #[tokio::test]
    async fn an_answer_that_fails_keeps_no_other_back_and_is_told_at_the_end() {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let client = Client::within(asking_daemon(Arc::clone(&asked)), Caller::local());
        let access = Access { client: Arc::new(client), may_decide: true, cwd: None };
        let yes = json!({ "action": "accept", "content": { "decision": "accept" } });
        // One that was answered before is sent again, as clients do that do not know whether it was heard; and one is to
        // something that is not asked any more.
        let answers =
            ["a.d", "answered.d", "b.d", "b.other", "c.d"].map(|name| (name.to_owned(), yes.clone()));
        let failure = decide(&access, "codex-1", &answers.into()).await.unwrap_err();
        assert_eq!(failure.code, "store_full");
        assert_eq!(*asked.lock().unwrap(), ["a", "b", "c"]);
        let only_good = ["answered.d", "b.d"].map(|name| (name.to_owned(), yes.clone()));
        assert_eq!(decide(&access, "codex-1", &only_good.into()).await.unwrap(), HashSet::new());
    }
}
