//! The Tasks extension (`io.modelcontextprotocol/tasks`, 2026-07-28). An MCP task is one turn of a task of ours, so it
//! survives a restart like ours.

use std::collections::BTreeMap;

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
use super::request_form::{self, AskMethod, how_to_answer};
use super::result::{About, error};
use super::turn::{Finished, TurnRef, TurnState};
use crate::failure::{Code, Failure};
use crate::view::{Request, Task};

/// The poll interval for clients. Each poll reads a task and its turns.
const POLL_MS: u64 = 1000;

/// The MCP task that a client gets instead of a result. The message has the ignored arguments, because `tasks/get` does not
/// know the arguments.
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
    let (task, TurnState { finished, .. }) = read(access, &turn).await.map_err(error)?;
    let handle = handle(&turn, &task);
    let (handle, payload) = match finished {
        Some(finished) if finished.resumes => {
            let why = finished.reason.unwrap_or_default();
            let message = format!("{}: {why}; the task continues by itself", finished.status);
            (handle.with_status_message(message), TaskPayload::Working)
        }
        Some(finished) => (handle, payload(&turn, &task, &finished)),
        None => unfinished(handle, &task, AskMethod::of(access, context)),
    };
    Ok(GetTaskResult::new(DetailedTask::new(handle, payload)))
}

/// Reads the task of a turn and the state of the turn.
pub async fn read(access: &Access, turn: &TurnRef) -> Result<(Task, TurnState), Failure> {
    // The task is read first: if no later turn exists afterwards, the task still had this turn as its last.
    let task = access.show(&turn.task_id).await?;
    let turns = access.turns(&turn.task_id).await?;
    let state = turn.state(&task, &turns)?;
    Ok((task, state))
}

fn payload(turn: &TurnRef, task: &Task, finished: &Finished) -> TaskPayload {
    if finished.status == Status::Cancelled {
        return TaskPayload::Cancelled;
    }
    let about = About { turn, thread_id: task.thread_id.as_deref(), client_request_id: None, notes: &[] };
    match serde_json::to_value(about.finished(finished)) {
        Ok(Value::Object(result)) => TaskPayload::Completed { result },
        _ => TaskPayload::Working,
    }
}

fn unfinished(handle: McpTask, task: &Task, ask_method: AskMethod) -> (McpTask, TaskPayload) {
    let input_requests = request_form::input_requests(&task.pending_requests);
    if ask_method != AskMethod::Never && !input_requests.is_empty() {
        return (handle, TaskPayload::InputRequired { input_requests });
    }
    let open: Vec<String> = task.pending_requests.iter().map(how_to_answer).collect();
    let message = if open.is_empty() { task.status.to_string() } else { open.join("\n") };
    (handle.with_status_message(message), TaskPayload::Working)
}

/// `tasks/update`.
pub async fn update(access: &Access, id: &str, responses: &InputResponses) -> Result<(), ErrorData> {
    let undecided = decide(access, &TurnRef::named(id).task_id, responses).await.map_err(error)?;
    undecided.into_values().flatten().next().map_or(Ok(()), |invalid| Err(error(invalid)))
}

/// The requests that are still undecided, with the failure of an answer that was not valid.
pub type Undecided = BTreeMap<String, Option<Failure>>;

/// Passes on the decisions of people.
pub async fn decide(
    access: &Access,
    task_id: &str,
    responses: &InputResponses,
) -> Result<Undecided, Failure> {
    let open = access.show(task_id).await?.pending_requests;
    pass_on(open, responses, |request, decision| {
        let access = access.clone();
        async move { access.decide(&request, &decision).await }.boxed()
    })
    .await
}

/// Answers to closed requests are ignored: a client repeats its answers if it does not know whether they arrived. A failed
/// decision does not stop the others; the first failure is returned at the end. An answer that is not valid decides nothing.
async fn pass_on(
    mut open: Vec<Request>,
    responses: &InputResponses,
    decide: impl Fn(Request, Decision) -> BoxFuture<'static, Result<(), Failure>>,
) -> Result<Undecided, Failure> {
    let mut undecided = Undecided::new();
    let mut failed = None;
    for (name, answer) in responses {
        let Some(index) = open.iter().position(|open| request_form::name(open) == *name) else { continue };
        let request = open.swap_remove(index);
        let answer: Option<ElicitResult> = serde_json::from_value(answer.clone()).ok();
        let id = request.request_id.clone();
        let Some(decision) = answer.and_then(|answer| request_form::decision(&request, &answer)) else {
            undecided.insert(id, None);
            continue;
        };
        match decide(request, decision).await {
            Ok(()) => {}
            Err(late) if matches!(late.code, Code::AlreadyResolved | Code::Expired | Code::Orphaned) => {}
            Err(invalid) if invalid.code == Code::BadAnswers => drop(undecided.insert(id, Some(invalid))),
            Err(failure) => failed = failed.or(Some(failure)),
        }
    }
    failed.map_or(Ok(undecided), Err)
}

/// `tasks/cancel`. A finished turn counts as cancelled. A later turn of the same task is not touched.
pub async fn cancel(access: &Access, id: &str) -> Result<(), ErrorData> {
    let turn = TurnRef::named(id);
    let (_, TurnState { finished, last }) = read(access, &turn).await.map_err(error)?;
    if finished.is_some_and(|finished| !finished.resumes) {
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
    async fn a_failed_decision_does_not_stop_the_others_and_is_returned_at_the_end() {
        let open = || ["a", "b", "c"].map(request).to_vec();
        let decided = Mutex::new(Vec::new());
        let decide = |request: Request, _: Decision| {
            decided.lock().unwrap().push(request.request_id.clone());
            let is_full = request.request_id == "a";
            let failure = Failure::new(Code::StoreFull, "no space");
            async move { if is_full { Err(failure) } else { Ok(()) } }.boxed()
        };
        let yes = json!({ "action": "accept", "content": { "decision": "accept" } });
        // "answered.d" repeats an answer to a closed request; "b.other" has the digest of another request.
        let answers =
            ["a.d", "answered.d", "b.d", "b.other", "c.d"].map(|name| (name.to_owned(), yes.clone()));
        let failure = pass_on(open(), &answers.into(), decide).await.unwrap_err();
        assert_eq!(failure.code, Code::StoreFull);
        assert_eq!(*decided.lock().unwrap(), ["a", "b", "c"]);
        let only_good = ["answered.d", "b.d"].map(|name| (name.to_owned(), yes.clone()));
        assert_eq!(pass_on(open(), &only_good.into(), decide).await.unwrap(), Undecided::new());
    }

    #[tokio::test]
    async fn who_is_late_is_ignored_and_an_answer_that_is_not_valid_decides_nothing() {
        let failures = |request: Request, _: Decision| {
            let code = match request.request_id.as_str() {
                "a" => Code::AlreadyResolved,
                "b" => Code::Orphaned,
                _ => Code::BadAnswers,
            };
            async move { Err(Failure::new(code, "no")) }.boxed()
        };
        let yes = json!({ "action": "accept", "content": { "decision": "accept" } });
        let answers = ["a.d", "b.d", "c.d"].map(|name| (name.to_owned(), yes.clone()));
        let undecided =
            pass_on(["a", "b", "c"].map(request).to_vec(), &answers.into(), failures).await.unwrap();
        let invalid = Failure::new(Code::BadAnswers, "no");
        assert_eq!(undecided, BTreeMap::from([("c".to_owned(), Some(invalid))]));
    }
}
