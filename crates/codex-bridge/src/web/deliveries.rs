//! The page of deliveries: their state, and a button to retry them.

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use redact::plain::plain;

use super::error_page::ErrorPage;
use super::frame::{Frame, page};
use super::words::Badge;
use crate::calls;
use crate::http::{App, Path, deliveries};
use crate::view::Delivery;
use codex_bridge_core::Caller;
use codex_bridge_core::outbox::DeliveryState;

#[derive(Template)]
#[template(path = "deliveries.html")]
struct Page {
    frame: Frame,
    rows: Vec<Row>,
}

struct Row {
    delivery: Delivery,
    target: String,
    error: Option<String>,
    state: Badge,
    can_retry: bool,
}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ErrorPage> {
    let frame = Frame::new(&app, &caller, "deliveries", "Deliveries").await?;
    let all = calls::Deliveries { all: true, ..calls::Deliveries::default() };
    let listed = deliveries::listed(&app, &caller, &all).await?;
    let rows = listed.into_iter().map(row).collect();
    Ok(page(StatusCode::OK, &Page { frame, rows }))
}

pub async fn retry(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<Response, ErrorPage> {
    app.desk.retry_delivery(&caller, &id).await?;
    Ok(Redirect::to("/deliveries").into_response())
}

fn row(delivery: Delivery) -> Row {
    let tone = match delivery.state {
        DeliveryState::Pending => "wait",
        DeliveryState::Attempting => "live",
        DeliveryState::Delivered => "good",
        DeliveryState::Withdrawn => "quiet",
        DeliveryState::Dead => "bad",
    };
    Row {
        target: plain(&delivery.target).into_owned(),
        error: delivery.last_error.as_ref().map(|error| plain(error).into_owned()),
        state: Badge { words: delivery.state.as_str(), tone },
        can_retry: delivery.state == DeliveryState::Dead,
        delivery,
    }
}
