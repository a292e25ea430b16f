//! Deliveries: what was sent to whom, what could not be, and trying again.

use axum::Json;
use axum::extract::State;
use codex_bridge_core::outbox;
use codex_bridge_core::store::DeliveryFilter;

use super::{App, Body, Caller, Path, Query, Reply, page};
use crate::calls;
use crate::view::{Delivery, Tried};

pub async fn list(State(app): State<App>, Query(which): Query<calls::Deliveries>) -> Reply<Vec<Delivery>> {
    let unsent = [outbox::State::Pending, outbox::State::Attempting, outbox::State::Dead];
    let mut task_ids = Vec::new();
    if let Some(id) = &which.task_id {
        task_ids.push(app.bridge.find(id).await?.id);
    }
    let filter = DeliveryFilter {
        task_ids,
        states: if which.all { Vec::new() } else { unsent.to_vec() },
        limit: Some(page::limit(which.limit)?),
        ..DeliveryFilter::default()
    };
    Ok(Json(app.bridge.deliveries(&filter).await?.into_iter().map(Delivery::from).collect()))
}

pub async fn retry(State(app): State<App>, caller: Caller, Path(id): Path<String>) -> Reply<Delivery> {
    Ok(Json(app.bridge.retry_delivery(&id, &caller.name).await?.into()))
}

pub async fn test(
    State(app): State<App>,
    caller: Caller,
    Body(test): Body<calls::TestTarget>,
) -> Reply<Tried> {
    let message_id = app.bridge.try_target(&test.target, &caller.name).await?;
    Ok(Json(Tried { target: test.target, message_id }))
}
