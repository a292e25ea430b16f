//! Private keys in PEM: from `-----BEGIN … PRIVATE KEY-----` over all that can be its body, to its end if it has one.
//!
//! A truncated key (`head -5 key.pem`) is still a key, so the end is not required. The marker alone is no key, so a
//! body is required. Line breaks may be escaped; lines may be quoted, numbered or indented.

use crate::text::{Parsed, Span, Text, is_blank, is_space};

/// A word of at least this many base64 characters is key material anywhere in the body.
const LONGEST_PROSE_WORD: usize = 24;

/// Bounds, so that many beginnings behind each other stay linear.
const LONGEST_HEADER: usize = 256;
const MOST_HEADERS: usize = 8;

const LONGEST_LABEL: usize = 48;

const BEGIN: &[u8] = b"-----BEGIN";

/// Where the text after `-----BEGIN` is the label of a private key, the end of that marker.
fn label_end(text: &Text, at: usize) -> Parsed<Option<usize>> {
    let is_label =
        |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || matches!(byte, b' ' | b'+' | b'_');
    let end = text.skip_at_most(at, LONGEST_LABEL, is_label)?;
    let label = text.slice(at, end);
    let is_private =
        label.windows(7).any(|word| word == b"PRIVATE") && label.windows(3).any(|word| word == b"KEY");
    Ok((is_private && text.starts_with(end, b"-----")?).then_some(end + 5))
}

/// The private key whose `-----BEGIN` ends at `begin_end`.
pub(crate) fn find(text: &Text, begin_end: usize) -> Parsed<Option<Span>> {
    let Some(body) = label_end(text, begin_end)? else { return Ok(None) };
    let end = body_end(text, body)?;
    let start = begin_end - BEGIN.len();
    Ok((end > body).then_some(Span { start, end, kind: "private-key" }))
}

/// All private keys of a complete text from `from` on, also where another rule would begin a value before one.
pub(crate) fn find_all(text: Text, from: usize) -> Vec<Span> {
    let bytes = text.bytes();
    let mut spans: Vec<Span> = Vec::new();
    let mut at = from;
    while let Some(offset) = bytes[at..].windows(BEGIN.len()).position(|window| window == BEGIN) {
        let begin_end = at + offset + BEGIN.len();
        // a complete text never asks for more
        let key = find(&text, begin_end).ok().flatten();
        at = key.map_or(begin_end, |key| key.end);
        spans.extend(key);
    }
    spans
}

/// A piece of the body.
enum Piece {
    /// Key material up to here.
    Material(usize),
    /// Alone on its line: material if material came before.
    Alone(usize),
    /// Might be material or a line number: belongs to the key if material follows.
    Short(usize),
    /// A line such as `Proc-Type: 4,ENCRYPTED`.
    Header(usize),
    /// The end marker, up to here.
    End(usize),
    Foreign,
}

/// Where the body that begins at `start` ends; `start` itself if there is no body.
fn body_end(text: &Text, start: usize) -> Parsed<usize> {
    let mut end = start;
    let mut shorts = 0;
    let mut headers = 0;
    let mut at = start;
    loop {
        at = skip_glue(text, at)?;
        at = match piece(text, at)? {
            Piece::Material(after) => {
                shorts = 0;
                end = after;
                after
            }
            Piece::Alone(after) if end > start => {
                end = after;
                after
            }
            Piece::Header(after) if headers < MOST_HEADERS => {
                headers += 1;
                after
            }
            Piece::Short(after) | Piece::Alone(after) if shorts < 2 => {
                shorts += 1;
                after
            }
            Piece::End(after) => return Ok(if end > start { after } else { end }),
            Piece::Header(_) | Piece::Alone(_) | Piece::Short(_) | Piece::Foreign => return Ok(end),
        };
    }
}

/// Blanks, line breaks (also escaped), and what languages, diffs and viewers put around lines.
fn skip_glue(text: &Text, start: usize) -> Parsed<usize> {
    let mut at = start;
    while let Some(byte) = text.get(at)? {
        let is_mark = is_space(byte)
            || matches!(byte, b'"' | b'\'' | b'`' | b',' | b'|' | b'>' | b'#' | b'*' | b';' | b'(' | b')');
        if byte == b'\\' {
            let after = text.skip(at, |byte| byte == b'\\')?;
            at = if matches!(text.get(after)?, Some(b'n' | b'r' | b't')) { after + 1 } else { after };
        } else if is_mark {
            at += 1;
        } else {
            break;
        }
    }
    Ok(at)
}

fn piece(text: &Text, at: usize) -> Parsed<Piece> {
    if text.get(at)? == Some(b'-') {
        return end_marker(text, at);
    }
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    let end = text.skip(at, is_base64)?;
    if end == at {
        return Ok(Piece::Foreign);
    }
    if let Some(after) = header_end(text, at, end)? {
        return Ok(Piece::Header(after));
    }
    Ok(if end - at >= LONGEST_PROSE_WORD {
        Piece::Material(end)
    } else if begins_line(text, at) && is_line_break(text, end)? {
        Piece::Alone(end)
    } else {
        Piece::Short(end)
    })
}

fn end_marker(text: &Text, at: usize) -> Parsed<Piece> {
    let dashes = text.skip(at, |byte| byte == b'-')?;
    if !text.starts_with(dashes, b"END")? {
        return Ok(Piece::Foreign);
    }
    let label = text.skip_at_most(dashes + 3, LONGEST_LABEL, |byte| byte != b'-' && byte != b'\n')?;
    Ok(Piece::End(text.skip_at_most(label, 5, |byte| byte == b'-')?))
}

/// `Proc-Type: …`, `DEK-Info: …`, `Comment: …`: a name, a colon, the rest of the line.
fn header_end(text: &Text, at: usize, word_end: usize) -> Parsed<Option<usize>> {
    const NAMES: [&[u8]; 6] = [b"Proc", b"DEK", b"Version", b"Comment", b"Hash", b"Charset"];
    let word = text.slice(at, word_end);
    if !NAMES.contains(&word) {
        return Ok(None);
    }
    let is_line = |byte: u8| !matches!(byte, b'\n' | b'\\');
    Ok(Some(text.skip_at_most(word_end, LONGEST_HEADER, is_line)?))
}

fn is_line_break(text: &Text, at: usize) -> Parsed<bool> {
    let next = text.skip(at, is_blank)?;
    Ok(matches!(text.get(next)?, None | Some(b'\n' | b'\r' | b'\\' | b'"' | b'\'' | b'`')))
}

fn begins_line(text: &Text, at: usize) -> bool {
    let before = &text.bytes()[..at];
    let blanks = before.iter().rev().take_while(|byte| is_blank(**byte)).count();
    match &before[..before.len() - blanks] {
        [.., b'\n' | b'\r' | b'"' | b'\'' | b'`'] | [.., b'\\', b'n' | b'r'] => true,
        [.., last] => matches!(last, b'|' | b'>' | b'+' | b'*' | b'#'),
        [] => false,
    }
}

#[cfg(test)]
mod tests;
