//! The tool: one call in, one reply out.

use axum::Json;
use axum::extract::State;
use serde_json::Value;

use super::{App, Body, Caller, Reply};
use crate::calls;
use crate::tool;

pub async fn call(State(app): State<App>, caller: Caller, Body(call): Body<calls::Tool>) -> Reply<Value> {
    Ok(Json(tool::answer(&app, &caller, call).await))
}
