//! The secret of a tab: what a page must show beside the cookie before anything is changed in its name.
//!
//! A browser sends a cookie to every port of its host name, so a server that somebody has started beside us may come to
//! know it, and read our pages with it. The secret of a tab is told once, in the answer to a log-in, and is in no page:
//! the script keeps it where a browser keeps things by host and port, and for one tab alone. It is good only with the
//! cookie of the same token, and under the name that it was given for. A page without a script, or a tab that never
//! logged in, shows the token instead.

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, Form, FromRequest, Request};
use axum::http::HeaderMap;
use axum::http::header::HOST;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use codex_bridge_core::Bridge;
use codex_bridge_core::task::TimeMs;
use codex_bridge_core::token::Token;
use serde::{Deserialize, Serialize};

use super::problem::{self, Refusal};
use super::{BODY_MAX_BYTES, cookie::LIFE_S};
use crate::amount::now_ms;
use crate::failure::{Code, Failure};

/// How a script shows it.
pub const HEADER: &str = "x-codex-bridge-tab";
/// How a form shows it.
pub const FIELD: &str = "tab";
/// The token itself, from a page without a script.
pub const TOKEN_FIELD: &str = "token";
/// What it is sealed for: nothing else that we seal opens as one.
const PURPOSE: &str = "tab secret";
/// Forms of pages come as this.
const FORM: &str = "application/x-www-form-urlencoded";

#[derive(Serialize, Deserialize)]
struct Note {
    /// The hash of the token that was shown for it.
    token: String,
    /// The name and the port by which the page was reached.
    host: String,
    expires_at: TimeMs,
}

/// A secret for a tab that has just shown this token.
pub fn give(bridge: &Bridge, token: &Token, headers: &HeaderMap) -> Result<String, Failure> {
    let note = Note { token: of(token), host: host(headers), expires_at: now_ms() + LIFE_S * 1000 };
    let note = serde_json::to_vec(&note).map_err(Failure::internal)?;
    let sealed = bridge.seal_key().seal(&note, PURPOSE).map_err(Failure::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// Whether this is the secret of a tab that has shown this token under the name by which it calls now.
fn is_shown(bridge: &Bridge, given: &str, token: &Token, headers: &HeaderMap) -> bool {
    let open = || -> Option<Note> {
        let sealed = URL_SAFE_NO_PAD.decode(given).ok()?;
        serde_json::from_slice(&bridge.seal_key().open(&sealed, PURPOSE).ok()?).ok()
    };
    open().is_some_and(|note| {
        note.token == of(token) && note.host == host(headers) && now_ms() < note.expires_at
    })
}

fn of(token: &Token) -> String {
    URL_SAFE_NO_PAD.encode(&token.hash)
}

fn host(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.unwrap_or_default().to_ascii_lowercase()
}

/// Why a change was not let through.
pub enum Unproved {
    /// Told as it is.
    Refused(Failure),
    /// The form is shown again, with a field for the token.
    Locked(Response),
}

impl IntoResponse for Unproved {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(failure) => Refusal::from(failure).into_response(),
            Self::Locked(page) => page,
        }
    }
}

/// The same request, if it shows the secret of its tab, or the token itself, beside the cookie of that token.
pub async fn proved(
    bridge: &Bridge,
    token: &Token,
    request: Request,
    locked: fn(&str, &[(String, String)], bool) -> Response,
    count_a_bad_one: impl FnOnce() -> Failure,
) -> Result<Request, Unproved> {
    let by_header = request.headers().get(HEADER).and_then(|given| given.to_str().ok());
    let is_form = is_form(request.headers());
    match by_header {
        Some(given) if is_shown(bridge, given, token, request.headers()) => return Ok(request),
        // Nobody reads a page there: a form may still show the token.
        _ if !is_form => return Err(Unproved::Refused(unproved())),
        _ => {}
    }
    let (request, fields) = read(request).await.map_err(Unproved::Refused)?;
    let said = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, text)| text.trim());
    if said(FIELD).is_some_and(|given| is_shown(bridge, given, token, request.headers())) {
        return Ok(request);
    }
    let path = request.uri().path();
    let shown = said(TOKEN_FIELD).filter(|shown| !shown.is_empty());
    match shown.map(|shown| bridge.recognise(shown)) {
        Some(Some(shown)) if shown.hash == token.hash => Ok(request),
        Some(_) => {
            let failure = count_a_bad_one();
            if failure.code != Code::Unauthorized {
                return Err(Unproved::Refused(failure));
            }
            Err(Unproved::Locked(locked(path, &fields, true)))
        }
        None => Err(Unproved::Locked(locked(path, &fields, false))),
    }
}

fn unproved() -> Failure {
    let message = "the cookie alone changes nothing: the tab has a secret that must be shown, too";
    Failure::new(Code::TabLocked, message).hint("programs send the token: Authorization: Bearer cbt_…")
}

fn is_form(headers: &HeaderMap) -> bool {
    let media_type = headers.get(axum::http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type.and_then(|it| it.split(';').next()).is_some_and(|it| it.trim().eq_ignore_ascii_case(FORM))
}

/// A request with its fields, which can be read once more.
async fn read(mut request: Request) -> Result<(Request, Vec<(String, String)>), Failure> {
    DefaultBodyLimit::max(BODY_MAX_BYTES).apply(&mut request);
    let (parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let bytes = Bytes::from_request(whole, &()).await.map_err(|rejection| problem::unread(&rejection))?;
    let again = || Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let fields = Form::<Vec<(String, String)>>::from_request(again(), &()).await;
    let Form(fields) = fields.map_err(|rejection| problem::bad_form(&rejection, BODY_MAX_BYTES))?;
    Ok((again(), fields))
}
