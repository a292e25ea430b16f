//! Where a value begins and ends: quoted at any depth of escaping, or bare up to what cannot belong to it.
//!
//! Knows quotes, escapes and separators; nothing about which values are secret.

use crate::mark::mark_end;
use crate::text::{More, Parsed, Text, is_blank, is_quote, is_space, is_word};

/// How far to look behind a separator for the next `name=`.
const LONGEST_NEXT_NAME: usize = 40;

/// Where a value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_quoted: bool,
}

/// The quoted value whose opening quote (with the backslashes that belong to it) stands at `at`.
///
/// A text inside JSON inside JSON opens with `\\\"`, so the closing quote must have as many backslashes, and one
/// with more is an escaped quote of the value itself. A value never crosses a line.
pub(crate) fn quoted(text: &Text, at: usize) -> Parsed<Option<Extent>> {
    let quote_at = text.skip(at, |byte| byte == b'\\')?;
    let Some(quote) = text.get(quote_at)?.filter(|byte| is_quote(*byte)) else {
        return Ok(None);
    };
    let depth = quote_at - at;
    let is_next = |index: usize| Ok::<bool, More>(text.get(index)? == Some(quote));
    let is_triple = is_next(quote_at + 1)? && is_next(quote_at + 2)?;
    let start = if is_triple { quote_at + 3 } else { quote_at + 1 };
    let end = closing(text, start, quote, depth)?;
    Ok(Some(Extent { start, end, is_quoted: true }))
}

/// A quoted value, also behind the marks that languages put before one: `b"…"`, `String::from("…")`.
pub(crate) fn literal(text: &Text, at: usize) -> Parsed<Option<Extent>> {
    const WRAPPERS: [&[u8]; 6] =
        [b"String::from(", b"Some(", b"SecretString::from(", b"SecretStr(", b"str(", b"bytes("];
    if let Some(extent) = quoted(text, at)? {
        return Ok(Some(extent));
    }
    let prefix_end =
        text.skip_at_most(at, 2, |byte| matches!(byte | 0x20, b'b' | b'r' | b'f' | b'u' | b'@'))?;
    if prefix_end > at
        && let Some(extent) = quoted(text, prefix_end)?
    {
        return Ok(Some(extent));
    }
    for wrapper in WRAPPERS {
        if text.starts_with(at, wrapper)? {
            return quoted(text, at + wrapper.len());
        }
    }
    Ok(None)
}

fn closing(text: &Text, start: usize, quote: u8, depth: usize) -> Parsed<usize> {
    let mut index = start;
    loop {
        let Some(byte) = text.get(index)? else { return Ok(index) };
        let slashes_end = if byte == b'\\' { text.skip(index, |byte| byte == b'\\')? } else { index };
        let slashes = slashes_end - index;
        let here = text.get(slashes_end)?;
        if here == Some(quote) {
            if slashes < depth {
                return Ok(index);
            }
            let is_doubled =
                slashes == 0 && quote == b'\'' && index > start && text.get(index + 1)? == Some(quote);
            if (slashes - depth).is_multiple_of(2 * (depth + 1)) && !is_doubled {
                return Ok(slashes_end - depth);
            }
            index = slashes_end + if is_doubled { 2 } else { 1 };
        } else if here == Some(b'\n') || here.is_none() {
            return Ok(slashes_end);
        } else {
            index = slashes_end + 1;
        }
    }
}

/// In what a bare value stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Within {
    Text,
    /// A query, where `#` ends it.
    Query,
    /// Percent-encoded text, where `%` ends it.
    Percent,
}

/// The bare value that begins at `at`.
pub(crate) fn bare(text: &Text, at: usize, within: Within) -> Parsed<Extent> {
    let mut index = placeholder_end(text, at)?;
    while let Some(byte) = text.get(index)? {
        if byte == b'[' {
            // what was hidden before counts as a part of the value, whole
            index = mark_end(text, index)?.max(index + 1);
            continue;
        }
        let ends = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => true,
            b'>' if index > at && text.get(at)? == Some(b'<') => false,
            b'"' | b'\'' | b'`' | b')' | b']' | b'}' | b'>' => !is_followed_by_word(text, index + 1)?,
            b',' | b';' | b'&' => is_separator(text, index)?,
            b'<' => text.get(index + 1)? == Some(b'/'),
            b'\\' => is_escape(text, index)?,
            b'%' => within == Within::Percent,
            b'#' => within == Within::Query,
            _ => false,
        };
        if ends {
            break;
        }
        index += 1;
    }
    Ok(Extent { start: at, end: without_full_stop(text, at, index), is_quoted: false })
}

/// `<your password>` is one value, blanks and all. Returns `at` where no such thing begins.
fn placeholder_end(text: &Text, at: usize) -> Parsed<usize> {
    if text.get(at)? != Some(b'<') {
        return Ok(at);
    }
    let is_inside = |byte: u8| is_word(byte) || matches!(byte, b' ' | b'-' | b'.');
    let end = text.skip_at_most(at + 1, LONGEST_NEXT_NAME, is_inside)?;
    Ok(if text.get(end)? == Some(b'>') { end } else { at })
}

/// Whether a word follows. Redacting twice must give the same result, so hidden text and a mark count as words too.
fn is_followed_by_word(text: &Text, index: usize) -> Parsed<bool> {
    Ok(match text.get(index)? {
        Some(b'[') => mark_end(text, index)? > index,
        Some(b'-') => text.starts_with(index, b"-----BEGIN")?,
        next => next.is_some_and(|byte| is_word(byte) || byte == b'+' || byte >= 0x80),
    })
}

/// A comma, semicolon or ampersand ends a value only where something else visibly begins.
fn is_separator(text: &Text, index: usize) -> Parsed<bool> {
    let Some(next) = text.get(index + 1)? else { return Ok(true) };
    if is_space(next) || is_quote(next) || matches!(next, b')' | b']' | b'}' | b'\\' | b'&' | b';' | b',') {
        return Ok(true);
    }
    let is_name = |byte: u8| is_word(byte) || matches!(byte, b'-' | b'.' | b' ');
    let name_end = text.skip_at_most(index + 1, LONGEST_NEXT_NAME, is_name)?;
    Ok(name_end > index + 1 && matches!(text.get(name_end)?, Some(b'=' | b':')))
}

/// `\n`, `\"`, `\u0026`: the value ended where the text that holds it was escaped. `\c` is just a backslash.
fn is_escape(text: &Text, index: usize) -> Parsed<bool> {
    let after = text.skip(index, |byte| byte == b'\\')?;
    let next = text.get(after)?;
    Ok(next.is_none_or(|byte| is_quote(byte) || is_space(byte) || matches!(byte, b'n' | b'r' | b't' | b'u')))
}

/// A value at the end of a sentence does not own the full stop.
fn without_full_stop(text: &Text, start: usize, end: usize) -> usize {
    match text.slice(start, end) {
        [.., b'.' | b',' | b';' | b':'] => end - 1,
        _ => end,
    }
}

/// Whether nothing but the end of the line (or of what encloses it) follows a bare value.
pub(crate) fn is_last_on_line(text: &Text, end: usize) -> Parsed<bool> {
    let next = text.skip(end, |byte| is_blank(byte) || byte == b'\r')?;
    Ok(match text.get(next)? {
        None => true,
        Some(byte) => {
            is_quote(byte)
                || matches!(byte, b'\n' | b'#' | b',' | b';' | b'}' | b')' | b']' | b'|' | b'\\' | b'<')
        }
    })
}

/// The end of the line break that stands at `at`, written out or escaped.
pub(crate) fn line_break_end(text: &Text, at: usize) -> Parsed<Option<usize>> {
    let after = text.skip(at, |byte| byte == b'\\')?;
    Ok(match text.get(after)? {
        Some(b'\n') if after == at => Some(at + 1),
        Some(b'n') if after > at => Some(after + 1),
        _ => None,
    })
}

/// Where the line ends that holds `at`: at a line break, written out or escaped, or at the quote around it all.
pub(crate) fn line_end(text: &Text, at: usize, enclosing_quote: Option<u8>) -> Parsed<usize> {
    let mut index = at;
    while let Some(byte) = text.get(index)? {
        if matches!(byte, b'\n' | b'\r') || Some(byte) == enclosing_quote {
            break;
        }
        if byte == b'\\' {
            let after = text.skip(index, |byte| byte == b'\\')?;
            if matches!(text.get(after)?, Some(b'n' | b'r')) {
                break;
            }
            index = after;
        }
        index += 1;
    }
    Ok(index.min(text.bytes().len()))
}

#[cfg(test)]
mod tests;
