//! The login page. The gate handles its form.

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
pub struct LoginQuery {
    /// Present if the token was unknown.
    failed: Option<u8>,
}

#[derive(Template)]
#[template(path = "login.html")]
struct Page {
    frame: Frame,
    has_failed: bool,
}

pub async fn show(Query(query): Query<LoginQuery>, request: Request) -> Response {
    if request.extensions().get::<Caller>().is_some() {
        return Redirect::to("/tasks").into_response();
    }
    page(StatusCode::OK, &Page { frame: Frame::bare("login", "Log in"), has_failed: query.failed.is_some() })
}
