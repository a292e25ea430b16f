//! Where values end.

use super::*;

/// The value that begins at the `^` of `marked`.
#[track_caller]
fn check(marked: &str, wanted: &str, find: impl Fn(&Text, usize) -> Parsed<Option<Extent>>) {
    let at = marked.find('^').unwrap();
    let text = marked.replace('^', "");
    let found = find(&Text::new(text.as_bytes(), true), at).unwrap().unwrap();
    assert_eq!(&text[found.start..found.end], wanted, "in {text:?}");
}

#[test]
fn a_quoted_value_ends_at_its_own_quote() {
    for (marked, wanted) in [
        (r#"^"abc" x"#, "abc"),
        (r#"^"a\"b" x"#, r#"a\"b"#),
        (r#"^"a\\" x"#, r"a\\"),
        (r#"^\"abc\" x"#, "abc"),
        (r#"^\"a\\\"b\" x"#, r#"a\\\"b"#),
        (r#"^\"abc" x"#, "abc"),
        (r#"^\\\"abc\\\" x"#, "abc"),
        ("^'it''s' x", "it''s"),
        ("^'' x", ""),
        ("^`a b` x", "a b"),
        ("^\"abc\nx", "abc"),
        ("^\"abc", "abc"),
        ("^\"\"\"abc\"\"\"", "abc"),
    ] {
        check(marked, wanted, quoted);
    }
}

#[test]
fn a_bare_value_ends_where_something_else_begins() {
    for (marked, wanted) in [
        ("^abc def", "abc"),
        ("^abc\"", "abc"),
        ("^ab\"c\" ", "ab\"c"),
        ("^abc)", "abc"),
        ("^ab)c", "ab)c"),
        ("^abc, def", "abc"),
        ("^ab,cd", "ab,cd"),
        ("^abc,d=1", "abc"),
        ("^abc;User=x", "abc"),
        ("^abc&d=1", "abc"),
        ("^ab&cd", "ab&cd"),
        ("^abc\\nx", "abc"),
        ("^ab\\cd", "ab\\cd"),
        ("^abc</b>", "abc"),
        ("^abc.", "abc"),
        ("^<your key> x", "<your key>"),
        ("^[redacted:x] y", "[redacted:x]"),
        ("^a[redacted:x]b y", "a[redacted:x]b"),
    ] {
        check(marked, wanted, |text, at| bare(text, at, Within::Text).map(Some));
    }
    check("^abc#d", "abc", |text, at| bare(text, at, Within::Query).map(Some));
    check("^abc%26d", "abc", |text, at| bare(text, at, Within::Percent).map(Some));
}

#[test]
fn a_growing_text_leaves_the_end_open() {
    let growing = |text: &'static str| Text::new(text.as_bytes(), false);
    assert_eq!(quoted(&growing("\"abc"), 0), Err(More));
    assert_eq!(quoted(&growing("\"abc\\"), 0), Err(More));
    assert_eq!(bare(&growing("abc"), 0, Within::Text), Err(More));
    assert_eq!(bare(&growing("abc,"), 0, Within::Text), Err(More));
    assert!(quoted(&growing("\"abc\" "), 0).is_ok());
    assert!(bare(&growing("abc "), 0, Within::Text).is_ok());
}
