//! The page of approvals: everything that waits for people, of all tasks; and what came of each.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::bridge::DecisionOutcome;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::request::RequestRecord;
use codex_bridge_core::task::TimeMs;
use redact::plain::plain;
use serde::Deserialize;

use super::fields::Fields;
use super::form::{Control, FormOf};
use super::frame::{Frame, page};
use super::request::{self, Card, Extent};
use super::wrong::Wrong;
use crate::http::{App, Path, Query};
use crate::view::diff_of;

/// Open requests that are drawn at once. A card may hold a large diff.
const ON_A_PAGE: usize = 50;

/// Which of the open requests.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Those that were asked after this one, which may be closed by now.
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct Page {
    frame: Frame,
    cards: Vec<Card>,
    /// After which one the next page begins.
    next: Option<String>,
    /// Not the first page.
    is_later: bool,
    /// One request by its address, rather than all that are open.
    is_single: bool,
}

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(wanted): Query<Wanted>,
) -> Result<Response, Wrong> {
    let frame = Frame::new(&app, &caller, "approvals", "Approvals").await?;
    let (drawn, next) = one_page(app.desk.requests(&caller, None).await?, wanted.after.as_deref());
    let mut cards = Vec::new();
    for record in drawn {
        let task = app.bridge.find(record.task_id.as_str()).await?;
        cards.push(Card::new(&record, &task, &caller));
    }
    let is_later = wanted.after.is_some();
    Ok(page(StatusCode::OK, &Page { frame, cards, next, is_later, is_single: false }))
}

/// Where a request stands among all: when it was asked, and its name.
fn place(record: &RequestRecord) -> (TimeMs, &str) {
    (record.created_at, record.request_id.as_str())
}

/// The open requests of one page, the oldest first, and where the next page begins.
fn one_page(mut open: Vec<RequestRecord>, after: Option<&str>) -> (Vec<RequestRecord>, Option<String>) {
    // A place that nobody gave is before all.
    let after = after.and_then(|after| after.split_once('.')).unwrap_or_default();
    let after = (after.0.parse().unwrap_or(TimeMs::MIN), after.1);
    open.sort_by(|one, other| place(one).cmp(&place(other)));
    open.retain(|record| place(record) > after);
    let is_last = open.len() <= ON_A_PAGE;
    open.truncate(ON_A_PAGE);
    let end = open.last().filter(|_| !is_last);
    let next = end.map(|record| format!("{}.{}", record.created_at, record.request_id));
    (open, next)
}

/// How one request is shown.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Shown {
    /// With its changes as a whole, where its card has the beginning.
    whole: bool,
    /// What came of the answer that was just sent: `first` or `late`.
    sent: Option<String>,
}

/// One request, open or not.
pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((task, request)): Path<(String, String)>,
    Query(shown): Query<Shown>,
) -> Result<Response, Wrong> {
    let frame = Frame::new(&app, &caller, "approvals", "Approval").await?;
    let task = app.bridge.find(&task).await?;
    let record = app.desk.request(&caller, task.id.as_str(), &request).await?;
    let mut card = Card::new(&record, &task, &caller);
    if shown.whole {
        card = card.opened(app.desk.whole_changes(&caller, &record).await?);
    }
    (card.head, card.tone) = match shown.sent.as_deref() {
        Some("first") => ("Your answer is in", "good"),
        Some("late") => ("Your answer came too late", "wait"),
        _ => (card.head, card.tone),
    };
    let cards = vec![card];
    Ok(page(StatusCode::OK, &Page { frame, cards, next: None, is_later: false, is_single: true }))
}

/// The changes that a request asks for, as one diff: whole, where a card has the beginning.
pub async fn changes(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((task, request)): Path<(String, String)>,
) -> Result<Response, Wrong> {
    let record = app.desk.request(&caller, &task, &request).await?;
    let changes = app.desk.whole_changes(&caller, &record).await?.changes;
    let text = plain(&diff_of(&changes)).into_owned();
    Ok(([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

pub async fn decide(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((task, request_id)): Path<(String, String)>,
    fields: Fields,
) -> Result<Response, Wrong> {
    caller.may(Verb::Decide)?;
    let task = app.bridge.find(&task).await?;
    let record = app.bridge.request(&task.id, &request_id).await?;
    let decision = request::decision(&record, &fields)?;
    let decided = app.desk.decide(&caller, task.id.as_str(), record.request_id.as_str(), &decision).await?;
    let is_taken = matches!(decided.outcome, DecisionOutcome::Resolved | DecisionOutcome::Sent);
    let sent = if is_taken { "first" } else { "late" };
    // Not to the list: what was pressed twice must not meet the next request there.
    let address = format!("/approvals/{}/{}?sent={sent}", task.id, record.request_id);
    Ok(Redirect::to(&address).into_response())
}

#[cfg(test)]
mod tests {
    use codex_bridge_core::request::{RequestName, RequestState, StoredAsk};
    use codex_bridge_core::task::TaskId;
    use serde_json::json;

    use super::*;

    fn asked(number: i64) -> RequestRecord {
        RequestRecord {
            key: serde_json::from_value(json!({"epoch": "e", "id": number})).unwrap(),
            task_id: TaskId("codex-1".into()),
            request_id: RequestName(format!("req-{number:03}")),
            method: String::new(),
            ask: StoredAsk::default(),
            state: RequestState::Open,
            digest: "d".into(),
            sealed_ask: None,
            sealed_decision: None,
            decision: None,
            decided_by: None,
            decided_at: None,
            // Some are asked at the same moment.
            created_at: number / 3,
            expires_at: None,
            closed_at: None,
        }
    }

    #[test]
    fn all_that_is_open_is_on_some_page_once_also_while_requests_are_closed() {
        let mut open: Vec<RequestRecord> = (0..120).rev().map(asked).collect();
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let (drawn, next) = one_page(open.clone(), after.as_deref());
            assert!(drawn.len() <= ON_A_PAGE);
            // The last one of a page is answered before the next page is opened.
            open.retain(|record| drawn.last().is_none_or(|last| last.request_id != record.request_id));
            seen.extend(drawn.into_iter().map(|record| record.request_id));
            pages += 1;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let wanted: Vec<RequestName> = (0..120).map(|number| asked(number).request_id).collect();
        assert_eq!((pages, seen), (3, wanted));
        assert_eq!(one_page((0..50).map(asked).collect(), None).1, None);
        assert_eq!(one_page((0..2).map(asked).collect(), Some("what")).0.len(), 2);
    }
}
