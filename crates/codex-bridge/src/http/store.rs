//! The store: check it, back it up, and delete old tasks.

use axum::Json;

use super::{Body, Call, Reply};
use crate::calls;
use crate::failure::{Code, Failure};
use crate::view::{Forgotten, StoreCheck};

pub async fn check(Call { app, caller }: Call) -> Reply<StoreCheck> {
    let findings = app.desk.check_store(&caller).await?;
    Ok(Json(StoreCheck { sound: findings.is_empty(), findings }))
}

pub async fn backup(Call { app, caller }: Call, Body(backup): Body<calls::Backup>) -> Reply<calls::Backup> {
    if !backup.file.is_absolute() {
        return Err(Failure::new(Code::BadCall, "the file must be an absolute path").into());
    }
    app.desk.back_up(&caller, &backup.file).await?;
    Ok(Json(backup))
}

pub async fn gc(Call { app, caller }: Call) -> Reply<Forgotten> {
    Ok(Json(Forgotten { tasks: app.desk.forget_old(&caller).await? }))
}
