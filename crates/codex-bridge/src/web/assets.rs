//! The style sheet, the scripts and the icon. Their names contain a hash of the content, so that a browser may cache them
//! forever.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";

/// The URLs of the files.
#[derive(Debug)]
pub struct Assets {
    /// The style sheet.
    pub style: String,
    /// The script for decisions.
    pub deciding: String,
    /// The script that keeps pages up to date.
    pub live: String,
    /// The icon.
    pub icon: String,
}

const STYLE: &str = include_str!("assets/style.css");
const DECIDING: &str = include_str!("assets/deciding.js");
const LIVE: &str = include_str!("assets/live.js");
const ICON: &str = include_str!("assets/icon.svg");

/// The URLs of the files.
pub static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: hashed_url("style", STYLE, "css"),
    deciding: hashed_url("deciding", DECIDING, "js"),
    live: hashed_url("live", LIVE, "js"),
    icon: hashed_url("icon", ICON, "svg"),
});

fn hashed_url(name: &str, content: &str, extension: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("/assets/{name}-{:016x}.{extension}", hasher.finish())
}

pub async fn serve(Path(name): Path<String>) -> Response {
    let url = format!("/assets/{name}");
    let (content, kind) = match url {
        _ if url == ASSETS.style => (STYLE, "text/css; charset=utf-8"),
        _ if url == ASSETS.deciding => (DECIDING, "text/javascript; charset=utf-8"),
        _ if url == ASSETS.live => (LIVE, "text/javascript; charset=utf-8"),
        _ if url == ASSETS.icon => (ICON, "image/svg+xml"),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, CACHE_FOREVER)], content).into_response()
}
