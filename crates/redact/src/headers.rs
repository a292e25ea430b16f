//! Values of `Authorization`, `Proxy-Authorization`, `Cookie` and `Set-Cookie`, and of `Bearer` anywhere.
//!
//! The scheme stays, what follows it goes. Other headers that carry keys (`x-api-key` …) are ordinary assignments.

use crate::extent::{self, Within};
use crate::mark::mark_end;
use crate::names::COOKIE;
use crate::text::{Parsed, Span, Text, is_blank, is_quote};
use crate::values;

/// A bearer token outside a header is hidden from this length on.
const SHORTEST_BEARER: usize = 20;

/// A header as it was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Header {
    pub(crate) kind: &'static str,
    /// It stands where a header does, so an ordinary word may be its value.
    pub(crate) is_certain: bool,
    pub(crate) enclosing_quote: Option<u8>,
}

/// The secret in the value that begins at `at`.
pub(crate) fn find(text: &Text, at: usize, header: Header) -> Parsed<Option<Span>> {
    let quoted = extent::literal(text, at)?;
    let limit = quoted.map(|extent| extent.end);
    let start = quoted.map_or(at, |extent| extent.start);
    let header = Header { is_certain: header.is_certain || quoted.is_some(), ..header };
    if header.kind == COOKIE {
        return cookies(text, start, limit, header);
    }
    let first_end = word_end(text, start, limit)?;
    let second = text.skip(first_end, is_blank)?.min(limit.unwrap_or(usize::MAX));
    let second_end = if second > first_end { word_end(text, second, limit)? } else { second };
    if second_end == second {
        return Ok(lone(text, start, first_end, header));
    }
    let word = text.slice(second, second_end);
    let first = text.slice(start, first_end);
    let is_code = limit.is_none() && (values::is_expression(first) || values::is_expression(word));
    let is_secret = is_hidden(word) && !is_code;
    let end = match scheme(first) {
        Scheme::Parameters if word.contains(&b'=') => rest_end(text, second, limit, header)?,
        Scheme::Token if is_secret => second_end,
        // `Authorization: Bearer abc` is a header, `Authorization: bearer tokens are used` is prose.
        Scheme::Token if header.is_certain && !values::is_harmless(word) => {
            let is_last = limit == Some(second_end) || extent::is_last_on_line(text, second_end)?;
            if is_last { second_end } else { second }
        }
        Scheme::Unknown if is_secret => rest_end(text, second, limit, header)?,
        Scheme::Token | Scheme::Unknown | Scheme::Parameters => second,
    };
    Ok((end > second).then_some(Span { start: second, end, kind: header.kind }))
}

enum Scheme {
    Token,
    Parameters,
    Unknown,
}

fn scheme(word: &[u8]) -> Scheme {
    const TOKENS: [&[u8]; 12] = [
        b"bearer",
        b"basic",
        b"token",
        b"apikey",
        b"api-key",
        b"key",
        b"bot",
        b"negotiate",
        b"ntlm",
        b"dpop",
        b"jwt",
        b"sso-key",
    ];
    const PARAMETERS: [&[u8]; 5] = [b"digest", b"oauth", b"hawk", b"signature", b"aws4-hmac-sha256"];
    let is_one_of = |names: &[&[u8]]| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    if is_one_of(&TOKENS) {
        Scheme::Token
    } else if is_one_of(&PARAMETERS) {
        Scheme::Parameters
    } else {
        Scheme::Unknown
    }
}

/// A value without a scheme.
fn lone(text: &Text, start: usize, end: usize, header: Header) -> Option<Span> {
    let value = text.slice(start, end);
    let is_secret = is_hidden(value) && (header.is_certain || values::is_opaque(value));
    (is_secret && !values::is_expression(value) && !values::is_location(value)).then_some(Span {
        start,
        end,
        kind: header.kind,
    })
}

fn is_hidden(value: &[u8]) -> bool {
    !values::is_harmless(value) && !values::is_plain(value, false)
}

fn word_end(text: &Text, start: usize, limit: Option<usize>) -> Parsed<usize> {
    match limit {
        Some(limit) => {
            let mut end = start;
            while end < limit && !text.get(end)?.is_none_or(is_blank) {
                // a mark has blanks, and is one word
                end = mark_end(text, end)?.max(end + 1);
            }
            Ok(end.min(limit))
        }
        None => Ok(extent::bare(text, start, Within::Text)?.end),
    }
}

fn rest_end(text: &Text, start: usize, limit: Option<usize>, header: Header) -> Parsed<usize> {
    limit.map_or_else(|| extent::line_end(text, start, header.enclosing_quote), Ok)
}

/// Cookies are `name=value` pairs; without one it is a word about cookies.
fn cookies(text: &Text, start: usize, limit: Option<usize>, header: Header) -> Parsed<Option<Span>> {
    let name_end =
        text.skip(start, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'))?;
    let value = name_end + 1;
    if name_end == start || text.get(name_end)? != Some(b'=') || text.get(value)?.is_none_or(is_quote) {
        return Ok(None);
    }
    let end = rest_end(text, value, limit, header)?;
    let first = extent::bare(text, value, Within::Text)?.end;
    let is_secret = !values::is_harmless(text.slice(value, first.min(end)));
    Ok(is_secret.then_some(Span { start: value, end, kind: COOKIE }))
}

/// `Bearer` and a long token, wherever they stand. `end` is where the word `Bearer` ended.
pub(crate) fn bearer(text: &Text, end: usize) -> Parsed<Option<Span>> {
    let start = text.skip(end, is_blank)?;
    if start == end {
        return Ok(None);
    }
    let is_token = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'+' | b'/' | b'=')
    };
    let token_end = text.skip(start, is_token)?;
    let token = text.slice(start, token_end);
    let is_secret = token.len() >= SHORTEST_BEARER && token.iter().any(u8::is_ascii_digit);
    Ok(is_secret.then_some(Span { start, end: token_end, kind: "bearer-token" }))
}
