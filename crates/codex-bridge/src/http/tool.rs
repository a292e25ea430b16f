//! `POST /v1/tool`: one call of the `codex_bridge` tool.

use axum::Json;
use serde_json::Value;

use super::{Body, Call, Reply};
use crate::calls;
use crate::tool;

pub async fn call(Call { app, caller }: Call, Body(call): Body<calls::Tool>) -> Reply<Value> {
    Ok(Json(tool::answer(&app.desk, &caller, call).await))
}
