//! The web page: what the other doors do, for people with a browser.
//!
//! Pages are made here, on the server, from the same bridge and under the same rules as everything else; they can be
//! read, and their forms sent, without a script. The script only keeps open pages up to date: it fetches the very same
//! pages again and puts what is new in place. What a caller's role does not allow is not offered, and refused.

mod approvals;
mod assets;
mod cut;
mod deliveries;
mod diff;
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
mod wrong;

use axum::Router;
use axum::extract::Request;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_FRAME_OPTIONS};
use axum::middleware::{self, Next};
use axum::response::{Redirect, Response};
use axum::routing::{get, post};

use crate::http::App;
use crate::http::gate::Pages;

/// Nothing from elsewhere, nothing inline, in nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
    connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The pages between the cookie and a change.
pub const BETWEEN: Pages = Pages { entered: locked::entered, locked: locked::page };

/// The pages. Whoever sees them has been let in by somebody else; the login page and what it is drawn with are for all.
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
        .layer(middleware::from_fn(shielded))
}

async fn shielded(request: Request, next: Next) -> Response {
    shield(next.run(request).await)
}

/// Tells the browser what our pages never do, so that it stops whatever looks as if they did.
fn shield(mut response: Response) -> Response {
    let headers = response.headers_mut();
    // Not `no-referrer`: Chromium 148 then sends `Origin: null` with our own forms, which could be anyone's.
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
