//! The style sheet, the scripts and the icon: part of the program, named by what is in them, so that a browser may keep
//! them for good and never has a wrong one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::StatusCode;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

const FOR_GOOD: &str = "public, max-age=31536000, immutable";

/// The addresses under which the files are served.
#[derive(Debug)]
pub struct Assets {
    /// The style sheet.
    pub style: String,
    /// The script by which people decide.
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

/// Where they are.
pub static ASSETS: LazyLock<Assets> = LazyLock::new(|| Assets {
    style: named("style", STYLE, "css"),
    deciding: named("deciding", DECIDING, "js"),
    live: named("live", LIVE, "js"),
    icon: named("icon", ICON, "svg"),
});

fn named(name: &str, content: &str, extension: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("/assets/{name}-{:016x}.{extension}", hasher.finish())
}

pub async fn serve(Path(name): Path<String>) -> Response {
    let asked = format!("/assets/{name}");
    let (content, kind) = match asked {
        _ if asked == ASSETS.style => (STYLE, "text/css; charset=utf-8"),
        _ if asked == ASSETS.deciding => (DECIDING, "text/javascript; charset=utf-8"),
        _ if asked == ASSETS.live => (LIVE, "text/javascript; charset=utf-8"),
        _ if asked == ASSETS.icon => (ICON, "image/svg+xml"),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    ([(CONTENT_TYPE, kind), (CACHE_CONTROL, FOR_GOOD)], content).into_response()
}
