//! Deliveries: list and retry them, and test a target.

use axum::Json;
use axum::extract::State;
use codex_bridge_core::outbox;
use codex_bridge_core::store::DeliveryFilter;

use super::{App, Body, Call, Path, Query, Reply};
use crate::calls;
use crate::failure::Failure;
use crate::view::{Delivery, Tried};

pub async fn list(State(app): State<App>, Query(which): Query<calls::Deliveries>) -> Reply<Vec<Delivery>> {
    Ok(Json(listed(&app, &which).await?))
}

/// The deliveries that are pending or failed, or all of them; newest first.
pub async fn listed(app: &App, which: &calls::Deliveries) -> Result<Vec<Delivery>, Failure> {
    let unsent =
        [outbox::DeliveryState::Pending, outbox::DeliveryState::Attempting, outbox::DeliveryState::Dead];
    let mut task_ids = Vec::new();
    if let Some(id) = &which.task_id {
        task_ids.push(app.bridge.find(id).await?.id);
    }
    let filter = DeliveryFilter {
        task_ids,
        states: if which.all { Vec::new() } else { unsent.to_vec() },
        limit: Some(calls::limit(which.limit)?),
        ..DeliveryFilter::default()
    };
    Ok(app.bridge.deliveries(&filter).await?.into_iter().map(Delivery::from).collect())
}

pub async fn retry(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Delivery> {
    Ok(Json(app.desk.retry_delivery(&caller, &id).await?.into()))
}

pub async fn test(Call { app, caller }: Call, Body(test): Body<calls::TestTarget>) -> Reply<Tried> {
    let message_id = app.desk.test_target(&caller, &test.target).await?;
    Ok(Json(Tried { target: test.target, message_id }))
}
