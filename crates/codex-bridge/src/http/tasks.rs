//! Tasks: hand over, look, wait, steer, stop, go on, branch, release.

use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{ACCEPT, CONTENT_TYPE, LINK};
use axum::response::{AppendHeaders, IntoResponse, Response};
use codex_bridge_core::TaskView;
use codex_bridge_core::bridge::{Giver, NewBranch};
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{GiverKind, Status, TaskId};

use super::{App, Body, Caller, Path, Query, Refusal, Reply, Role, page};
use crate::calls::{self, Door};
use crate::failure::Failure;
use crate::view::{self, Diff, Outcome, ShortTask, Task, TaskResult, Turn};

/// Tasks that ended longer ago than this are shown only when asked for.
const RECENT_MS: i64 = 24 * 60 * 60 * 1000;
/// The longest name for a request.
const KEY_MAX_BYTES: usize = 255;
/// As long as it takes, in a number that a clock can hold.
const VERY_LONG: Duration = Duration::from_hours(24 * 365);

/// The caller's own name for a request; the same as `client_request_id`.
const IDEMPOTENCY_KEY: &str = "idempotency-key";

pub async fn start(
    State(app): State<App>,
    caller: Caller,
    headers: HeaderMap,
    Body(mut start): Body<calls::Start>,
) -> Reply<Task> {
    start.door = caller.door(start.door);
    start.client_request_id = caller.own_name(request_id(&headers, start.client_request_id)?);
    Ok(Json(hand_over(&app, start, caller.giver()).await?.into()))
}

/// Takes work that may be done, or finds what was handed over under the same name: that is there, whatever has become of
/// its directory or of the operator's rules.
pub async fn hand_over(app: &App, start: calls::Start, by: Giver) -> Result<TaskView, Failure> {
    let named = start.client_request_id.clone().map(|name| (name, start.prompt.clone()));
    match (app.rules.admit(start, by), named) {
        (Ok(new), _) => Ok(app.bridge.start(new).await?),
        (Err(refusal), Some((name, prompt))) => {
            app.bridge.started_under(&name, &prompt).await?.ok_or(refusal)
        }
        (Err(refusal), None) => Err(refusal),
    }
}

/// One name, wherever it was said.
fn request_id(headers: &HeaderMap, in_body: Option<String>) -> Result<Option<String>, Failure> {
    let Some(key) = headers.get(IDEMPOTENCY_KEY) else { return Ok(in_body) };
    let wrong = |message: &str| Failure::new("bad_call", message).hint("use up to 255 plain characters");
    let key = key.to_str().map_err(|_| wrong("Idempotency-Key must be plain text"))?.trim();
    if key.is_empty() || key.len() > KEY_MAX_BYTES {
        return Err(wrong("Idempotency-Key is empty or too long"));
    }
    match in_body.filter(|id| !id.trim().is_empty()) {
        Some(id) if id != key => {
            let message = "Idempotency-Key and client_request_id are not the same";
            Err(Failure::new("key_mismatch", message).hint("send one of them, or both alike"))
        }
        _ => Ok(Some(key.to_owned())),
    }
}

pub async fn list(State(app): State<App>, Query(list): Query<calls::List>) -> Result<Response, Refusal> {
    let status = list.status.as_deref().map(str::parse::<Status>).transpose();
    let status = status.map_err(|message| Failure::new("unknown_status", message))?;
    let limit = page::limit(list.limit)?;
    let everything = list.all || status.is_some();
    let mut filter = TaskFilter {
        limit: Some(limit),
        cwd: list.cwd.clone().filter(|cwd| !cwd.as_os_str().is_empty()),
        text: list.q.clone().filter(|text| !text.is_empty()),
        active_since: (!everything).then(|| jiff::Timestamp::now().as_millisecond() - RECENT_MS),
        before: list.before.clone().map(TaskId),
        ..stored(status)
    };
    let limit = usize::try_from(limit).map_err(Failure::internal)?;
    let mut tasks = Vec::new();
    // Waiting is not stored, so a page of the store may hold fewer than are wanted.
    let is_last = loop {
        let page = app.bridge.list(&filter).await?;
        let is_last = page.len() < limit;
        filter.before = page.last().map(|view| view.task.id.clone());
        tasks.extend(page.into_iter().filter(|view| status.is_none_or(|status| view.task.status == status)));
        if is_last || tasks.len() >= limit {
            break is_last && tasks.len() <= limit;
        }
    };
    tasks.truncate(limit);
    let next = tasks.last().filter(|_| !is_last).map(|view| next_page(&list, &view.task.id));
    let tasks: Vec<ShortTask> = tasks.into_iter().map(ShortTask::from).collect();
    Ok((AppendHeaders(next.map(|next| (LINK, next))), Json(tasks)).into_response())
}

/// Where the next page is, as RFC 8288 writes it.
fn next_page(asked: &calls::List, last: &TaskId) -> String {
    let next = calls::List { before: Some(last.0.clone()), ..asked.clone() };
    format!("</v1/tasks{}>; rel=\"next\"", crate::client::query(&next))
}

/// The stored states in which a task can be that people see in this one: waiting is not stored.
fn stored(status: Option<Status>) -> TaskFilter {
    let statuses = match status {
        None => Vec::new(),
        Some(Status::WaitingForApproval | Status::WaitingForUserInput) => {
            vec![Status::Starting, Status::Working]
        }
        Some(status) => vec![status],
    };
    TaskFilter { statuses, ..TaskFilter::default() }
}

pub async fn show(State(app): State<App>, Path(id): Path<String>) -> Reply<Task> {
    Ok(Json(app.bridge.show(&id).await?.into()))
}

pub async fn wait(
    State(app): State<App>,
    Path(id): Path<String>,
    Query(wait): Query<calls::Wait>,
) -> Reply<Task> {
    let limit = match wait.timeout_s {
        None => VERY_LONG,
        Some(seconds) => {
            let limit = Duration::try_from_secs_f64(seconds).ok().filter(|limit| *limit <= VERY_LONG);
            limit.ok_or_else(|| {
                Failure::new("bad_call", "timeout_s is no number of seconds")
                    .hint("use 0 to 31536000, a year")
            })?
        }
    };
    tokio::select! {
        view = app.bridge.wait(&id, limit) => Ok(Json(view?.into())),
        () = app.ended() => Err(stopping().into()),
    }
}

/// For those who wait for something that this daemon will not see any more.
pub fn stopping() -> Failure {
    Failure::new("daemon_stopping", "the daemon stops")
        .hint("repeat the command: a new daemon goes on where this one was")
}

pub async fn turns(State(app): State<App>, Path(id): Path<String>) -> Reply<Vec<Turn>> {
    let task_id = app.bridge.find(&id).await?.id;
    Ok(Json(app.bridge.turns(&task_id).await?.into_iter().map(Turn::from).collect()))
}

pub async fn result(State(app): State<App>, Path(id): Path<String>) -> Reply<TaskResult> {
    let view = app.bridge.show(&id).await?;
    if !view.task.status.is_at_rest() {
        let message = format!("task {} is {}: it has no result yet", view.task.id, view.task.status);
        return Err(Failure::new("not_finished", message).hint("wait for its end").into());
    }
    Ok(Json(view.into()))
}

/// The last diff that Codex told of, as JSON or as it is.
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

/// Whether the caller wants a diff as such, rather than JSON with one.
pub fn wants_diff(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.contains("text/x-diff") || accept.contains("text/plain")
}

/// A diff as such.
pub fn as_diff(text: String) -> Response {
    ([(CONTENT_TYPE, "text/x-diff; charset=utf-8")], text).into_response()
}

/// To go on with a task is to hand over work: who could not have begun it so cannot. An approver can, as with a yes to
/// whatever it asks for, but not in a directory where none but the owner has tasks work.
pub async fn within_reach(app: &App, caller: &Caller, id: &str) -> Result<(), Failure> {
    if caller.is_owner() {
        return Ok(());
    }
    let settings = app.bridge.find(id).await?.settings;
    let door = caller.door(Door::Agent);
    app.rules.admit_place_again(&settings, door)?;
    if caller.role >= Role::Approver { Ok(()) } else { app.rules.admit_again(&settings, door) }
}

/// Whether a caller may speak into the turn that runs. It is asked about and trusted as whoever asked for it, so others have to
/// wait for its end.
pub async fn may_steer(app: &App, caller: &Caller, id: &str) -> Result<(), Failure> {
    within_reach(app, caller, id).await?;
    let is_owners = app.bridge.find(id).await?.settings.turn_given_by == GiverKind::Owner;
    if caller.role >= Role::Approver || !is_owners {
        return Ok(());
    }
    let message = "the owner of this machine asked for the turn that runs: nobody else speaks into it";
    Err(Failure::new("beyond_reach", message).hint("continue the task when the turn has ended"))
}

/// Puts on the record who commands what, before it is done. What would be refused anyway is not recorded.
pub async fn note(app: &App, by: &str, action: &str, id: &str) -> Result<(), Failure> {
    let task = app.bridge.find(id).await?;
    if task.status.is_at_rest() {
        return Ok(());
    }
    Ok(app.bridge.note(by, action, Some(&task.id)).await?)
}

pub async fn continue_task(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(turn): Body<calls::Prompt>,
) -> Reply<Task> {
    let name = request_id(&headers, turn.client_request_id)?.filter(|name| !name.trim().is_empty());
    within_reach(&app, &caller, &id).await?;
    let continued = app.bridge.continue_once(&id, &turn.prompt, name.as_deref(), &caller.giver()).await?;
    Ok(Json(continued.into()))
}

pub async fn steer(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    Body(steer): Body<calls::Steer>,
) -> Reply<Outcome> {
    may_steer(&app, &caller, &id).await?;
    note(&app, &caller.name, "steer", &id).await?;
    let (outcome, message) = view::steer_outcome(app.bridge.steer(&id, &steer.text, &caller.giver()).await?);
    let task = app.bridge.show(&id).await?.into();
    Ok(Json(Outcome { outcome: outcome.to_owned(), message, task }))
}

pub async fn interrupt(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Reply<Outcome> {
    note(&app, &caller.name, "interrupt", &id).await?;
    let view = app.bridge.interrupt(&id).await?;
    let outcome = view::interrupt_outcome(view.task.status).to_owned();
    Ok(Json(Outcome { outcome, message: None, task: view.into() }))
}

pub async fn fork(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(fork): Body<calls::Fork>,
) -> Reply<Task> {
    let client_request_id = caller.own_name(request_id(&headers, fork.client_request_id)?);
    within_reach(&app, &caller, &id).await?;
    let prompt = fork.prompt.filter(|prompt| !prompt.trim().is_empty());
    let new = NewBranch { prompt, client_request_id, by: caller.giver() };
    Ok(Json(app.bridge.fork(&id, new).await?.into()))
}

pub async fn release(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Reply<Task> {
    let task_id = app.bridge.find(&id).await?.id;
    app.bridge.note(&caller.name, "release", Some(&task_id)).await?;
    Ok(Json(app.bridge.release(&id).await?.into()))
}
