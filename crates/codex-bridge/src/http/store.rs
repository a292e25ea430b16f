//! The store: checks, copies, forgetting.

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;

use super::{App, Body, Reply};
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::{Forgotten, StoreCheck};

pub async fn check(State(app): State<App>) -> Reply<StoreCheck> {
    let findings = app.bridge.store().check().await?;
    Ok(Json(StoreCheck { sound: findings.is_empty(), findings }))
}

pub async fn backup(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(backup): Body<calls::Backup>,
) -> Reply<calls::Backup> {
    if !backup.file.is_absolute() {
        return Err(Failure::new(Code::BadCall, "the file must be a whole path, from / on").into());
    }
    app.bridge.note(&caller.name, "back up store", None).await?;
    app.bridge.store().backup(&backup.file).await?;
    Ok(Json(backup))
}

pub async fn gc(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply<Forgotten> {
    app.bridge.note(&caller.name, "forget old tasks", None).await?;
    Ok(Json(Forgotten { tasks: app.bridge.forget_old().await? }))
}
