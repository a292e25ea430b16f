//! What stands in the place of a secret: `[redacted:KIND]` where text is kept, `[KIND, N characters]` where a person approves it.
//!
//! A mark is never taken for a secret. A text that only looks like a mark is left to the caller: see [`is_look_alike`].

use crate::text::{Parsed, Text};

/// The beginning of what stands in the place of a secret where text is kept.
pub(crate) const SENTINEL_START: &[u8] = b"[redacted:";

/// The longest name of a kind in a mark.
const LONGEST_KIND: usize = 40;

/// The most digits of a length in a mark.
const MOST_DIGITS: usize = 9;

/// What comes behind the number in a mark.
const CHARACTERS: &[u8] = b" character";

/// What opens a mark, and what looks like it.
pub(crate) const BRACKETS: [char; 12] = ['[', '［', '⁅', '⟦', '【', '〔', '❲', '〖', '⦋', '﹝', '〘', '〚'];

/// How far behind an opening bracket a text may pose as a mark.
const LONGEST_LOOK_ALIKE: usize = 80;

pub(crate) fn push_sentinel(kind: &str, into: &mut String) {
    into.push_str("[redacted:");
    into.push_str(kind);
    into.push(']');
}

/// `[password, 24 characters]`: what is hidden and how long it is.
pub(crate) fn push_mark(kind: &str, secret: &str, into: &mut String) {
    let characters = secret.chars().count();
    let plural = if characters == 1 { "" } else { "s" };
    into.extend(["[", kind, ", ", &characters.to_string(), " character", plural, "]"]);
}

/// Where the mark that stands at `at` ends, in either form; `at` where there is none.
pub(crate) fn mark_end(text: &Text, at: usize) -> Parsed<usize> {
    if text.get(at)? != Some(b'[') {
        return Ok(at);
    }
    let is_kind = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.starts_with(at, SENTINEL_START)? {
        let kind = at + SENTINEL_START.len();
        let end = text.skip_at_most(kind, LONGEST_KIND, is_kind)?;
        return Ok(if end > kind && text.get(end)? == Some(b']') { end + 1 } else { at });
    }
    let kind = at + 1;
    let kind_end = text.skip_at_most(kind, LONGEST_KIND, is_kind)?;
    if kind_end == kind || !text.starts_with(kind_end, b", ")? {
        return Ok(at);
    }
    let number = kind_end + 2;
    let number_end = text.skip_at_most(number, MOST_DIGITS, |byte| byte.is_ascii_digit())?;
    if number_end == number || !text.starts_with(number_end, CHARACTERS)? {
        return Ok(at);
    }
    let end = text.skip_at_most(number_end + CHARACTERS.len(), 1, |byte| byte == b's')?;
    Ok(if text.get(end)? == Some(b']') { end + 1 } else { at })
}

/// Whether `text` begins with a bracket that a reader could take for the beginning of a mark of ours.
///
/// Spelling, blanks and case do not count: a reader does not look that closely.
pub(crate) fn is_look_alike(text: &str) -> bool {
    let mut chars = text.chars();
    if !chars.next().is_some_and(|char| BRACKETS.contains(&char)) {
        return false;
    }
    let inside = chars.take(LONGEST_LOOK_ALIKE).take_while(|char| !matches!(char, ']' | '\n' | '['));
    let inside: String = inside.filter(|char| char.is_alphanumeric()).collect();
    let inside = inside.to_lowercase();
    // letters of another script may look like these
    let has_words = inside.contains("char") || !inside.is_ascii();
    let has_length = has_words && inside.chars().any(char::is_numeric);
    has_length || ["redacted", "hidden", "removed", "masked"].iter().any(|word| inside.contains(word))
}
