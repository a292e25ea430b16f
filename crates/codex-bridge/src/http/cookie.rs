//! The page's cookie: a sealed note that holds a token's secret and says until when. It survives a restart of the daemon,
//! since the key does, and dies with its token.
//!
//! What Codex runs may read all files, the key and the store among them. So nothing that lies in a file is enough to make
//! a cookie: the secret, which is kept nowhere, is checked as that of a caller who sends it. That it is sealed only keeps
//! it out of sight in the browser.

use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use codex_bridge_core::Bridge;
use codex_bridge_core::task::TimeMs;
use codex_bridge_core::token::Token;
use serde::{Deserialize, Serialize};

use crate::amount::now_ms;
use crate::failure::Failure;

const NAME: &str = "codex_bridge_session";
/// What it is sealed for: nothing else that we seal opens as a cookie.
const PURPOSE: &str = "session cookie";
/// How long it is good; the secrets of tabs are as long.
pub const LIFE_S: i64 = 30 * 24 * 60 * 60;

#[derive(Serialize, Deserialize)]
struct Note {
    secret: String,
    expires_at: TimeMs,
}

/// Whether it is sent over TLS only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A proxy in front of us speaks TLS.
    Tls,
    /// A browser on this very machine.
    Plain,
}

/// The header that gives a browser its cookie, for the secret of a token that was recognised by it.
pub fn give(bridge: &Bridge, secret: &str, transport: Transport) -> Result<String, Failure> {
    let expires_at = now_ms() + LIFE_S * 1000;
    let note = Note { secret: secret.to_owned(), expires_at };
    let note = serde_json::to_vec(&note).map_err(Failure::internal)?;
    let sealed = bridge.seal_key().seal(&note, PURPOSE).map_err(Failure::internal)?;
    Ok(header(&URL_SAFE_NO_PAD.encode(sealed), LIFE_S, transport))
}

/// The header that takes it away.
pub fn take(transport: Transport) -> String {
    header("", 0, transport)
}

/// The token that a request's cookie stands for, if it still does.
pub fn token(bridge: &Bridge, headers: &HeaderMap) -> Option<Token> {
    let sealed = URL_SAFE_NO_PAD.decode(value(headers)?).ok()?;
    let note = bridge.seal_key().open(&sealed, PURPOSE).ok()?;
    let note: Note = serde_json::from_slice(&note).ok()?;
    let is_fresh = now_ms() < note.expires_at;
    bridge.recognise(&note.secret).filter(|_| is_fresh)
}

fn value(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    let mut pairs =
        cookies.flat_map(|header| header.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == NAME).map(|(_, value)| value)
}

fn header(value: &str, life_s: i64, transport: Transport) -> String {
    let secure = if transport == Transport::Tls { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={life_s}; HttpOnly; SameSite=Strict{secure}")
}
