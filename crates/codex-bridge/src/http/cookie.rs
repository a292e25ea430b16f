//! The page's cookie: the secret of a token and an expiry time, sealed. The cookie survives a restart of the daemon,
//! because the key does. It is worthless once its token is revoked.
//!
//! A command that Codex runs may be able to read all files, the key and the store included. So a cookie cannot be made
//! from files: it needs the token's secret, which is stored nowhere and is checked with each request. The seal only hides
//! the secret from people who look at the browser's cookies.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codex_bridge_core::Bridge;
use codex_bridge_core::task::TimeMs;
use codex_bridge_core::token::Token;
use serde::{Deserialize, Serialize};

use super::gate::Front;
use crate::amount::now_ms;
use crate::failure::Failure;

const NAME: &str = "codex_bridge_session";
/// The purpose of the seal. Other sealed data does not open as a cookie.
const PURPOSE: &str = "session cookie";
/// How long a cookie is valid. The secret of a tab is valid as long.
pub const LIFETIME_S: i64 = 30 * 24 * 60 * 60;

#[derive(Serialize, Deserialize)]
struct Content {
    secret: String,
    expires_at: TimeMs,
}

/// The `Set-Cookie` header for the secret of a valid token.
pub fn issue(bridge: &Bridge, secret: &str, front: Front) -> Result<String, Failure> {
    let expires_at = now_ms() + LIFETIME_S * 1000;
    let content = Content { secret: secret.to_owned(), expires_at };
    let content = serde_json::to_vec(&content).map_err(Failure::internal)?;
    let sealed = bridge.seal_key().seal(&content, PURPOSE).map_err(Failure::internal)?;
    Ok(header(&URL_SAFE_NO_PAD.encode(sealed), LIFETIME_S, front))
}

/// The `Set-Cookie` header that deletes the cookie.
pub fn clear(front: Front) -> String {
    header("", 0, front)
}

/// The token behind the cookie of a request. `None` if the cookie or the token is not valid any more.
pub fn token(bridge: &Bridge, headers: &HeaderMap) -> Option<Token> {
    let sealed = URL_SAFE_NO_PAD.decode(value(headers)?).ok()?;
    let content = bridge.seal_key().open(&sealed, PURPOSE).ok()?;
    let content: Content = serde_json::from_slice(&content).ok()?;
    let is_valid = now_ms() < content.expires_at;
    bridge.recognise(&content.secret).filter(|_| is_valid)
}

fn value(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs =
        cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map(|(_, value)| value)
}

fn header(value: &str, lifetime_s: i64, front: Front) -> String {
    // The proxy speaks TLS. Without one, the browser runs on this machine.
    let secure = if front == Front::Proxy { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={lifetime_s}; HttpOnly; SameSite=Strict{secure}")
}
