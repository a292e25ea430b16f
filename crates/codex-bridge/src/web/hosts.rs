//! The page of hosts: the running Codex processes, and the daemon.

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::error_page::ErrorPage;
use super::frame::{Frame, page};
use super::{cut, words};
use crate::amount;
use crate::http::App;
use crate::view::{About, Host};
use codex_bridge_core::Caller;

#[derive(Template)]
#[template(path = "hosts.html")]
struct Page {
    frame: Frame,
    about: Arc<About>,
    hosts: Vec<Row>,
}

struct Row {
    host: Host,
    since: String,
    memory: Option<String>,
}

pub async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
) -> Result<Response, ErrorPage> {
    let frame = Frame::new(&app, &caller, "hosts", "Hosts").await?;
    let now = amount::now_ms();
    let hosts = app.desk.hosts(&caller)?;
    let rows = hosts.iter().map(|host| Row {
        since: words::ago(i64::try_from(host.record().started_at_ms).unwrap_or_default(), now),
        memory: host.rss_bytes().map(|bytes| cut::size(usize::try_from(bytes).unwrap_or(usize::MAX))),
        host: Host::from(host),
    });
    Ok(page(StatusCode::OK, &Page { frame, about: Arc::clone(&app.about), hosts: rows.collect() }))
}
