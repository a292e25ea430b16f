//! Eight times the text is eight times the work, whatever the text. Counted in bytes looked at, not in seconds.

use crate::Redactor;
use crate::text::work;

/// Texts that are made to keep a rule looking. Each is repeated to the length that is wanted.
const UNITS: &[&str] = &[
    "a=",
    "password=",
    "password: ",
    "password = \"",
    "token: '",
    "key=\\\"",
    "key=`a key='b key=\"c ",
    "\"token\":\"a b\",",
    "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQ",
    "eyJ",
    "eyJhbGciOiJI-",
    "eyJhbGciOiJIUzI1NiJ9.",
    "://",
    "postgres://a:b/",
    "https://a:b",
    "u:p@",
    "fc-",
    "sk-abc-",
    "ghp_0123456789-",
    "0123456789abcdef0123456789abcdef.",
    "123456789:",
    "+",
    "+1234567",
    "%3D",
    "%",
    "\\",
    "\\n",
    "\\u001b[",
    "\"",
    "'",
    "[redacted:",
    "[redacted:x]",
    "-----BEGIN",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----\nProc-Type: ",
    "-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234567890ab\n",
    "Authorization: Bearer ",
    "Authorization: x y ",
    "Authorization: Digest a=b ",
    "Cookie: a=b ",
    "Bearer ",
    "--password ",
    "--password x ",
    "password,",
    "password=a,b=",
    "\u{200b}",
    "a\u{200b}",
    "\u{1b}[",
    "\0",
    "日本",
    " ",
    "\n",
    "known secre",
];

const FACTOR: usize = 8;

/// The bounds of the rules, multiplied by the rounds, looks and second thoughts: no byte is looked at more often.
const MOST_PER_BYTE: usize = 500;

fn redactor() -> Redactor {
    Redactor::knowing(["known secret"])
}

fn work_of(action: impl Fn(&str), text: &str) -> usize {
    work::take();
    action(text);
    work::take()
}

#[track_caller]
fn check(length: usize, action: impl Fn(&str)) {
    for unit in UNITS {
        let small = work_of(&action, &unit.repeat(length / unit.len()));
        let large = work_of(&action, &unit.repeat(length * FACTOR / unit.len()));
        // quadratic work would grow by 64
        assert!(large <= small * FACTOR * 2, "{unit:?}: {small} became {large}");
        assert!(large <= length * FACTOR * MOST_PER_BYTE, "{unit:?}: {} per byte", large / length / FACTOR);
    }
}

fn stream(text: &str, length: usize) {
    let mut stream = redactor().stream();
    let mut rest = text;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.ceil_char_boundary(length.min(rest.len())));
        stream.push(chunk);
        rest = after;
    }
    stream.finish();
}

#[test]
fn redacting_is_linear_work() {
    let redactor = redactor();
    check(8 * 1024, |text| drop(redactor.redact(text)));
}

#[test]
fn streaming_in_small_pieces_is_linear_work() {
    check(4 * 1024, |text| stream(text, 40));
}

#[test]
fn streaming_by_characters_is_linear_work() {
    check(2 * 1024, |text| stream(text, 1));
}
