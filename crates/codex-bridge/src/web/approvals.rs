//! The page of approvals: everything that waits for people, of all tasks; and what came of each.

use askama::Template;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use redact::plain::plain;
use serde::Deserialize;

use super::fields::Fields;
use super::frame::{Frame, page};
use super::request::{self, Card, FormOf};
use super::wrong::Wrong;
use crate::http::{App, Body, Caller, Path, Query, Refusal, Role, requests};
use crate::view::{Change, diff_of};

/// What was decided last, on the way back from a form.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Last {
    /// The task whose request it was.
    of: Option<String>,
    /// The request.
    answered: Option<String>,
    /// Somebody else was first.
    late: bool,
}

/// What came of the decision that was sent last.
pub struct Told {
    /// What was asked.
    pub title: String,
    /// What came of it.
    pub verdict: String,
    /// Whether whoever reads this was too late.
    pub was_late: bool,
    /// The task.
    pub task_id: String,
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct Page {
    frame: Frame,
    cards: Vec<Card>,
    told: Option<Told>,
    /// One request by its address, rather than all that are open.
    is_single: bool,
}

pub async fn list(
    State(app): State<App>,
    caller: Caller,
    Query(last): Query<Last>,
) -> Result<Response, Wrong> {
    let frame = Frame::new(&app, &caller, "approvals", "Approvals").await?;
    let mut cards = Vec::new();
    for record in app.bridge.open_requests(None).await? {
        let task = app.bridge.find(record.task_id.as_str()).await?;
        cards.push(Card::new(&record, &task, &caller));
    }
    let told = told(&app, &caller, &last).await;
    Ok(page(StatusCode::OK, &Page { frame, cards, told, is_single: false }))
}

/// One request, open or not.
pub async fn show(
    State(app): State<App>,
    caller: Caller,
    Path((task, request)): Path<(String, String)>,
) -> Result<Response, Wrong> {
    let frame = Frame::new(&app, &caller, "approvals", "Approval").await?;
    let task = app.bridge.find(&task).await?;
    let record = app.bridge.request(&task.id, &request).await?;
    let cards = vec![Card::new(&record, &task, &caller)];
    Ok(page(StatusCode::OK, &Page { frame, cards, told: None, is_single: true }))
}

/// The changes that a request asks for, as one diff: whole, where a card has the beginning.
pub async fn changes(
    State(app): State<App>,
    caller: Caller,
    Path((task, request)): Path<(String, String)>,
) -> Result<Response, Wrong> {
    caller.may(Role::Viewer)?;
    let task = app.bridge.find(&task).await?;
    let record = app.bridge.request(&task.id, &request).await?;
    let changes = Change::of(&app.bridge.whole_changes(&record).await?);
    let text = plain(&diff_of(&changes)).into_owned();
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

pub async fn decide(
    State(app): State<App>,
    caller: Caller,
    Path((task, request_id)): Path<(String, String)>,
    fields: Fields,
) -> Result<Response, Wrong> {
    caller.may(Role::Approver)?;
    let task = app.bridge.find(&task).await?;
    let record = app.bridge.request(&task.id, &request_id).await?;
    let decision = request::decision(&record, &fields)?;
    let path = Path((task.id.0.clone(), record.request_id.clone()));
    let decided = requests::decide(State(app), caller, path, Body(decision)).await;
    let Json(decided) = decided.map_err(Refusal::into_failure)?;
    let is_taken = matches!(decided.outcome.as_str(), "resolved" | "sent");
    let late = if is_taken { "" } else { "&late=true" };
    let back = match fields.said("back") {
        Some("task") => format!("/tasks/{}", task.id),
        _ => "/approvals".to_owned(),
    };
    let address = format!("{back}?of={}&answered={}{late}", task.id, record.request_id);
    Ok(Redirect::to(&address).into_response())
}

/// What came of the decision that was sent last; nothing if it is not known any more.
pub async fn told(app: &App, caller: &Caller, last: &Last) -> Option<Told> {
    let task = app.bridge.find(last.of.as_deref()?).await.ok()?;
    let record = app.bridge.request(&task.id, last.answered.as_deref()?).await.ok()?;
    let card = Card::new(&record, &task, caller);
    let verdict = card.verdict?;
    Some(Told { title: card.request.title, verdict, was_late: last.late, task_id: task.id.0 })
}
