//! Credentials before the host of a URL: `scheme://user:password@host`, `scheme://TOKEN@host`.
//!
//! Secrets in a query are assignments and handled there.

use crate::mark::mark_end;
use crate::text::{Parsed, Span, Text, is_quote, is_space};
use crate::values;

/// The longest user information that is looked through.
const LONGEST_AUTHORITY: usize = 512;

/// A user name of this length is a token.
const SHORTEST_TOKEN: usize = 8;

/// The credential in the URL whose authority begins at `start`, right after `://`.
pub(crate) fn find(text: &Text, scheme: &[u8], start: usize) -> Parsed<Option<Span>> {
    let end = authority_end(text, start, |byte| matches!(byte, b'/' | b'?' | b'#'))?;
    let authority = text.slice(start, end);
    let at = authority.iter().rposition(|byte| *byte == b'@');
    if !may_hold_slashed_password(authority, is_web(scheme)) || (at.is_some() && is_web(scheme)) {
        return Ok(at.and_then(|at| credential(&authority[..at], start)));
    }
    // Passwords are often pasted raw, with slashes and marks that should have been encoded.
    let end = authority_end(text, start, |byte| byte == b'?')?;
    let rest = text.slice(start, end);
    Ok(rest.iter().rposition(|byte| *byte == b'@').and_then(|at| credential(&rest[..at], start)))
}

fn authority_end(text: &Text, start: usize, ends: impl Fn(u8) -> bool) -> Parsed<usize> {
    text.skip_at_most(start, LONGEST_AUTHORITY, |byte| {
        !(is_space(byte) || is_quote(byte) || matches!(byte, b'<' | b'>' | b'\\') || ends(byte))
    })
}

fn is_web(scheme: &[u8]) -> bool {
    [&b"http"[..], b"https", b"ws", b"wss", b"file", b"ssh", b"git"]
        .iter()
        .any(|web| scheme.eq_ignore_ascii_case(web))
}

/// `user:pa` of `user:pa/ss@host`, but not `git@host:owner` of an address, nor, on the web, `host:8080` of `host:8080/a@b`.
fn may_hold_slashed_password(authority: &[u8], is_web: bool) -> bool {
    let colon = authority.iter().position(|byte| matches!(byte, b':' | b'@' | b'['));
    let is_port = |rest: &[u8]| is_web && rest.iter().all(u8::is_ascii_digit);
    colon.is_some_and(|colon| authority[colon] == b':' && !is_port(&authority[colon + 1..]))
}

fn credential(info: &[u8], start: usize) -> Option<Span> {
    let hidden = mark_end(&Text::new(info, true), 0).unwrap_or(0);
    match info[hidden..].iter().position(|byte| *byte == b':').map(|colon| hidden + colon) {
        Some(colon) => {
            let password = &info[colon + 1..];
            let at = start + colon + 1;
            (!values::is_harmless(password)).then_some(Span {
                start: at,
                end: at + password.len(),
                kind: "url-password",
            })
        }
        None if info.len() >= SHORTEST_TOKEN && !values::is_harmless(info) => {
            Some(Span { start, end: start + info.len(), kind: "url-credential" })
        }
        None => None,
    }
}
