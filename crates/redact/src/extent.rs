//! Where a value begins and ends: quoted at any depth of escaping, or bare up to what cannot belong to it.
//!
//! Knows quotes, escapes and separators; nothing about which values are secret.

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

/// The bare value that begins at `at`. `ends_at_escape` is for values inside percent-encoded text.
pub(crate) fn bare(text: &Text, at: usize, ends_at_escape: bool) -> Parsed<Extent> {
    let mut index = at;
    while let Some(byte) = text.get(index)? {
        let ends = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => true,
            b'"' | b'\'' | b'`' | b')' | b']' | b'}' | b'>' => !is_followed_by_word(text, index + 1)?,
            b',' | b';' | b'&' => is_separator(text, index)?,
            b'<' => text.get(index + 1)? == Some(b'/'),
            b'\\' => is_escape(text, index)?,
            b'%' => ends_at_escape,
            _ => false,
        };
        if ends {
            break;
        }
        index += 1;
    }
    Ok(Extent { start: at, end: without_full_stop(text, at, index), is_quoted: false })
}

fn is_followed_by_word(text: &Text, index: usize) -> Parsed<bool> {
    Ok(text.get(index)?.is_some_and(|byte| is_word(byte) || byte >= 0x80))
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
