//! What is held back, for how long, and what happens at the bound.

use super::*;
use crate::Redactor;

fn stream() -> Stream {
    Redactor::default().stream()
}

#[test]
fn prose_flows_word_by_word() {
    let mut stream = stream();
    assert_eq!(stream.push("Hello, wor"), "Hello, ");
    assert_eq!(stream.push("ld. And"), "world. ");
    assert_eq!(stream.push(" more\n"), "And more\n");
    assert_eq!(stream.finish(), "");
}

#[test]
fn at_most_the_last_word_of_prose_is_held_back() {
    let text = "I looked at the tests; the parser drops its last line (see `read_all` in src/parser.rs), so I will fix it. ";
    let mut stream = stream();
    let mut shown = 0;
    for (at, char) in text.char_indices() {
        shown += stream.push(char.encode_utf8(&mut [0; 4])).len();
        let word = text[..=at].rfind([' ', '(', '`', '/', ';']).map_or(0, |start| at - start);
        assert!(at + 1 - shown <= word + 1, "held back {} at {:?}", at + 1 - shown, &text[..=at]);
    }
}

#[test]
fn a_name_waits_for_its_value_and_a_value_for_its_end() {
    let mut stream = stream();
    assert_eq!(stream.push("the password "), "the ");
    assert_eq!(stream.push("is long, "), "password is long, ");
    assert_eq!(stream.push("PASSWORD="), "");
    assert_eq!(stream.push("hunt"), "");
    assert_eq!(stream.push("er2 x"), "PASSWORD=[redacted:password] ");
    assert_eq!(stream.finish(), "x");
}

#[test]
fn a_private_key_is_shown_as_soon_as_it_has_ended() {
    let line = "MIIEpAIBAAKCAQEA1234567890abcdefghijKLMNOPQRSTUVWXYZ+/1234567890\n";
    let mut stream = stream();
    assert_eq!(stream.push("-----BEGIN PRIVATE KEY-----\n"), "");
    assert_eq!(stream.push(&line.repeat(3)), "");
    assert_eq!(
        stream.push("-----END PRIVATE KEY-----\nthat was it "),
        "[redacted:private-key]\nthat was it "
    );
}

#[test]
fn what_stays_undecided_too_long_counts_as_secret() {
    let endless = "a1b2".repeat(MOST_HELD_BACK / 4 + 100);
    for (open, close, after) in [
        ("", " rest ", " rest "),
        ("password = \"", " x\"\nrest ", "\nrest "),
        ("-----BEGIN PRIVATE KEY-----\n", "\n-----END PRIVATE KEY-----\nrest ", "\nrest "),
    ] {
        let mut stream = stream();
        let mut shown = stream.push(open);
        for chunk in endless.as_bytes().chunks(1000) {
            shown += &stream.push(std::str::from_utf8(chunk).unwrap());
            let held: usize = stream.stages.iter().map(|stage| stage.buffer.len()).sum();
            assert!(held <= 2 * MOST_HELD_BACK + 2000, "{held} bytes are held back");
        }
        shown += &stream.push(close);
        shown += &stream.finish();
        assert!(!shown.contains("a1b2"), "{shown}");
        assert!(shown.ends_with(&format!("[redacted:oversized]{after}")), "{shown:?}");
    }
}

#[test]
fn an_end_marker_split_over_pieces_is_still_seen() {
    let mut stream = stream();
    stream.push("-----BEGIN PRIVATE KEY-----\n");
    let mut shown = stream.push(&"A1b2".repeat(MOST_HELD_BACK / 2));
    for piece in ["\n---", "--E", "ND PRIVATE ", "KEY-----", "\nrest "] {
        shown += &stream.push(piece);
    }
    assert_eq!(shown, "[redacted:oversized]\nrest ");
}

#[test]
fn a_huge_piece_is_taken_at_once() {
    let text = "word ".repeat(100_000);
    let mut stream = stream();
    assert_eq!(stream.push(&text).len(), text.len());
}

#[test]
fn nothing_is_lost_at_the_end() {
    let mut stream = stream();
    assert_eq!(stream.push("PASSWORD="), "");
    assert_eq!(stream.finish(), "PASSWORD=");
    assert_eq!(stream.push("abc"), "");
    assert_eq!(stream.finish(), "abc");
    assert_eq!(stream.finish(), "");
}
