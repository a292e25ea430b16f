//! The secret of a browser tab. A change needs this secret besides the cookie.
//!
//! A browser sends a cookie to every port of a host name. So another server on this machine may learn the cookie, and read
//! the pages with it. The tab secret is sent once, in the reply to a login, and is in no page. The script keeps it in
//! the tab's session storage, which the browser separates by host and port. It is valid only with the cookie of the same
//! token, and under the host name that it was issued for. A page without a script, or a tab that has not logged in, sends
//! the token instead.

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
use super::{BODY_MAX_BYTES, cookie::LIFETIME_S};
use crate::amount::now_ms;
use crate::failure::{Code, Failure};

/// The header in which a script sends the secret.
pub const HEADER: &str = "x-codex-bridge-tab";
/// The field in which a form sends the secret.
pub const FIELD: &str = "tab";
/// The field for the token itself, from a page without a script.
pub const TOKEN_FIELD: &str = "token";
/// The purpose of the seal. Other sealed data does not open as a tab secret.
const PURPOSE: &str = "tab secret";
const FORM_MEDIA_TYPE: &str = "application/x-www-form-urlencoded";

#[derive(Serialize, Deserialize)]
struct Content {
    /// The hash of the token.
    token: String,
    /// The name and the port by which the page was reached.
    host: String,
    expires_at: TimeMs,
}

/// Makes a secret for a tab that has logged in with this token.
pub fn issue(bridge: &Bridge, token: &Token, headers: &HeaderMap) -> Result<String, Failure> {
    let expires_at = now_ms() + LIFETIME_S * 1000;
    let content = Content { token: hash(token), host: host(headers), expires_at };
    let content = serde_json::to_vec(&content).map_err(Failure::internal)?;
    let sealed = bridge.seal_key().seal(&content, PURPOSE).map_err(Failure::internal)?;
    Ok(URL_SAFE_NO_PAD.encode(sealed))
}

/// Whether a tab secret is valid for this token and for the host name of this request.
fn is_valid(bridge: &Bridge, secret: &str, token: &Token, headers: &HeaderMap) -> bool {
    let open = || -> Option<Content> {
        let sealed = URL_SAFE_NO_PAD.decode(secret).ok()?;
        serde_json::from_slice(&bridge.seal_key().open(&sealed, PURPOSE).ok()?).ok()
    };
    open().is_some_and(|content| {
        content.token == hash(token) && content.host == host(headers) && now_ms() < content.expires_at
    })
}

fn hash(token: &Token) -> String {
    URL_SAFE_NO_PAD.encode(&token.hash)
}

fn host(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok());
    host.unwrap_or_default().to_ascii_lowercase()
}

/// Checks that a request with the cookie of `token` also has the tab's secret, or the token itself. Returns the request
/// with its body unread. The error is the response: a failure, or the form again with a field for the token
/// (`locked`). `count_failure` counts a wrong token.
pub async fn verify(
    bridge: &Bridge,
    token: &Token,
    request: Request,
    locked: fn(&str, &[(String, String)], bool) -> Response,
    count_failure: impl FnOnce() -> Failure,
) -> Result<Request, Response> {
    let refused = |failure: Failure| Refusal::from(failure).into_response();
    let in_header = request.headers().get(HEADER).and_then(|secret| secret.to_str().ok());
    let is_form = is_form(request.headers());
    match in_header {
        Some(secret) if is_valid(bridge, secret, token, request.headers()) => return Ok(request),
        // Only a form can have the token in a field, and only its user would see a page.
        _ if !is_form => return Err(refused(secret_missing())),
        _ => {}
    }
    let (request, fields) = read(request).await.map_err(refused)?;
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, text)| text.trim());
    if field(FIELD).is_some_and(|secret| is_valid(bridge, secret, token, request.headers())) {
        return Ok(request);
    }
    let path = request.uri().path();
    let given = field(TOKEN_FIELD).filter(|given| !given.is_empty());
    match given.map(|given| bridge.recognise(given)) {
        Some(Some(given)) if given.hash == token.hash => Ok(request),
        Some(_) => {
            let failure = count_failure();
            let is_unknown = failure.code == Code::Unauthorized;
            Err(if is_unknown { locked(path, &fields, true) } else { refused(failure) })
        }
        None => Err(locked(path, &fields, false)),
    }
}

fn secret_missing() -> Failure {
    let message = "the cookie alone does not allow a change: the secret of the tab is missing";
    Failure::new(Code::TabLocked, message).hint("programs send the token: Authorization: Bearer cbt_…")
}

fn is_form(headers: &HeaderMap) -> bool {
    let media_type = headers.get(axum::http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    media_type
        .and_then(|text| text.split(';').next())
        .is_some_and(|text| text.trim().eq_ignore_ascii_case(FORM_MEDIA_TYPE))
}

/// Reads the fields of a form. The returned request can be read again.
async fn read(mut request: Request) -> Result<(Request, Vec<(String, String)>), Failure> {
    DefaultBodyLimit::max(BODY_MAX_BYTES).apply(&mut request);
    let (parts, body) = request.into_parts();
    let whole = Request::from_parts(parts.clone(), body);
    let bytes = Bytes::from_request(whole, &()).await.map_err(|rejection| problem::unreadable(&rejection))?;
    let again = || Request::from_parts(parts.clone(), Body::from(bytes.clone()));
    let fields = Form::<Vec<(String, String)>>::from_request(again(), &()).await;
    let Form(fields) = fields.map_err(|rejection| problem::bad_form(&rejection, BODY_MAX_BYTES))?;
    Ok((again(), fields))
}
