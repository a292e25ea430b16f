//! The page of one task: what it does, what it says, what it asks; and how to steer, stop, continue and branch it.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::TaskView;
use codex_bridge_core::event::Seq;
use codex_bridge_core::task::TaskId;
use codex_bridge_core::trust::Trust;
use redact::plain::plain;
use serde::Deserialize;

use super::fields::Fields;
use super::form::{Control, FormOf};
use super::frame::{Frame, page};
use super::links::Links;
use super::request::{Card, Extent};
use super::tasks::{elapsed, running_since};
use super::timeline::{Entry, Timeline, What, whole_text as text_of};
use super::words::{self, Badge};
use super::wrong::Wrong;
use crate::amount;
use crate::calls::{Fork, Prompt};
use crate::failure::{Code, Failure};
use crate::http::origin::Names;
use crate::http::{App, Path, Query};
use crate::view::{self};

/// Events on one page.
const ON_A_PAGE: u32 = 300;
/// Events before those that are read only to know what they belong to: a call that began earlier.
const CONTEXT: Seq = 200;

/// `GET /tasks/{id}`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Only entries with something new after this event: what the script asks for.
    after: Option<Seq>,
    /// Only events before this one: the earlier pages.
    before: Option<Seq>,
    /// What came of a form of this page, in one word.
    said: Option<String>,
}

#[derive(Template)]
#[template(path = "task.html")]
struct Page {
    frame: Frame,
    task: Head,
    cards: Vec<Card>,
    said: Option<&'static str>,
    entries: Vec<Entry>,
    /// The first event on the page, if there are earlier ones.
    earlier_than: Option<Seq>,
    /// The events on the page are those after this one …
    after: Seq,
    /// … up to this one.
    last_seq: Seq,
    /// Whether the page ends with the newest event, and is kept up to date.
    is_newest: bool,
}

/// What stands above the timeline.
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
    Query(wanted): Query<Wanted>,
) -> Result<Response, Wrong> {
    let view = app.desk.show(&caller, &id).await?;
    let task = &view.task;
    let links = Links::beyond(names.as_deref().map(AsRef::as_ref));
    let read = read(&app, &task.id, &wanted, links).await?;
    let summary: String = plain(&task.prompt_summary).chars().take(60).collect();
    let frame = Frame::new(&app, &caller, "task", summary.lines().next().unwrap_or_default()).await?;
    let cards = view.open_requests.iter().map(|record| Card::new(record, task, &caller)).collect();
    let page_of_task = Page {
        frame,
        task: Head::new(&view, running_since(&app, task).await?),
        cards,
        said: wanted.said.as_deref().and_then(sentence),
        entries: read.entries,
        earlier_than: read.earlier_than,
        after: read.after,
        last_seq: read.last_seq,
        is_newest: wanted.before.is_none(),
    };
    Ok(page(StatusCode::OK, &page_of_task))
}

struct Read {
    entries: Vec<Entry>,
    earlier_than: Option<Seq>,
    after: Seq,
    last_seq: Seq,
}

/// The entries that are wanted. Numbers have no gaps, so the page before a number is known without looking.
async fn read(app: &App, id: &TaskId, wanted: &Wanted, links: Links) -> Result<Read, Failure> {
    let on_a_page = Seq::from(ON_A_PAGE);
    let newest = app.bridge.last_events(id, 1).await?.last().map_or(0, |event| event.seq);
    let end = wanted.before.map_or(newest, |before| before.saturating_sub(1).clamp(0, newest));
    // Whoever is far behind gets the newest page: what lies between is on the earlier ones.
    let after = wanted.after.unwrap_or(0).clamp(0, end).max(end - on_a_page);
    let from = (after - CONTEXT).max(0);
    let limit = u32::try_from(end - from).unwrap_or(ON_A_PAGE);
    let events = app.bridge.events(id, from, limit).await?;
    let mut timeline = Timeline::new(&app.bridge.turns(id).await?, links);
    for event in &events {
        timeline.read(event);
    }
    let first_kept = app.bridge.events(id, 0, 1).await?.first().map_or(1, |event| event.seq);
    Ok(Read {
        entries: timeline.since(after),
        earlier_than: (after >= first_kept).then_some(after.saturating_add(1)),
        after,
        last_seq: end,
    })
}

/// All text of one event.
pub async fn whole_text(
    State(app): State<App>,
    Path((id, seq)): Path<(String, Seq)>,
) -> Result<Response, Wrong> {
    let task = app.bridge.find(&id).await?;
    let event = app.bridge.events(&task.id, seq.saturating_sub(1), 1).await?.pop();
    let event = event.filter(|event| event.seq == seq);
    let event = event.ok_or_else(|| Failure::new(Code::UnknownRoute, "this event is not kept any more"))?;
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text_of(&event)).into_response())
}

pub async fn steer(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, Wrong> {
    let steered = app.desk.steer(&caller, &id, &text_of_form(&fields)).await?;
    match view::steer_outcome(steered.outcome) {
        (_, Some(message)) => Err(Wrong::half_done(Failure::new(Code::NotSteered, message))),
        (outcome, None) => Ok(back(&id, outcome)),
    }
}

pub async fn interrupt(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, Wrong> {
    let stopped = app.desk.interrupt(&caller, &id, None).await?;
    Ok(back(&id, view::interrupt_outcome(stopped.task.status)))
}

pub async fn continue_task(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, Wrong> {
    let turn = Prompt { prompt: text_of_form(&fields), client_request_id: None };
    let continued = app.desk.continue_task(&caller, &id, turn).await?;
    Ok(back(continued.view.task.id.as_str(), "continued"))
}

pub async fn fork(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    fields: Fields,
) -> Result<Response, Wrong> {
    let fork = Fork { prompt: Some(text_of_form(&fields)), client_request_id: None };
    let branch = app.desk.fork(&caller, &id, fork).await?;
    Ok(back(branch.task.id.as_str(), "forked"))
}

fn text_of_form(fields: &Fields) -> String {
    fields.said("text").unwrap_or_default().to_owned()
}

fn back(id: &str, said: &str) -> Response {
    Redirect::to(&format!("/tasks/{id}?said={said}")).into_response()
}

/// What came of a form, for people. Only words of ours: the address is anyone's to write.
fn sentence(said: &str) -> Option<&'static str> {
    Some(match said {
        "accepted" => "Codex has taken your words into the running turn.",
        "no_active_turn" => "The turn had ended before your words came. Continue the task instead.",
        "wrong_turn" => "Another turn had begun before your words came. They were not added.",
        "not_steerable" => "This turn takes no words while it runs. Wait for its end, or stop it.",
        "interrupted" => "The turn is stopped. Continue the task when you like.",
        "ended_first" => "The turn had ended by itself before it could be stopped.",
        "continued" => "Your words are on their way.",
        "forked" => "This is the branch. The task that it came from stays as it is.",
        _ => return None,
    })
}
