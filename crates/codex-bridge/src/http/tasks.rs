//! Tasks: start, list, show, wait, continue, steer, interrupt, fork and release them.

use std::time::Duration;

use axum::Json;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, LINK};
use axum::response::{AppendHeaders, IntoResponse, Response};
use codex_bridge_core::desk::calls::{Fork, Prompt, Start};
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::TaskId;

use super::{Body, Call, Path, Query, Refusal, Reply};
use crate::amount;
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::{self, Diff, Outcome, OutcomeWord, ShortTask, Task, TaskResult, Turn};

/// Tasks that finished longer ago are listed only on request.
const RECENT_MS: i64 = 24 * 60 * 60 * 1000;
/// The longest wait, and the wait without a timeout.
const MAX_WAIT: Duration = Duration::from_hours(24 * 365);

/// The caller's name for a request, as `client_request_id` in the body.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub async fn start(
    Call { app, caller }: Call,
    headers: HeaderMap,
    Body(mut start): Body<Start>,
) -> Reply<Task> {
    start.client_request_id = request_id(&headers, start.client_request_id)?;
    Ok(Json(app.desk.start(&caller, start).await?.into()))
}

/// The caller's name for a request, from the header or the body.
fn request_id(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, Failure> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(in_body) };
    let bad_key =
        |message: &str| Failure::new(Code::BadCall, message).hint("use up to 255 printable ASCII characters");
    let key = key.to_str().map_err(|_| bad_key("Idempotency-Key must be ASCII text"))?.trim();
    if key.is_empty() {
        return Err(bad_key("Idempotency-Key is empty"));
    }
    match in_body.filter(|id| !id.trim().is_empty()) {
        Some(id) if id != key => {
            let message = "Idempotency-Key and client_request_id differ";
            Err(Failure::new(Code::KeyMismatch, message))
        }
        _ => Ok(Some(key.to_owned())),
    }
}

pub async fn list(Call { app, caller }: Call, Query(list): Query<calls::List>) -> Result<Response, Refusal> {
    let status = calls::status(list.status.as_deref())?;
    let everything = list.all || status.is_some();
    let filter = TaskFilter {
        limit: Some(calls::limit(list.limit)?),
        cwd: list.cwd.clone().filter(|cwd| !cwd.as_os_str().is_empty()),
        text: list.q.clone().filter(|text| !text.is_empty()),
        active_since: (!everything).then(|| amount::now_ms() - RECENT_MS),
        before: list.before.clone().map(TaskId),
        ..TaskFilter::default()
    };
    let (tasks, has_more) = app.desk.list_shown(&caller, filter, status).await?;
    let next = tasks.last().filter(|_| has_more).map(|view| next_page(&list, &view.task.id));
    let tasks: Vec<ShortTask> = tasks.into_iter().map(ShortTask::from).collect();
    Ok((AppendHeaders(next.map(|next| (LINK, next))), Json(tasks)).into_response())
}

/// The `Link` header for the next page (RFC 8288).
fn next_page(asked: &calls::List, last: &TaskId) -> String {
    let next = calls::List { before: Some(last.0.clone()), ..asked.clone() };
    format!("</v1/tasks{}>; rel=\"next\"", calls::query(&next))
}

pub async fn show(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Task> {
    Ok(Json(app.desk.show(&caller, &id).await?.into()))
}

pub async fn wait(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    Query(wait): Query<calls::Wait>,
) -> Reply<Task> {
    let limit = calls::timeout(wait.timeout_s, MAX_WAIT)?;
    Ok(Json(app.desk.wait(&caller, &id, limit).await?.into()))
}

pub async fn turns(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Vec<Turn>> {
    Ok(Json(app.desk.turns(&caller, &id).await?.into_iter().map(Turn::from).collect()))
}

pub async fn result(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<TaskResult> {
    let view = app.desk.show(&caller, &id).await?;
    if !view.task.status.is_finished() {
        return Err(view::no_result_yet(&view).into());
    }
    Ok(Json(view.into()))
}

/// The last diff that Codex reported, as JSON or as text.
pub async fn diff(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let log = app.desk.log(&caller, &id).await?;
    let diff = Diff::new(log.task_id().clone(), log.last_diff().await?);
    if wants_diff(&headers) {
        return Ok(as_diff(diff.diff.unwrap_or_default()));
    }
    Ok(Json(diff).into_response())
}

/// Whether the caller wants a diff as text rather than as JSON.
pub fn wants_diff(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.contains("text/x-diff") || accept.contains("text/plain")
}

/// A diff as a text response.
pub fn as_diff(text: String) -> Response {
    ([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], text).into_response()
}

pub async fn continue_task(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(mut turn): Body<Prompt>,
) -> Reply<Task> {
    turn.client_request_id = request_id(&headers, turn.client_request_id)?;
    Ok(Json(app.desk.continue_task(&caller, &id, turn).await?.into()))
}

pub async fn steer(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    Body(steer): Body<calls::Steer>,
) -> Reply<Outcome> {
    let view = app.desk.steer(&caller, &id, &steer.text).await?;
    Ok(Json(Outcome { outcome: OutcomeWord::Accepted, task: view.into() }))
}

pub async fn interrupt(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    Query(which): Query<calls::Interrupt>,
) -> Reply<Outcome> {
    let view = app.desk.interrupt(&caller, &id, which.turn).await?;
    let outcome = view::interrupt_outcome(view.task.status);
    Ok(Json(Outcome { outcome, task: view.into() }))
}

pub async fn fork(
    Call { app, caller }: Call,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(mut fork): Body<Fork>,
) -> Reply<Task> {
    fork.client_request_id = request_id(&headers, fork.client_request_id)?;
    Ok(Json(app.desk.fork(&caller, &id, fork).await?.into()))
}

pub async fn release(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Task> {
    Ok(Json(app.desk.release(&caller, &id).await?.into()))
}
