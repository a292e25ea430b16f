//! The login page: a token, once. What it is exchanged for is not known here.

use askama::Template;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use codex_bridge_core::Caller;
use serde::Deserialize;

use super::frame::{Frame, page};
use crate::http::Query;

/// `GET /login`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    /// Anything: a token was tried, and was none.
    failed: Option<u8>,
}

#[derive(Template)]
#[template(path = "login.html")]
struct Page {
    frame: Frame,
    has_failed: bool,
}

pub async fn show(Query(wanted): Query<Wanted>, request: Request) -> Response {
    if request.extensions().get::<Caller>().is_some() {
        return Redirect::to("/tasks").into_response();
    }
    page(StatusCode::OK, &Page { frame: Frame::bare("login", "Log in"), has_failed: wanted.failed.is_some() })
}
