//! The page of tasks: a list with filters and search, and the form for a new task.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::TaskView;
use codex_bridge_core::store::TaskFilter;
use codex_bridge_core::task::{ShownStatus, Status, Task, TaskId};
use redact::plain::plain;
use serde::Deserialize;

use super::error_page::ErrorPage;
use super::fields::Fields;
use super::frame::{Frame, page};
use super::words::{self, Badge};
use crate::amount;
use crate::calls::{self, Door, Start};
use crate::failure::{Code, Failure};
use crate::http::{App, Query};

/// Tasks on one page.
const PAGE_SIZE: u32 = 50;

/// `GET /tasks`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    /// Only tasks with this status, in a word for people or for programs.
    state: String,
    /// The text to search for.
    q: String,
    /// Only tasks older than this one.
    before: Option<String>,
}

#[derive(Template)]
#[template(path = "tasks.html")]
struct Page {
    frame: Frame,
    filters: Vec<Tab>,
    query: ListQuery,
    rows: Vec<Row>,
    next: Option<String>,
    form: Form,
}

/// A status by which the list can be filtered. `None` is all of them.
struct Tab {
    word: Option<&'static str>,
    is_current: bool,
}

struct Row {
    id: String,
    state: Badge,
    summary: String,
    cwd: String,
    sandbox: &'static str,
    when: String,
    /// When the turn was requested, for the clock of the script. `None` if no turn runs.
    running_since: Option<i64>,
    elapsed: String,
    tokens: Option<String>,
    open_requests: usize,
    trouble: Option<String>,
}

/// The form for a new task: empty, or with the submitted values.
#[derive(Default)]
struct Form {
    prompt: String,
    cwd: String,
    sandbox: String,
    approval_policy: String,
    model: String,
    effort: String,
    notify_target: String,
    /// A form that is sent twice starts one task.
    client_request_id: String,
    /// Suggested directories.
    places: Vec<String>,
    refused: Option<Failure>,
}

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ListQuery>,
) -> Result<Response, ErrorPage> {
    let form = Form { client_request_id: request_id(), ..Form::default() };
    tasks_page(&app, &caller, query, form, StatusCode::OK).await
}

pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    fields: Fields,
) -> Result<Response, ErrorPage> {
    let text = |name: &str| fields.value(name).map(str::to_owned);
    let start = Start {
        cwd: fields.value("cwd").map(|cwd| cwd.trim().into()),
        sandbox: text("sandbox"),
        approval_policy: text("approval_policy"),
        model: text("model"),
        effort: text("effort"),
        notify_target: text("notify_target"),
        client_request_id: text("client_request_id"),
        door: Door::Cli,
        prompt: fields.value("prompt").unwrap_or_default().to_owned(),
        ..Start::default()
    };
    match app.desk.start(&caller, start).await.map_err(Failure::from) {
        Ok(view) => Ok(Redirect::to(&format!("/tasks/{}", view.task.id)).into_response()),
        Err(refused) if refused.code == Code::Forbidden => Err(refused.into()),
        Err(refused) => {
            let status = refused.code.status();
            tasks_page(&app, &caller, ListQuery::default(), refilled(&fields, refused), status).await
        }
    }
}

/// The form with the submitted values, so that nothing must be typed twice.
fn refilled(fields: &Fields, refused: Failure) -> Form {
    let text = |name: &str| fields.value(name).unwrap_or_default().to_owned();
    Form {
        prompt: text("prompt"),
        cwd: text("cwd"),
        sandbox: text("sandbox"),
        approval_policy: text("approval_policy"),
        model: text("model"),
        effort: text("effort"),
        notify_target: text("notify_target"),
        client_request_id: request_id(),
        places: Vec::new(),
        refused: Some(refused),
    }
}

async fn tasks_page(
    app: &App,
    caller: &Caller,
    query: ListQuery,
    mut form: Form,
    status: StatusCode,
) -> Result<Response, ErrorPage> {
    let frame = Frame::new(app, caller, "tasks", "Tasks").await?;
    let shown = calls::status(Some(&query.state))?;
    let filter = TaskFilter {
        limit: Some(PAGE_SIZE),
        text: Some(query.q.trim().to_owned()).filter(|text| !text.is_empty()),
        before: query.before.clone().map(TaskId),
        ..TaskFilter::default()
    };
    let (found, has_more) = app.desk.list_shown(caller, filter, shown).await?;
    let next = found.last().filter(|_| has_more).map(|view| view.task.id.0.clone());
    form.places = places(app, caller, &found);
    if form.cwd.is_empty() {
        form.cwd = form.places.first().cloned().unwrap_or_default();
    }
    let tab = |of: Option<ShownStatus>| Tab { word: of.map(ShownStatus::word), is_current: of == shown };
    let now = amount::now_ms();
    let mut rows = Vec::new();
    for view in found {
        let running_since = running_since(app, caller, &view.task).await?;
        rows.push(row(&view, running_since, now));
    }
    let filters = [None].into_iter().chain(ShownStatus::ALL.map(Some)).map(tab).collect();
    Ok(page(status, &Page { frame, filters, query, rows, next, form }))
}

/// Suggested directories for a new task: those of other tasks, and the roots. A caller with a token sees only roots.
fn places(app: &App, caller: &Caller, tasks: &[TaskView]) -> Vec<String> {
    let mut places: Vec<String> = Vec::new();
    let used = tasks.iter().map(|view| view.task.settings.cwd.as_path());
    let roots = app.file.roots.iter().flatten().map(std::path::PathBuf::as_path);
    let is_allowed = |place: &std::path::Path| {
        let mut roots = app.file.roots.iter().flatten();
        caller.is_owner() || roots.any(|root| place.starts_with(root))
    };
    for place in used.filter(|place| is_allowed(place)).chain(roots) {
        let place = place.to_string_lossy().into_owned();
        if !places.contains(&place) && places.len() < 20 {
            places.push(place);
        }
    }
    places
}

fn row(view: &TaskView, running_since: Option<i64>, now: i64) -> Row {
    let task = &view.task;
    let trouble = task.error.as_ref().map(|error| error.message.clone()).or_else(|| task.reason.clone());
    Row {
        id: task.id.0.clone(),
        state: words::badge(view.status()),
        summary: plain(&task.prompt_summary).into_owned(),
        cwd: plain(&task.settings.cwd.to_string_lossy()).into_owned(),
        sandbox: task.settings.sandbox.as_str(),
        when: words::ago(task.created_at, now),
        running_since,
        elapsed: elapsed(task, running_since, now),
        tokens: task.usage.as_ref().map(|usage| amount::tokens(usage.total.total)),
        open_requests: view.open_requests.len(),
        trouble: trouble.map(|text| plain(&text).chars().take(200).collect()),
    }
}

/// When the running turn of a task was requested. `None` if the task has finished.
pub async fn running_since(app: &App, caller: &Caller, task: &Task) -> Result<Option<i64>, Failure> {
    if task.status.is_finished() {
        return Ok(None);
    }
    let is_later = task.used.turns > 1 || (task.used.turns == 1 && task.status == Status::Queued);
    let last = if is_later { app.desk.turns(caller, task.id.as_str()).await?.pop() } else { None };
    Ok(Some(last.map_or(task.created_at, |turn| turn.created_at)))
}

/// How long a task has taken: the work of all turns if it has finished, otherwise the time since its turn was requested.
pub fn elapsed(task: &Task, running_since: Option<i64>, now: i64) -> String {
    if let Some(since) = running_since {
        return amount::clock(words::elapsed_ms(since, now));
    }
    match task.used.work_ms {
        0 => "–".to_owned(),
        work_ms => amount::duration(work_ms),
    }
}

/// A unique name for the request of one form.
fn request_id() -> String {
    format!("web-{:032x}", rand::random::<u128>())
}
