//! Requests: what is open, and decisions on it.

use axum::Json;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};

use codex_bridge_core::bridge::Which;

use super::tasks::{as_diff, wants_diff};
use super::{App, Body, Caller, Path, Refusal, Reply};
use crate::calls;
use crate::failure::Failure;
use crate::view::{Decided, Request, Revealed, WholeChanges, diff_of};

pub async fn list(State(app): State<App>) -> Reply<Vec<Request>> {
    let open = app.bridge.open_requests(None).await?;
    Ok(Json(open.into_iter().map(Request::from).collect()))
}

pub async fn of_task(State(app): State<App>, Path(id): Path<String>) -> Reply<Vec<Request>> {
    let task_id = app.bridge.find(&id).await?.id;
    let requests = app.bridge.requests(task_id).await?;
    Ok(Json(requests.into_iter().map(Request::from).collect()))
}

/// Closed ones too: who comes late sees who was first, and what they said.
pub async fn show(State(app): State<App>, Path((id, request)): Path<(String, String)>) -> Reply<Request> {
    let task_id = app.bridge.find(&id).await?.id;
    Ok(Json(app.bridge.request(&task_id, &request).await?.into()))
}

/// The changes with their whole diffs: a list has only the beginning of long ones, and its digest is not enough for a yes.
pub async fn changes(
    State(app): State<App>,
    Path((id, request)): Path<(String, String)>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let task_id = app.bridge.find(&id).await?.id;
    let record = app.bridge.request(&task_id, &request).await?;
    let whole = WholeChanges::from(app.bridge.whole_changes(&record).await?);
    Ok(if wants_diff(&headers) { as_diff(diff_of(&whole.changes)) } else { Json(whole).into_response() })
}

pub async fn decide(
    State(app): State<App>,
    caller: Caller,
    Path((id, request)): Path<(String, String)>,
    Body(decide): Body<calls::Decide>,
) -> Reply<Decided> {
    let which = match which(&caller, &request, decide.digest.as_deref())? {
        Which::Shown { request_id, digest } if decide.revealed => {
            caller.must_be_owner()?;
            Which::Revealed { request_id, digest }
        }
        which => which,
    };
    let report = app.bridge.decide(&id, which, decide.read()?, &caller.name).await?;
    Ok(Json(report.into()))
}

/// The owner of the machine's account alone: nothing of this goes to a port or a chat.
pub async fn reveal(
    State(app): State<App>,
    caller: Caller,
    Path((id, request)): Path<(String, String)>,
) -> Reply<Revealed> {
    let task_id = app.bridge.find(&id).await?.id;
    let record = app.bridge.request(&task_id, &request).await?;
    let text = app.bridge.reveal(&record, &caller.name).await?;
    Ok(Json(Revealed { request_id: record.request_id, digest: record.digest, text }))
}

/// Which request a caller decides on. Whoever answers for others says what these were shown.
pub fn which<'a>(
    caller: &Caller,
    request_id: &'a str,
    digest: Option<&'a str>,
) -> Result<Which<'a>, Failure> {
    match (request_id, digest) {
        (calls::ONLY_REQUEST, _) | (_, None) if !caller.is_here() => {
            let message = "a decision names the request that was shown, by its `request_id` and its `digest`";
            Err(Failure::new("digest_missing", message).hint("take both from the request as it is listed"))
        }
        (calls::ONLY_REQUEST, _) => Ok(Which::Only),
        (request_id, Some(digest)) => Ok(Which::Shown { request_id, digest }),
        (request_id, None) => Ok(Which::Named(request_id)),
    }
}
