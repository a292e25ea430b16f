//! The page of approvals: the open requests of all tasks, and the outcome of each.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Redirect, Response};
use codex_bridge_core::Caller;
use codex_bridge_core::desk::Verb;
use codex_bridge_core::request::RequestRecord;
use codex_bridge_core::task::TimeMs;
use redact::plain::plain;
use serde::Deserialize;

use super::error_page::ErrorPage;
use super::fields::Fields;
use super::form::{Control, McpForm};
use super::frame::{Frame, page};
use super::request::{self, Card, Extent};
use crate::http::{App, Path, Query};
use crate::view::diff_of;

/// Requests on one page. A card may hold a large diff.
const PAGE_SIZE: usize = 50;

/// `GET /approvals`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ListQuery {
    /// Only requests after this one, which may be closed by now.
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "approvals.html")]
struct Page {
    frame: Frame,
    cards: Vec<Card>,
    /// The last request of this page, if there is a next page.
    next: Option<String>,
    /// Whether this is not the first page.
    is_later: bool,
    /// Whether the page shows one request instead of all open ones.
    is_single: bool,
}

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(query): Query<ListQuery>,
) -> Result<Response, ErrorPage> {
    let frame = Frame::new(&app, &caller, "approvals", "Approvals").await?;
    let (records, next) = one_page(app.desk.requests(&caller, None).await?, query.after.as_deref());
    let mut cards = Vec::new();
    for record in records {
        let task = app.desk.find(&caller, record.task_id.as_str()).await?;
        cards.push(Card::new(&record, &task, &caller));
    }
    let is_later = query.after.is_some();
    Ok(page(StatusCode::OK, &Page { frame, cards, next, is_later, is_single: false }))
}

/// The sort key of a request.
fn sort_key(record: &RequestRecord) -> (TimeMs, &str) {
    (record.created_at, record.request_id.as_str())
}

/// The open requests of one page, oldest first, and the `after` of the next page.
fn one_page(mut open: Vec<RequestRecord>, after: Option<&str>) -> (Vec<RequestRecord>, Option<String>) {
    // An invalid `after` means the first page.
    let after = after.and_then(|after| after.split_once('.')).unwrap_or_default();
    let after = (after.0.parse().unwrap_or(TimeMs::MIN), after.1);
    open.sort_by(|one, other| sort_key(one).cmp(&sort_key(other)));
    open.retain(|record| sort_key(record) > after);
    let is_last = open.len() <= PAGE_SIZE;
    open.truncate(PAGE_SIZE);
    let end = open.last().filter(|_| !is_last);
    let next = end.map(|record| format!("{}.{}", record.created_at, record.request_id));
    (open, next)
}

/// `GET /approvals/{task}/{request}`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ShowQuery {
    /// Show the whole diffs.
    whole: bool,
    /// Whether the visitor has just decided.
    sent: bool,
}

/// One request, open or not.
pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((task, request)): Path<(String, String)>,
    Query(query): Query<ShowQuery>,
) -> Result<Response, ErrorPage> {
    let frame = Frame::new(&app, &caller, "approvals", "Approval").await?;
    let task = app.desk.find(&caller, &task).await?;
    let record = app.desk.request(&caller, task.id.as_str(), &request).await?;
    let mut card = Card::new(&record, &task, &caller);
    if query.whole {
        card = card.opened(app.desk.whole_changes(&caller, &record).await?);
    }
    if query.sent {
        (card.outcome_title, card.outcome_tone) = ("Your decision was recorded", "good");
    }
    let cards = vec![card];
    Ok(page(StatusCode::OK, &Page { frame, cards, next: None, is_later: false, is_single: true }))
}

/// The whole changes of a request, as one diff.
pub async fn changes(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path((task, request)): Path<(String, String)>,
) -> Result<Response, ErrorPage> {
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
) -> Result<Response, ErrorPage> {
    // Before the request is read, so that nobody else learns whether it exists.
    caller.may(Verb::Decide)?;
    let record = app.desk.request(&caller, &task, &request_id).await?;
    let decision = request::decision(&record, &fields)?;
    let (task, request_id) = (record.task_id.as_str(), record.request_id.as_str());
    app.desk.decide(&caller, task, request_id, &decision).await?;
    // Not to the list: a second press in the same place must not decide the next request.
    let address = format!("/approvals/{task}/{request_id}?sent=true");
    Ok(Redirect::to(&address).into_response())
}

#[cfg(test)]
mod tests {
    use codex_bridge_core::request::{RequestName, RequestState, StoredAsk};
    use codex_bridge_core::task::TaskId;
    use serde_json::json;

    use super::*;

    fn request(number: i64) -> RequestRecord {
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
            // Some requests have the same time.
            created_at: number / 3,
            expires_at: None,
            closed_at: None,
        }
    }

    #[test]
    fn every_open_request_is_on_one_page_even_while_requests_are_closed() {
        let mut open: Vec<RequestRecord> = (0..120).rev().map(request).collect();
        let (mut seen, mut after, mut pages) = (Vec::new(), None, 0);
        loop {
            let (records, next) = one_page(open.clone(), after.as_deref());
            assert!(records.len() <= PAGE_SIZE);
            // The last request of a page is decided before the next page is opened.
            open.retain(|record| records.last().is_none_or(|last| last.request_id != record.request_id));
            seen.extend(records.into_iter().map(|record| record.request_id));
            pages += 1;
            match next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        let expected: Vec<RequestName> = (0..120).map(|number| request(number).request_id).collect();
        assert_eq!((pages, seen), (3, expected));
        assert_eq!(one_page((0..50).map(request).collect(), None).1, None);
        assert_eq!(one_page((0..2).map(request).collect(), Some("what")).0.len(), 2);
    }
}
