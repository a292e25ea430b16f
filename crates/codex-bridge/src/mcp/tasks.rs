//! The Tasks extension (`io.modelcontextprotocol/tasks`, 2026-07-28) over our own tasks: what it calls a task is a turn of
//! one of ours, so it survives whatever ours survive.

use std::collections::HashSet;

use codex_bridge_core::task::Status;
use codex_session::Decision;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use rmcp::model::{
    DetailedTask, ElicitResult, ErrorData, GetTaskResult, InputResponses, Task as McpTask, TaskPayload,
    TaskStatus,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::Value;

use super::access::Access;
use super::request_form::{self, Manner, how_to_answer};
use super::result::{About, error};
use super::turn::{Finished, Standing, TurnRef};
use crate::failure::{Code, Failure};
use crate::view::{Request, Task};

/// How often clients should look: a look reads one log.
const POLL_MS: u64 = 1000;

/// What a client is given in place of a result, with what was asked for and left out: whoever looks later does not know
/// what was asked.
pub fn begun(turn: &TurnRef, task: &Task, notes: &[String]) -> McpTask {
    let handle = handle(turn, task);
    if notes.is_empty() { handle } else { handle.with_status_message(notes.join("; ")) }
}

fn handle(turn: &TurnRef, task: &Task) -> McpTask {
    McpTask::new(turn.name(), TaskStatus::Working, &task.created_at, &task.updated_at)
        .with_poll_interval_ms(POLL_MS)
}

/// `tasks/get`.
pub async fn get(
    access: &Access,
    id: &str,
    context: &RequestContext<RoleServer>,
) -> Result<GetTaskResult, ErrorData> {
    let turn = TurnRef::named(id);
    let (task, Standing { finished, .. }) = look(access, &turn).await.map_err(error)?;
    let handle = handle(&turn, &task);
    let (handle, payload) = match finished {
        Some(finished) if finished.goes_on => {
            let why = finished.reason.unwrap_or_default();
            let message = format!("{}: {why}; it goes on by itself", finished.status);
            (handle.with_status_message(message), TaskPayload::Working)
        }
        Some(finished) => (handle, ended(&turn, &task, &finished)),
        None => under_way(handle, &task, Manner::of(access, context)),
    };
    Ok(GetTaskResult::new(DetailedTask::new(handle, payload)))
}

/// The task of a turn, and how the turn stands.
pub async fn look(access: &Access, turn: &TurnRef) -> Result<(Task, Standing), Failure> {
    // In this order: if no turn has come after this one when the turns are read, the task was read as this one left it.
    let task = access.show(&turn.task_id).await?;
    let turns = access.turns(&turn.task_id).await?;
    let standing = turn.standing(&task, &turns)?;
    Ok((task, standing))
}

fn ended(turn: &TurnRef, task: &Task, finished: &Finished) -> TaskPayload {
    if finished.status == Status::Cancelled {
        return TaskPayload::Cancelled;
    }
    let about = About { turn, thread_id: task.thread_id.as_deref(), client_request_id: None, notes: &[] };
    match serde_json::to_value(about.finished(finished)) {
        Ok(Value::Object(result)) => TaskPayload::Completed { result },
        _ => TaskPayload::Working,
    }
}

fn under_way(handle: McpTask, task: &Task, manner: Manner) -> (McpTask, TaskPayload) {
    let asked = request_form::input_requests(&task.pending_requests);
    if manner != Manner::Never && !asked.is_empty() {
        return (handle, TaskPayload::InputRequired { input_requests: asked });
    }
    let open: Vec<String> = task.pending_requests.iter().map(how_to_answer).collect();
    let message = if open.is_empty() { task.status.to_string() } else { open.join("\n") };
    (handle.with_status_message(message), TaskPayload::Working)
}

/// `tasks/update`.
pub async fn update(access: &Access, id: &str, responses: &InputResponses) -> Result<(), ErrorData> {
    decide(access, &TurnRef::named(id).task_id, responses).await.map(drop).map_err(error)
}

/// Passes on what people decided; gives the requests that they did not decide.
pub async fn decide(
    access: &Access,
    task_id: &str,
    responses: &InputResponses,
) -> Result<HashSet<String>, Failure> {
    if !access.may_decide {
        return Err(super::may_not_decide());
    }
    let open = access.show(task_id).await?.pending_requests;
    pass_on(open, responses, |request, decision| {
        let access = access.clone();
        async move { access.decide(&request, &decision).await }.boxed()
    })
    .await
}

/// A request that is not open any more is left alone: a client sends its answers again when it does not know what became of
/// them. A decision that fails keeps no other back; the first failure is told at the end.
async fn pass_on(
    mut open: Vec<Request>,
    responses: &InputResponses,
    decide: impl Fn(Request, Decision) -> BoxFuture<'static, Result<(), Failure>>,
) -> Result<HashSet<String>, Failure> {
    let mut undecided = HashSet::new();
    let mut failed = None;
    for (name, answer) in responses {
        let Some(place) = open.iter().position(|open| request_form::name(open) == *name) else { continue };
        let request = open.swap_remove(place);
        let answer: Option<ElicitResult> = serde_json::from_value(answer.clone()).ok();
        match answer.and_then(|answer| request_form::decision(&request, &answer)) {
            Some(decision) => failed = failed.or(decide(request, decision).await.err()),
            None => {
                undecided.insert(request.request_id);
            }
        }
    }
    failed.map_or(Ok(undecided), Err)
}

/// `tasks/cancel`. A turn that has finished is as good as cancelled; one that runs since then is somebody else's.
pub async fn cancel(access: &Access, id: &str) -> Result<(), ErrorData> {
    let turn = TurnRef::named(id);
    let (_, Standing { finished, last }) = look(access, &turn).await.map_err(error)?;
    if finished.is_some_and(|finished| !finished.goes_on) {
        return Ok(());
    }
    match access.interrupt(&turn.task_id, last).await {
        Err(failure) if failure.code != Code::WrongState => Err(error(failure)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use serde_json::json;

    use super::*;

    fn request(id: &str) -> Request {
        let request = json!({
            "task_id": "codex-1", "request_id": id, "digest": "d", "kind": "command", "title": "Run this?", "reason": null,
            "details": [], "hidden_secrets": 0, "decisions": ["accept", "decline"], "method": "m",
            "created_at": "", "state": "open",
        });
        serde_json::from_value(request).unwrap()
    }

    #[tokio::test]
    async fn an_answer_that_fails_keeps_no_other_back_and_is_told_at_the_end() {
        let open = || ["a", "b", "c"].map(request).to_vec();
        let decided = Mutex::new(Vec::new());
        let decide = |request: Request, _: Decision| {
            decided.lock().unwrap().push(request.request_id.clone());
            let is_full = request.request_id == "a";
            let failure = Failure::new(Code::StoreFull, "no space");
            async move { if is_full { Err(failure) } else { Ok(()) } }.boxed()
        };
        let yes = json!({ "action": "accept", "content": { "decision": "accept" } });
        // One that was answered before is sent again, as clients do that do not know whether it was heard; and one is to
        // something that is not asked any more.
        let answers =
            ["a.d", "answered.d", "b.d", "b.other", "c.d"].map(|name| (name.to_owned(), yes.clone()));
        let failure = pass_on(open(), &answers.into(), decide).await.unwrap_err();
        assert_eq!(failure.code, Code::StoreFull);
        assert_eq!(*decided.lock().unwrap(), ["a", "b", "c"]);
        let only_good = ["answered.d", "b.d"].map(|name| (name.to_owned(), yes.clone()));
        assert_eq!(pass_on(open(), &only_good.into(), decide).await.unwrap(), HashSet::new());
    }
}
