//! The web page: the door for people with a browser.
//!
//! The server renders the pages, with the same desk and rules as the other doors. Pages can be read, and their forms sent,
//! without a script. The script keeps open pages up to date: it fetches the same page again and inserts what has changed.
//! A page does not offer what the caller's role does not allow, and the desk refuses it.

mod approvals;
mod assets;
mod cut;
mod deliveries;
mod diff;
mod error_page;
mod fields;
mod form;
mod frame;
mod hosts;
mod links;
mod locked;
mod login;
mod markdown;
mod request;
mod task;
mod tasks;
mod timeline;
mod words;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::middleware::{self, Next};
use axum::response::{Redirect, Response};
use axum::routing::{get, post};

use crate::http::App;
use crate::http::gate::Pages;

/// Allows nothing from other servers, nothing inline, and no framing.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The pages that the gate shows.
pub const LOGIN_PAGES: Pages = Pages { entered: locked::entered, locked: locked::page };

/// The routes of the pages. The gate has authenticated the caller, except for the login page and the assets.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/", get(async || Redirect::to("/tasks")))
        .route("/tasks", get(tasks::list).post(tasks::start))
        .route("/tasks/{id}", get(task::show))
        .route("/tasks/{id}/events/{seq}", get(task::whole_text))
        .route("/tasks/{id}/steer", post(task::steer))
        .route("/tasks/{id}/interrupt", post(task::interrupt))
        .route("/tasks/{id}/continue", post(task::continue_task))
        .route("/tasks/{id}/fork", post(task::fork))
        .route("/approvals", get(approvals::list))
        .route("/approvals/{task}/{request}", get(approvals::show).post(approvals::decide))
        .route("/approvals/{task}/{request}/changes", get(approvals::changes))
        .route("/hosts", get(hosts::show))
        .route("/deliveries", get(deliveries::show))
        .route("/deliveries/{id}/retry", post(deliveries::retry))
        .route("/login", get(login::show))
        .route("/assets/{name}", get(assets::serve))
        .layer(middleware::from_fn(add_security_headers))
}

async fn add_security_headers(request: Request, next: Next) -> Response {
    with_security_headers(next.run(request).await)
}

/// Tells the browser to block what our pages never do.
fn with_security_headers(mut response: Response) -> Response {
    let headers = response.headers_mut();
    // Not `no-referrer`: with it, Chromium 148 sends `Origin: null` with our own forms, as it does for other sites.
    let fixed: [(HeaderName, &str); 4] = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (REFERRER_POLICY, "same-origin"),
        (X_FRAME_OPTIONS, "DENY"),
        // A page that opened ours could move or cover it.
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    ];
    for (name, value) in fixed {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
