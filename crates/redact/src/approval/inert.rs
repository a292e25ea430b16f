//! Which values may be covered by a mark, judged by the value alone. Where the value stands is judged elsewhere.

use crate::rules;

/// Found by the program's own knowledge.
const KNOWN: &str = "known-secret";
const PRIVATE_KEY: &str = "private-key";
const TELEGRAM: &str = "telegram-token";

/// A generated string is at least this long: no program, package or branch that people know has such a name.
const SHORTEST_GENERATED: usize = 20;

/// The last label of a host has at most 24 characters (`xn--vermgensberatung-pwb`), so a longer label ends no host name.
const SHORTEST_LAST_PART: usize = 25;

/// Whether secrets of this kind go to no chat, whatever they could do.
pub(super) fn is_forbidden_to_show(kind: &str) -> bool {
    matches!(kind, KNOWN | PRIVATE_KEY)
}

/// Whether a value is hidden because of the name or the place that it has, whatever it looks like.
fn is_by_name(kind: &str) -> bool {
    matches!(
        kind,
        "password" | "secret" | "api-key" | "token" | "credential" | "authorization" | "cookie" | "signature"
    ) || is_in_url(kind)
}

fn is_in_url(kind: &str) -> bool {
    matches!(kind, "url-password" | "url-credential")
}

/// Whether a known value can be covered. It was not chosen by whoever wrote the text, so it may look like a path or a host.
pub(super) fn is_known_value(kind: &str, value: &str) -> bool {
    let is_inert = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+=.:@%/,".contains(&byte);
    kind == KNOWN && value.bytes().all(is_inert) && !value.starts_with('-')
}

/// Whether a value is one generated string: it tells a reader nothing, so its mark takes nothing away.
///
/// Letters of both cases and digits change often, and no part of it can be read as a word (`sk-a1B2…-rm-rf`): a
/// script could cut that part out. It is no path and no host.
pub(super) fn is_generated(kind: &str, value: &str) -> bool {
    let value = match value.split_once(':') {
        Some((digits, rest)) if kind == TELEGRAM && digits.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        _ => value,
    };
    let body = value.strip_suffix("==").or_else(|| value.strip_suffix('=')).unwrap_or(value);
    let may_have_slashes = is_by_name(kind) && !is_in_url(kind);
    let is_inert = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || matches!(byte, b'_' | b'-' | b'+' | b'.')
            || (byte == b'/' && may_have_slashes)
    };
    let is_host =
        body.contains('.') && body.rsplit('.').next().is_none_or(|part| part.len() < SHORTEST_LAST_PART);
    body.len() >= SHORTEST_GENERATED
        && body.bytes().all(is_inert)
        && body.starts_with(|char: char| char.is_ascii_alphanumeric())
        && !is_host
        && is_random(kind, body)
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Class {
    Lower,
    Upper,
    Digit,
}

fn class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        _ => Class::Digit,
    }
}

fn changes(part: &[u8]) -> usize {
    part.windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count()
}

fn is_random(kind: &str, body: &str) -> bool {
    let parts = body.as_bytes().split(|byte| !byte.is_ascii_alphanumeric());
    let is_issued =
        !is_by_name(kind) || rules::find(body.as_bytes(), 0, body.len()).is_some_and(|key| key.start == 0);
    let (mut length, mut total, mut has_mixed, mut has_digit) = (0, 0, false, false);
    for part in parts {
        let part_changes = changes(part);
        length += part.len();
        total += part_changes;
        has_digit |= part.iter().any(u8::is_ascii_digit);
        let is_capitalised =
            part_changes == 1 && class(part[0]) == Class::Upper && class(part[1]) == Class::Lower;
        let is_word = part.len() >= 2
            && part.iter().all(u8::is_ascii_alphabetic)
            && (part_changes == 0 || is_capitalised);
        // an issuer's own prefix (`sk-proj-`, `github_pat_`) is readable, and no more than that
        if is_word && (has_mixed || !is_issued) {
            return false;
        }
        has_mixed |= part_changes >= 2;
    }
    has_digit && total * 4 >= length
}

/// Whether a value may be covered where it reaches nothing but the program that it is for.
///
/// Signs that are common in passwords and that no shell acts on in the middle of a word are allowed. A name of a file or
/// host (`evil.sh`) is not, nor, in a URL, what could move the host.
pub(super) fn is_named_value(kind: &str, value: &str) -> bool {
    let body = value.strip_suffix("==").or_else(|| value.strip_suffix('=')).unwrap_or(value);
    let is_inert = |byte: u8| {
        byte.is_ascii_alphanumeric()
            || b"_-+.!%".contains(&byte)
            || (b"@#:".contains(&byte) && !is_in_url(kind))
    };
    let has_ending = body
        .as_bytes()
        .windows(2)
        .any(|pair| pair[0] == b'.' && (pair[1].is_ascii_alphabetic() || pair[1] == b'.'));
    // `secret` and `token` are also names of what a command acts on
    (is_in_url(kind) || matches!(kind, "password" | "api-key" | "authorization" | "cookie" | "signature"))
        && body.starts_with(|char: char| char.is_ascii_alphanumeric())
        && body.bytes().all(is_inert)
        && !has_ending
}
