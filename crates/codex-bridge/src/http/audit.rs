//! The audit log: who decided or commanded what.

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;
use codex_bridge_core::store::AUDIT_LINES;
use jiff::Timestamp;

use super::{App, Query, Reply, page};
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::AuditLine;

/// Lines that are given to who does not say how many.
const USUAL: u32 = 200;

pub async fn list(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Query(which): Query<calls::Audit>,
) -> Reply<Vec<AuditLine>> {
    let since = which.since.as_deref().map(moment).transpose()?;
    let limit = page::limit_of(which.limit, USUAL, AUDIT_LINES)?;
    let lines = app.desk.audit_log(&caller, which.task.as_deref(), since, limit).await?;
    Ok(Json(lines.into_iter().map(AuditLine::from).collect()))
}

fn moment(text: &str) -> Result<i64, Failure> {
    let moment: Result<Timestamp, _> = text.parse();
    moment.map(Timestamp::as_millisecond).map_err(|_| {
        let message = format!("{text:?} is no time");
        Failure::new(Code::BadCall, message).hint("write it as 2026-01-31T12:00:00Z")
    })
}
