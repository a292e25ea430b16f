//! The store: check it, back it up, and delete old tasks.

use axum::extract::State;
use axum::{Extension, Json};
use codex_bridge_core::Caller;

use super::{App, Body, Reply};
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::{Forgotten, StoreCheck};

pub async fn check(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply<StoreCheck> {
    let findings = app.desk.check_store(&caller).await?;
    Ok(Json(StoreCheck { sound: findings.is_empty(), findings }))
}

pub async fn backup(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(backup): Body<calls::Backup>,
) -> Reply<calls::Backup> {
    if !backup.file.is_absolute() {
        return Err(Failure::new(Code::BadCall, "the file must be an absolute path").into());
    }
    app.desk.back_up(&caller, &backup.file).await?;
    Ok(Json(backup))
}

pub async fn gc(State(app): State<App>, Extension(caller): Extension<Caller>) -> Reply<Forgotten> {
    Ok(Json(Forgotten { tasks: app.desk.forget_old(&caller).await? }))
}
