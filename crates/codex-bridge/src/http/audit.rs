//! The audit log: who decided or ordered what.

use axum::Json;
use codex_bridge_core::store::AUDIT_LINES;
use jiff::Timestamp;

use super::{Call, Query, Reply};
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::AuditLine;

/// The number of lines without a `limit`.
const DEFAULT_LINES: u32 = 200;

pub async fn list(Call { app, caller }: Call, Query(which): Query<calls::Audit>) -> Reply<Vec<AuditLine>> {
    let since = which.since.as_deref().map(parse_time).transpose()?;
    let limit = calls::limit_of(which.limit, DEFAULT_LINES, AUDIT_LINES)?;
    let lines = app.desk.audit_log(&caller, which.task.as_deref(), since, limit).await?;
    Ok(Json(lines.into_iter().map(AuditLine::from).collect()))
}

fn parse_time(text: &str) -> Result<i64, Failure> {
    let time: Result<Timestamp, _> = text.parse();
    time.map(Timestamp::as_millisecond).map_err(|_| {
        let message = format!("{text:?} is not a time");
        Failure::new(Code::BadCall, message).hint("write it as 2026-01-31T12:00:00Z")
    })
}
