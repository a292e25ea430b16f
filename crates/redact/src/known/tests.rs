//! Exact values in every writing.

use crate::Redactor;

#[track_caller]
fn check(values: &[&str], text: &str, shown: &str) {
    let redactor = Redactor::knowing(values.iter().copied());
    assert_eq!(redactor.redact(text), shown, "for {text:?}");
    let mut stream = redactor.stream();
    let streamed: String = text.chars().map(|char| stream.push(char.encode_utf8(&mut [0; 4]))).collect();
    assert_eq!(streamed + &stream.finish(), shown, "as a stream, for {text:?}");
}

#[test]
fn a_value_is_found_in_every_writing() {
    let value = &["a b\"c/ü"];
    for written in [
        "a b\"c/ü",
        "a b\\\"c/ü",
        "a b\\\"c\\/ü",
        "a b\\\\\\\"c/ü",
        "a%20b%22c%2F%C3%BC",
        "a%20b%22c%2f%c3%bc",
        "a+b%22c%2F%C3%BC",
    ] {
        check(value, &format!("x {written} y"), "x [redacted:known-secret] y");
    }
}

#[test]
fn the_longest_value_wins() {
    check(
        &["secret", "secret and more"],
        "secret and more, secret and",
        "[redacted:known-secret], [redacted:known-secret] and",
    );
}

#[test]
fn a_value_inside_a_word_or_a_secret_is_found() {
    check(&["needle"], "haneedley", "ha[redacted:known-secret]y");
    check(&["needle"], "password=xneedley", "password=[redacted:password]");
    check(
        &["needle"],
        "ne\u{200b}edle \u{1b}[1mneedle",
        "[redacted:known-secret] \u{1b}[1m[redacted:known-secret]",
    );
}

#[test]
fn short_values_are_ignored_and_sentinels_are_safe() {
    check(&["abcde", "", "redacted"], "abcde redacted", "abcde [redacted:known-secret]");
    check(&["redacted"], "[redacted:token]", "[redacted:token]");
}

#[test]
fn what_is_known_is_never_shown_for_debugging() {
    let shown = format!("{:?}", Redactor::knowing(["needle in haystack"]));
    assert!(!shown.contains("needle"), "{shown}");
}
