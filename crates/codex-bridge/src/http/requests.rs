//! Requests: list, show, decide and reveal them.

use axum::Json;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use codex_bridge_core::desk::calls::Decide;

use super::tasks::{as_diff, wants_diff};
use super::{Body, Call, Path, Refusal, Reply};
use crate::view::{Decided, Request, Revealed, WholeChanges, diff_of};

pub async fn list(Call { app, caller }: Call) -> Reply<Vec<Request>> {
    let open = app.desk.requests(&caller, None).await?;
    Ok(Json(open.into_iter().map(Request::from).collect()))
}

pub async fn of_task(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Vec<Request>> {
    let requests = app.desk.requests(&caller, Some(&id)).await?;
    Ok(Json(requests.into_iter().map(Request::from).collect()))
}

/// Shows closed requests too, so that a late caller sees who decided, and what.
pub async fn show(Call { app, caller }: Call, Path((id, request)): Path<(String, String)>) -> Reply<Request> {
    Ok(Json(app.desk.request(&caller, &id, &request).await?.into()))
}

/// The changes with whole diffs. A list has only the beginning of a long diff, and its digest does not allow an approval.
pub async fn changes(
    Call { app, caller }: Call,
    Path((id, request)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let record = app.desk.request(&caller, &id, &request).await?;
    let whole = WholeChanges::from(app.desk.whole_changes(&caller, &record).await?);
    Ok(if wants_diff(&headers) { as_diff(diff_of(&whole.changes)) } else { Json(whole).into_response() })
}

pub async fn decide(
    Call { app, caller }: Call,
    Path((id, request)): Path<(String, String)>,
    Body(decide): Body<Decide>,
) -> Reply<Decided> {
    Ok(Json(app.desk.decide(&caller, &id, &request, &decide).await?.into()))
}

pub async fn reveal(
    Call { app, caller }: Call,
    Path((id, request)): Path<(String, String)>,
) -> Reply<Revealed> {
    Ok(Json(app.desk.reveal(&caller, &id, &request).await?.into()))
}
