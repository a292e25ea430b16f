//! Tasks: start, list, show, wait, continue, steer, interrupt, fork and release them.

use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, LINK};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use codex_bridge_core::desk::calls::{Fork, Prompt, Start};
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{ShownStatus, Status, TaskId};

use super::{App, Body, Path, Query, Refusal, Reply, page};
use crate::amount;
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::{self, Diff, Outcome, ShortTask, Task, TaskResult, Turn};

/// Tasks that finished longer ago are listed only on request.
const RECENT_MS: i64 = 24 * 60 * 60 * 1000;
/// The longest wait, and the wait without a timeout.
const MAX_WAIT: Duration = Duration::from_hours(24 * 365);

/// The caller's name for a request, as `client_request_id` in the body.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
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

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(list): Query<calls::List>,
) -> Result<Response, Refusal> {
    let status = list.status.as_deref().map(str::parse::<ShownStatus>).transpose();
    let status = status.map_err(|message| Failure::new(Code::UnknownStatus, message))?;
    let limit = page::limit(list.limit)?;
    let everything = list.all || status.is_some();
    let mut filter = TaskFilter {
        limit: Some(limit),
        cwd: list.cwd.clone().filter(|cwd| !cwd.as_os_str().is_empty()),
        text: list.q.clone().filter(|text| !text.is_empty()),
        active_since: (!everything).then(|| amount::now_ms() - RECENT_MS),
        before: list.before.clone().map(TaskId),
        ..stored(status)
    };
    let limit = usize::try_from(limit).map_err(Failure::internal)?;
    let mut tasks = Vec::new();
    // `waiting_*` is not a stored status, so a page of the store may have fewer matches than the limit.
    let is_last = loop {
        let page = app.desk.list(&caller, &filter).await?;
        let is_last = page.len() < limit;
        filter.before = page.last().map(|view| view.task.id.clone());
        tasks.extend(page.into_iter().filter(|view| status.is_none_or(|status| view.status() == status)));
        if is_last || tasks.len() >= limit {
            break is_last && tasks.len() <= limit;
        }
    };
    tasks.truncate(limit);
    let next = tasks.last().filter(|_| !is_last).map(|view| next_page(&list, &view.task.id));
    let tasks: Vec<ShortTask> = tasks.into_iter().map(ShortTask::from).collect();
    Ok((AppendHeaders(next.map(|next| (LINK, next))), Json(tasks)).into_response())
}

/// The `Link` header for the next page (RFC 8288).
fn next_page(asked: &calls::List, last: &TaskId) -> String {
    let next = calls::List { before: Some(last.0.clone()), ..asked.clone() };
    format!("</v1/tasks{}>; rel=\"next\"", calls::query(&next))
}

/// A filter for the stored statuses that may be shown as `status`. The `waiting_*` statuses are not stored.
fn stored(status: Option<ShownStatus>) -> TaskFilter {
    let statuses = match status {
        None => Vec::new(),
        Some(ShownStatus::WaitingForApproval | ShownStatus::WaitingForUserInput) => {
            vec![Status::Starting, Status::Working]
        }
        Some(ShownStatus::Stored(status)) => vec![status],
    };
    TaskFilter { statuses, ..TaskFilter::default() }
}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Reply<Task> {
    Ok(Json(app.desk.show(&caller, &id).await?.into()))
}

pub async fn wait(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(wait): Query<calls::Wait>,
) -> Reply<Task> {
    let limit = match wait.timeout_s {
        None => MAX_WAIT,
        Some(seconds) => {
            let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| *limit <= MAX_WAIT);
            limit.ok_or_else(|| {
                Failure::new(Code::BadTimeout, "timeout_s is out of range")
                    .hint("use 0 to 31536000 (one year)")
            })?
        }
    };
    Ok(Json(app.desk.wait(&caller, &id, limit).await?.into()))
}

pub async fn turns(State(app): State<App>, Path(id): Path<String>) -> Reply<Vec<Turn>> {
    let task_id = app.bridge.find(&id).await?.id;
    Ok(Json(app.bridge.turns(&task_id).await?.into_iter().map(Turn::from).collect()))
}

pub async fn result(State(app): State<App>, Path(id): Path<String>) -> Reply<TaskResult> {
    let view = app.bridge.show(&id).await?;
    if !view.task.status.is_finished() {
        return Err(view::no_result_yet(&view).into());
    }
    Ok(Json(view.into()))
}

/// The last diff that Codex reported, as JSON or as text.
pub async fn diff(
    State(app): State<App>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let task_id = app.bridge.find(&id).await?.id;
    let last = app.bridge.last_diff(&task_id).await?;
    let diff = Diff::new(task_id, last);
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
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(mut turn): Body<Prompt>,
) -> Reply<Task> {
    turn.client_request_id = request_id(&headers, turn.client_request_id)?;
    Ok(Json(app.desk.continue_task(&caller, &id, turn).await?.into()))
}

pub async fn steer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Body(steer): Body<calls::Steer>,
) -> Reply<Outcome> {
    let steered = app.desk.steer(&caller, &id, &steer.text).await?;
    let (outcome, message) = view::steer_outcome(steered.outcome);
    Ok(Json(Outcome { outcome: outcome.to_owned(), message, task: steered.task.into() }))
}

pub async fn interrupt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    Query(which): Query<calls::Interrupt>,
) -> Reply<Outcome> {
    let view = app.desk.interrupt(&caller, &id, which.turn).await?;
    let outcome = view::interrupt_outcome(view.task.status).to_owned();
    Ok(Json(Outcome { outcome, message: None, task: view.into() }))
}

pub async fn fork(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(mut fork): Body<Fork>,
) -> Reply<Task> {
    fork.client_request_id = request_id(&headers, fork.client_request_id)?;
    Ok(Json(app.desk.fork(&caller, &id, fork).await?.into()))
}

pub async fn release(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Reply<Task> {
    Ok(Json(app.desk.release(&caller, &id).await?.into()))
}
