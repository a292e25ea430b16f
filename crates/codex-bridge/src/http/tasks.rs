//! Tasks: hand over, look, wait, steer, stop, go on, branch, release.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use codex_bridge_core::TaskView;
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{Status, TaskId};

use super::{App, Body, Reply};
use crate::calls;
use crate::failure::Failure;
use crate::view::{self, Outcome, ShortTask, Task};

/// Tasks that ended longer ago than this are shown only when asked for.
const RECENT_MS: i64 = 24 * 60 * 60 * 1000;
/// How many tasks a list holds unless told otherwise.
const LIST_LIMIT: u32 = 100;
/// As long as it takes, in a number that a clock can hold.
const VERY_LONG: Duration = Duration::from_hours(24 * 365);

pub async fn start(State(app): State<App>, Body(start): Body<calls::Start>) -> Reply<Task> {
    let new = app.rules.admit(start)?;
    Ok(Json(app.bridge.start(new).await?.into()))
}

pub async fn list(State(app): State<App>, Query(list): Query<calls::List>) -> Reply<Vec<ShortTask>> {
    let status = list.status.as_deref().map(str::parse::<Status>).transpose();
    let status = status.map_err(|message| Failure::new("unknown_status", message))?;
    let filter = TaskFilter {
        limit: Some(list.limit.unwrap_or(LIST_LIMIT)),
        before: list.before.map(TaskId),
        ..stored(status)
    };
    let tasks = app.bridge.list(&filter).await?;
    let since = jiff::Timestamp::now().as_millisecond() - RECENT_MS;
    let is_recent = |task: &TaskView| {
        list.all || status.is_some() || !task.task.status.is_at_rest() || task.task.updated_at >= since
    };
    let is_wanted = |task: &TaskView| status.is_none_or(|status| task.task.status == status);
    Ok(Json(tasks.into_iter().filter(is_recent).filter(is_wanted).map(ShortTask::from).collect()))
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
        Some(seconds) => Duration::try_from_secs_f64(seconds)
            .map_err(|_| Failure::new("bad_call", "timeout_s must be a number of seconds"))?
            .min(VERY_LONG),
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

pub async fn continue_task(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(turn): Body<calls::Prompt>,
) -> Reply<Task> {
    Ok(Json(app.bridge.continue_task(&id, &turn.prompt).await?.into()))
}

pub async fn steer(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(steer): Body<calls::Steer>,
) -> Reply<Outcome> {
    let (outcome, message) = view::steer_outcome(app.bridge.steer(&id, &steer.text).await?);
    let task = app.bridge.show(&id).await?.into();
    Ok(Json(Outcome { outcome: outcome.to_owned(), message, task }))
}

pub async fn interrupt(State(app): State<App>, Path(id): Path<String>) -> Reply<Outcome> {
    let view = app.bridge.interrupt(&id).await?;
    let outcome = view::interrupt_outcome(view.task.status).to_owned();
    Ok(Json(Outcome { outcome, message: None, task: view.into() }))
}

pub async fn fork(
    State(app): State<App>,
    Path(id): Path<String>,
    Body(fork): Body<calls::Fork>,
) -> Reply<Task> {
    let branch = app.bridge.fork(&id).await?;
    match fork.prompt.filter(|prompt| !prompt.trim().is_empty()) {
        Some(prompt) => Ok(Json(app.bridge.continue_task(branch.task.id.as_str(), &prompt).await?.into())),
        None => Ok(Json(branch.into())),
    }
}

pub async fn release(State(app): State<App>, Path(id): Path<String>) -> Reply<Task> {
    Ok(Json(app.bridge.release(&id).await?.into()))
}
