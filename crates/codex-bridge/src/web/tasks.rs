//! The page of tasks: what runs, what waits, what is done; find one, hand over a new one.

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

use super::fields::Fields;
use super::frame::{Frame, page};
use super::words::{self, Badge};
use super::wrong::Wrong;
use crate::amount;
use crate::calls::{Door, Start};
use crate::failure::{Code, Failure};
use crate::http::{App, Query};

/// Tasks on one page.
const ON_A_PAGE: usize = 50;
/// Tasks that are read at once.
const READ_AT_ONCE: u32 = 200;
/// Tasks that are looked at for one page at most, so that a search has an end.
const LOOKED_AT: usize = 4000;

/// `GET /tasks`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Which shelf; unknown ones mean all.
    state: String,
    /// Words to find.
    q: String,
    /// Only tasks that are older than this one.
    before: Option<String>,
}

/// Tasks that belong together for people.
struct Shelf {
    name: &'static str,
    words: &'static str,
    holds: fn(ShownStatus) -> bool,
}

const SHELVES: [Shelf; 5] = [
    Shelf { name: "", words: "All", holds: |_| true },
    Shelf { name: "active", words: "Active", holds: |status| !status.is_finished() },
    Shelf {
        name: "waiting",
        words: "Waiting for you",
        holds: |status| matches!(status, ShownStatus::WaitingForApproval | ShownStatus::WaitingForUserInput),
    },
    Shelf { name: "done", words: "Completed", holds: |status| status == Status::Completed },
    Shelf {
        name: "trouble",
        words: "Stopped or failed",
        holds: |status| status.is_finished() && status != Status::Completed,
    },
];

#[derive(Template)]
#[template(path = "tasks.html")]
struct Page {
    frame: Frame,
    shelves: Vec<Tab>,
    wanted: Wanted,
    rows: Vec<Row>,
    next: Option<String>,
    form: Form,
}

struct Tab {
    name: &'static str,
    words: &'static str,
    is_current: bool,
}

struct Row {
    id: String,
    state: Badge,
    summary: String,
    cwd: String,
    sandbox: &'static str,
    when: String,
    /// Since when it runs, for the clock of the script; none if it does not.
    running_since: Option<i64>,
    elapsed: String,
    tokens: Option<String>,
    open_requests: usize,
    trouble: Option<String>,
}

/// The form for a new task, empty or as it was sent.
#[derive(Default)]
struct Form {
    prompt: String,
    cwd: String,
    sandbox: String,
    approval_policy: String,
    model: String,
    effort: String,
    notify_target: String,
    /// The same form twice is one task.
    client_request_id: String,
    /// Directories to choose from.
    places: Vec<String>,
    refused: Option<Failure>,
}

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Wrong> {
    let form = Form { client_request_id: once(), ..Form::default() };
    tasks_page(&app, &caller, wanted, form, StatusCode::OK).await
}

pub async fn start(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    fields: Fields,
) -> Result<Response, Wrong> {
    let text = |name: &str| fields.said(name).map(str::to_owned);
    let start = Start {
        cwd: fields.said("cwd").map(|cwd| cwd.trim().into()),
        sandbox: text("sandbox"),
        approval_policy: text("approval_policy"),
        model: text("model"),
        effort: text("effort"),
        notify_target: text("notify_target"),
        client_request_id: text("client_request_id"),
        door: Door::Cli,
        prompt: fields.said("prompt").unwrap_or_default().to_owned(),
        ..Start::default()
    };
    match app.desk.start(&caller, start).await.map_err(Failure::from) {
        Ok(view) => Ok(Redirect::to(&format!("/tasks/{}", view.task.id)).into_response()),
        Err(refused) if refused.code == Code::Forbidden => Err(refused.into()),
        Err(refused) => {
            let status = refused.code.status();
            tasks_page(&app, &caller, Wanted::default(), sent(&fields, refused), status).await
        }
    }
}

/// The form as it was sent, so that nothing must be written twice.
fn sent(fields: &Fields, refused: Failure) -> Form {
    let text = |name: &str| fields.said(name).unwrap_or_default().to_owned();
    Form {
        prompt: text("prompt"),
        cwd: text("cwd"),
        sandbox: text("sandbox"),
        approval_policy: text("approval_policy"),
        model: text("model"),
        effort: text("effort"),
        notify_target: text("notify_target"),
        client_request_id: once(),
        places: Vec::new(),
        refused: Some(refused),
    }
}

async fn tasks_page(
    app: &App,
    caller: &Caller,
    wanted: Wanted,
    mut form: Form,
    status: StatusCode,
) -> Result<Response, Wrong> {
    let frame = Frame::new(app, caller, "tasks", "Tasks").await?;
    let shelf = SHELVES.iter().find(|shelf| shelf.name == wanted.state).unwrap_or(&SHELVES[0]);
    let (found, next) = find(app, caller, shelf, &wanted).await?;
    form.places = places(app, caller, &found);
    if form.cwd.is_empty() {
        form.cwd = form.places.first().cloned().unwrap_or_default();
    }
    let tab = |it: &Shelf| Tab { name: it.name, words: it.words, is_current: it.name == shelf.name };
    let now = amount::now_ms();
    let mut rows = Vec::new();
    for view in found {
        let running_since = running_since(app, &view.task).await?;
        rows.push(row(&view, running_since, now));
    }
    let shelves = SHELVES.iter().map(tab).collect();
    Ok(page(status, &Page { frame, shelves, wanted, rows, next, form }))
}

/// The tasks that are wanted, and after which one the next page begins.
async fn find(
    app: &App,
    caller: &Caller,
    shelf: &Shelf,
    wanted: &Wanted,
) -> Result<(Vec<TaskView>, Option<String>), Failure> {
    let text = Some(wanted.q.trim().to_owned()).filter(|text| !text.is_empty());
    let (mut found, mut looked_at) = (Vec::new(), 0);
    let mut before = wanted.before.clone().map(TaskId);
    loop {
        let (limit, text) = (Some(READ_AT_ONCE), text.clone());
        let filter = TaskFilter { limit, text, before: before.take(), ..TaskFilter::default() };
        let read = app.desk.list(caller, &filter).await?;
        let is_last = read.len() < READ_AT_ONCE as usize;
        for view in read {
            if found.len() == ON_A_PAGE || looked_at == LOOKED_AT {
                return Ok((found, before.map(|id: TaskId| id.0)));
            }
            looked_at += 1;
            before = Some(view.task.id.clone());
            if (shelf.holds)(view.status()) {
                found.push(view);
            }
        }
        if is_last {
            return Ok((found, None));
        }
    }
}

/// Where a new task may work: where others did, and the roots of callers who may work there alone.
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

/// Since when a task that is under way has been: the first turn was asked for with it, a later one by itself.
pub async fn running_since(app: &App, task: &Task) -> Result<Option<i64>, Failure> {
    if task.status.is_finished() {
        return Ok(None);
    }
    let is_later = task.used.turns > 1 || (task.used.turns == 1 && task.status == Status::Queued);
    let last = if is_later { app.bridge.turns(&task.id).await?.pop() } else { None };
    Ok(Some(last.map_or(task.created_at, |turn| turn.created_at)))
}

/// How long a task has taken: the work of its turns if it is at rest, else the time since its turn was asked for.
pub fn elapsed(task: &Task, running_since: Option<i64>, now: i64) -> String {
    if let Some(since) = running_since {
        return amount::clock(words::elapsed_ms(since, now));
    }
    match task.used.work_ms {
        0 => "–".to_owned(),
        work_ms => amount::duration(work_ms),
    }
}

/// A name for one form.
fn once() -> String {
    format!("web-{:032x}", rand::random::<u128>())
}
