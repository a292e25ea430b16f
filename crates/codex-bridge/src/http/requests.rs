//! Requests: what is open, and decisions on it.

use axum::Json;
use axum::extract::{Path, State};

use super::{App, Body, Reply};
use crate::calls;
use crate::view::{Decided, Request};

/// Who decides at this door. The socket is the user's own.
const DECIDER: &str = "local user";
/// Stands for the only open request of a task.
const ONLY: &str = "-";

pub async fn list(State(app): State<App>) -> Reply<Vec<Request>> {
    let open = app.bridge.open_requests(None).await?;
    Ok(Json(open.into_iter().map(Request::from).collect()))
}

pub async fn decide(
    State(app): State<App>,
    Path((id, request)): Path<(String, String)>,
    Body(decide): Body<calls::Decide>,
) -> Reply<Decided> {
    let request = Some(request.as_str()).filter(|request| *request != ONLY);
    let report = app.bridge.decide(&id, request, decide.read()?, DECIDER).await?;
    Ok(Json(report.into()))
}
