//! The page of one task: its log and requests, and forms to steer, interrupt, continue and fork it.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::TaskView;
use codex_bridge_core::desk::TaskLog;
use codex_bridge_core::event::Seq;
use codex_bridge_core::task::Status;
use codex_bridge_core::trust::Trust;
use redact::plain::plain;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error_page::ErrorPage;
use super::fields::Fields;
use super::form::{Control, McpForm};
use super::frame::{Frame, page};
use super::links::Links;
use super::request::{Card, Extent};
use super::tasks::{elapsed, running_since};
use super::timeline::{Entry, EntryKind, Timeline, whole_text as text_of};
use super::words::{self, Badge};
use crate::amount;
use crate::calls::{Fork, Prompt};
use crate::failure::{Code, Failure};
use crate::http::origin::Names;
use crate::http::{App, Path, Query};
use crate::view::{self};

/// Events on one page.
const PAGE_SIZE: u32 = 300;
/// How many earlier events are read too, for calls that began before the page.
const CONTEXT: Seq = 200;

/// `GET /tasks/{id}`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TaskQuery {
    /// Only entries that changed after this event. The script sends it.
    after: Option<Seq>,
    /// Only events before this one, for earlier pages.
    before: Option<Seq>,
    /// The outcome of a form of this page.
    said: Option<Said>,
}

#[derive(Template)]
#[template(path = "task.html")]
struct Page {
    frame: Frame,
    task: Head,
    cards: Vec<Card>,
    message: Option<&'static str>,
    entries: Vec<Entry>,
    /// The first event on the page, if there are earlier ones.
    earlier_than: Option<Seq>,
    /// The event before the first one on the page.
    after: Seq,
    /// The last event on the page.
    last_seq: Seq,
    /// Whether the page ends with the newest event. Then the script keeps it up to date.
    is_newest: bool,
}

/// The facts above the timeline.
struct Head {
    id: String,
    state: Badge,
    is_finished: bool,
    can_fork: bool,
    summary: String,
    reason: Option<String>,
    cwd: String,
    sandbox: &'static str,
    narrowed: Option<String>,
    approval_policy: &'static str,
    trust: Trust,
    model: Option<String>,
    running_since: Option<i64>,
    elapsed: String,
    created_at: String,
    turns: u32,
    usage: Option<view::Usage>,
    tokens: Option<String>,
    thread_id: Option<String>,
    host: Option<String>,
}

impl Head {
    fn new(view: &TaskView, running_since: Option<i64>) -> Self {
        let task = &view.task;
        let is_finished = task.status.is_finished();
        let now = amount::now_ms();
        Self {
            id: task.id.0.clone(),
            state: words::badge(view.status()),
            is_finished,
            can_fork: is_finished && task.thread_id.is_some(),
            summary: plain(&task.prompt_summary).into_owned(),
            reason: task.reason.as_ref().map(|reason| plain(reason).into_owned()),
            cwd: plain(&task.settings.cwd.to_string_lossy()).into_owned(),
            sandbox: task.settings.sandbox.as_str(),
            narrowed: task.settings.narrowed.as_ref().map(|why| plain(why).into_owned()),
            trust: view.trust,
            approval_policy: task.settings.approval_policy.as_str(),
            model: task.settings.model.as_ref().map(|model| plain(model).into_owned()),
            running_since,
            elapsed: elapsed(task, running_since, now),
            created_at: words::moment(task.created_at),
            turns: task.used.turns,
            tokens: task.usage.as_ref().map(|usage| amount::tokens(usage.total.total)),
            usage: task.usage.as_ref().map(view::Usage::from),
            thread_id: task.thread_id.as_ref().map(|id| id.0.clone()),
            host: task.host.clone(),
        }
    }
}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    names: Option<Extension<Arc<Names>>>,
    Path(id): Path<String>,
    Query(query): Query<TaskQuery>,
) -> Result<Response, ErrorPage> {
    let view = app.desk.show(&caller, &id).await?;
    let task = &view.task;
    let links = Links::outside(names.as_deref().map(AsRef::as_ref));
    let log = app.desk.log(&caller, task.id.as_str()).await?;
    let turns = app.desk.turns(&caller, task.id.as_str()).await?;
    let events = read(&log, &query, Timeline::new(&turns, links)).await?;
    let summary: String = plain(&task.prompt_summary).chars().take(60).collect();
    let frame = Frame::new(&app, &caller, "task", summary.lines().next().unwrap_or_default()).await?;
    let cards = view.open_requests.iter().map(|record| Card::new(record, task, &caller)).collect();
    let page_of_task = Page {
        frame,
        task: Head::new(&view, running_since(&app, &caller, task).await?),
        cards,
        message: query.said.and_then(Said::message),
        entries: events.entries,
        earlier_than: events.earlier_than,
        after: events.after,
        last_seq: events.last_seq,
        is_newest: query.before.is_none(),
    };
    Ok(page(StatusCode::OK, &page_of_task))
}

struct PageOfEvents {
    entries: Vec<Entry>,
    earlier_than: Option<Seq>,
    after: Seq,
    last_seq: Seq,
}

/// Reads the entries of a page. The numbers of events have no gaps, so the limits of a page can be computed.
async fn read(log: &TaskLog, query: &TaskQuery, mut timeline: Timeline) -> Result<PageOfEvents, Failure> {
    let page_size = Seq::from(PAGE_SIZE);
    let newest = log.last(1).await?.last().map_or(0, |event| event.seq);
    let end = query.before.map_or(newest, |before| before.saturating_sub(1).clamp(0, newest));
    // A script that is far behind gets the newest page. The events between are on earlier pages.
    let after = query.after.unwrap_or(0).clamp(0, end).max(end - page_size);
    let from = (after - CONTEXT).max(0);
    let limit = u32::try_from(end - from).unwrap_or(PAGE_SIZE);
    let events = log.after(from, limit).await?;
    for event in &events {
        timeline.read(event);
    }
    let first_stored = log.after(0, 1).await?.first().map_or(1, |event| event.seq);
    Ok(PageOfEvents {
        entries: timeline.since(after),
        earlier_than: (after >= first_stored).then_some(after.saturating_add(1)),
        after,
        last_seq: end,
    })
}

/// The whole text of one event.
pub async fn whole_text(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((id, seq)): Path<(String, Seq)>,
) -> Result<Response, ErrorPage> {
    let log = app.desk.log(&caller, &id).await?;
    let event = log.after(seq.saturating_sub(1), 1).await?.pop();
    let event = event.filter(|event| event.seq == seq);
    let event = event.ok_or_else(|| Failure::new(Code::UnknownRoute, "this event is not stored any more"))?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text_of(&event)).into_response())
}

pub async fn steer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, ErrorPage> {
    app.desk.steer(&caller, &id, &text_of_form(&fields)).await?;
    Ok(back(&id, Said::Accepted))
}

pub async fn interrupt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    let interrupted = app.desk.interrupt(&caller, &id, None).await?;
    let was_running = interrupted.task.status == Status::Cancelled;
    Ok(back(&id, if was_running { Said::Interrupted } else { Said::EndedFirst }))
}

pub async fn continue_task(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, ErrorPage> {
    let turn = Prompt { prompt: text_of_form(&fields), client_request_id: None };
    let continued = app.desk.continue_task(&caller, &id, turn).await?;
    Ok(back(continued.view.task.id.as_str(), Said::Continued))
}

pub async fn fork(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, ErrorPage> {
    let fork = Fork { prompt: Some(text_of_form(&fields)), client_request_id: None };
    let branch = app.desk.fork(&caller, &id, fork).await?;
    Ok(back(branch.task.id.as_str(), Said::Forked))
}

fn text_of_form(fields: &Fields) -> String {
    fields.value("text").unwrap_or_default().to_owned()
}

fn back(id: &str, said: Said) -> Response {
    let word = json!(said);
    Redirect::to(&format!("/tasks/{id}?said={}", word.as_str().unwrap_or_default())).into_response()
}

/// The outcome of a form. The message is not in the URL, which anybody can write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    Accepted,
    Interrupted,
    EndedFirst,
    Continued,
    Forked,
    #[serde(other)]
    Unknown,
}

impl Said {
    fn message(self) -> Option<&'static str> {
        Some(match self {
            Self::Accepted => "Codex has added your text to the running turn.",
            Self::Interrupted => "The turn was interrupted. You can continue the task.",
            Self::EndedFirst => "The turn had ended by itself before it could be interrupted.",
            Self::Continued => "The task continues.",
            Self::Forked => "This is the fork. The original task is unchanged.",
            Self::Unknown => return None,
        })
    }
}
