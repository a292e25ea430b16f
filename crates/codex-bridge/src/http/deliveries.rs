//! Deliveries: list and retry them, and test a target.

use axum::Json;
use codex_bridge_core::desk::Caller;
use codex_bridge_core::outbox;
use codex_bridge_core::store::DeliveryFilter;

use super::{App, Body, Call, Path, Query, Reply};
use crate::calls;
use crate::failure::Failure;
use crate::view::{Delivery, Tried};

pub async fn list(
    Call { app, caller }: Call,
    Query(which): Query<calls::Deliveries>,
) -> Reply<Vec<Delivery>> {
    Ok(Json(listed(&app, &caller, &which).await?))
}

/// The deliveries that are pending or failed, or all of them; newest first.
pub async fn listed(app: &App, caller: &Caller, which: &calls::Deliveries) -> Result<Vec<Delivery>, Failure> {
    let unsent =
        [outbox::DeliveryState::Pending, outbox::DeliveryState::Attempting, outbox::DeliveryState::Dead];
    let filter = DeliveryFilter {
        states: if which.all { Vec::new() } else { unsent.to_vec() },
        limit: Some(calls::limit(which.limit)?),
        ..DeliveryFilter::default()
    };
    let deliveries = app.desk.deliveries(caller, which.task_id.as_deref(), filter).await?;
    Ok(deliveries.into_iter().map(Delivery::from).collect())
}

pub async fn retry(Call { app, caller }: Call, Path(id): Path<String>) -> Reply<Delivery> {
    Ok(Json(app.desk.retry_delivery(&caller, &id).await?.into()))
}

pub async fn test(Call { app, caller }: Call, Body(test): Body<calls::TestTarget>) -> Reply<Tried> {
    let message_id = app.desk.test_target(&caller, &test.target).await?;
    Ok(Json(Tried { target: test.target, message_id }))
}
