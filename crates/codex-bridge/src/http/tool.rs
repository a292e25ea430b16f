//! `POST /v1/tool`: one call of the `codex_bridge` tool.

use axum::extract::State;
use axum::{Extension, Json};
use serde_json::Value;

use super::{App, Body, Reply};
use crate::calls;
use crate::tool;
use codex_bridge_core::Caller;

pub async fn call(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(call): Body<calls::Tool>,
) -> Reply<Value> {
    Ok(Json(tool::answer(&app.desk, &caller, call).await))
}
