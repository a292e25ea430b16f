//! What people read of a message, shown as Discord's programs do: the parser is the stand-in's.

use proptest::prelude::*;
use testkit::platform::discord::markup::{Shown, shown};

use super::*;

fn read(source: &str) -> Shown {
    shown(&render(&Styled::markdown(source)))
}

fn check(source: &str, text: &str, marks: &[(&str, &str)]) {
    let read = read(source);
    assert_eq!(read.text, text, "{source:?}");
    let read: Vec<(&str, &str)> = read.marks.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
    assert_eq!(read, marks, "{source:?} as {:?}", render(&Styled::markdown(source)));
}

#[test]
fn formatting_becomes_discords_own() {
    check(
        "## Done\n**two** files, *really*, ~~three~~ and `a*b`",
        "Done\ntwo files, really, three and a*b",
        &[("bold", "Done"), ("bold", "two"), ("italic", "really"), ("struck", "three"), ("code", "a*b")],
    );
    check(
        "Look:\n\n```rust\nlet a = \"**b**\";\n```\nDone.",
        "Look:\n\nlet a = \"**b**\";\nDone.",
        &[("language", "rust"), ("block", "let a = \"**b**\";")],
    );
    check(
        "see [the book](https://x.example/a_b)",
        "see the book",
        &[("link", "the book → https://x.example/a_b")],
    );
    check(
        "**`x`** and **[a](https://x.example)**",
        "x and a",
        &[("bold", "x"), ("code", "x"), ("bold", "a"), ("link", "a → https://x.example")],
    );
}

#[test]
fn what_only_looks_like_formatting_is_read_as_it_was_written() {
    for text in [
        "__init__.py and src/**/*.rs, snake_case_name, 2 * 3 * 4",
        "<@42> <#1> <@&9> <:x:1> <t:1> </a:1> :smile: std::fmt::Display",
        "# x\n## y\n-# z\n> q\n>>> r\n- a\n* b\n+ c\n1. d\n12. e",
        "||spoiler|| [a](b) [x] \\ \\* ~~~ ```x``` ``y`` `",
        "¯\\_(ツ)_/¯ می‌خواهم 👩‍👩‍👧‍👦 שלום é @everyone @here <b>",
        "--- a/x\n+++ b/x\n@@ -1 +1 @@",
    ] {
        let read = shown(&render(&Styled::from(text)));
        assert_eq!((read.text.as_str(), read.marks.as_slice()), (text, &[][..]));
    }
}

#[test]
fn an_address_stays_whole() {
    let text = "see https://x.example/a_b_c?d=*e*~~f~~, or (http://y.example/_).";
    let read = shown(&render(&Styled::from(text)));
    assert_eq!(read.text, text);
    assert_eq!(read.of_kind("address"), ["https://x.example/a_b_c?d=*e*~~f", "http://y.example/"]);
}

#[test]
fn a_link_whose_text_discord_would_not_hide_its_address_behind_shows_both() {
    let link = Style::Link("https://x.example/a(b)".to_owned());
    let read = shown(&render(&Styled::new("there", link)));
    assert_eq!(read.text, "there (https://x.example/a(b))");
    let own = Style::Link("https://x.example/a".to_owned());
    assert_eq!(shown(&render(&Styled::new("https://x.example/a", own))).text, "https://x.example/a");
}

#[test]
fn code_that_has_a_fence_in_it_loses_its_look_and_no_character() {
    let block = Style::Block { language: Some("md".to_owned()) };
    let code = "before\n```\ninner **x**\n```\nafter";
    let read = shown(&render(&Styled::new(code, block)));
    assert_eq!(read.text, code);
    assert_eq!(read.of_kind("block"), ["before", "inner **x**", "after"]);
    assert_eq!(shown(&render(&Styled::new("a ` b", Style::Code))).text, "a ` b");
}

#[test]
fn a_message_that_is_all_marks_fits() {
    for text in ["*".repeat(10_000), "`".repeat(10_000), "1. ".repeat(5_000), "\n- ".repeat(5_000)] {
        for part in Styled::from(text.as_str()).split(LIMITS.text, LIMITS.spans, 3) {
            let content = render(&part);
            assert!(content.encode_utf16().count() <= MAX_CHARS);
            assert_eq!(shown(&content).text, part.text);
        }
    }
}

#[test]
fn more_formatting_than_fits_is_left_out_before_any_text() {
    let source = "[a](https://x.example/a-rather-long-address/that-goes-on) ".repeat(60);
    let parts = Styled::markdown(&source).split(LIMITS.text, LIMITS.spans, 9);
    let all: String = parts.iter().map(|part| shown(&render(part)).text).collect();
    assert_eq!(all.matches('a').count(), 60);
    assert!(parts.iter().all(|part| render(part).encode_utf16().count() <= MAX_CHARS));
}

/// Pieces of which texts are made that a model might write, or that might confuse a parser.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b c",
        " ",
        "\n",
        "\n\n",
        "*",
        "**",
        "***",
        "_",
        "__",
        "~~",
        "~",
        "`",
        "``",
        "```",
        "```rust\n",
        "\n```\n",
        "|",
        "||",
        "[",
        "]",
        "(",
        ")",
        "](",
        "<",
        ">",
        "<@1>",
        "@everyone",
        "# ",
        "- ",
        "-# ",
        "1. ",
        "> ",
        ":",
        ":x:",
        "\\",
        "\\*",
        "https://x.example/a_b",
        "http://",
        "https://y.example/*z*",
        "é",
        "é",
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "שלום",
        "\u{200f}",
        "می‌خواهم",
        "+",
        ".",
        "¯\\_(ツ)_/¯",
        "1",
        "x_y_z",
        "\t",
        "  ",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// A text with styles of any kind at any place, nested or not.
fn styled() -> impl Strategy<Value = Styled> {
    let style = prop::sample::select(vec![
        Style::Bold,
        Style::Italic,
        Style::Struck,
        Style::Code,
        Style::Block { language: None },
        Style::Block { language: Some("c++".to_owned()) },
    ]);
    let span = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), style);
    (pieces(), prop::collection::vec(span, 0..8)).prop_map(|(text, spans)| {
        let seams: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let at = |index: &prop::sample::Index| seams[index.index(seams.len())];
        let spans = spans.iter().map(|(one, two, style)| {
            let (one, two) = (at(one), at(two));
            Span { range: one.min(two)..one.max(two), style: style.clone() }
        });
        let mut spans: Vec<Span> = spans.filter(|span| span.range.start < span.range.end).collect();
        spans.sort_by_key(|span| (span.range.start, usize::MAX - span.range.end));
        Styled { text, spans }
    })
}

/// What a message may have beside its text.
const MARKS_OF_OURS: [&str; 7] = ["bold", "italic", "struck", "code", "block", "language", "address"];

fn is_read_as_written(text: &Styled) {
    let content = render(text);
    let read = shown(&content);
    assert_eq!(read.text, text.text, "{content:?}");
    let others: Vec<_> = read.marks.iter().filter(|(kind, _)| !MARKS_OF_OURS.contains(kind)).collect();
    assert!(others.is_empty(), "{others:?} in {content:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn whatever_is_written_is_read_with_every_character(text in styled()) {
        is_read_as_written(&text);
    }

    #[test]
    fn what_a_model_writes_is_read_with_every_character(source in pieces()) {
        let text = Styled::markdown(&source);
        // A link is tested above: where its address cannot be hidden, it is shown.
        let spans = text.spans.into_iter().filter(|span| !matches!(span.style, Style::Link(_))).collect();
        is_read_as_written(&Styled { spans, ..text });
    }

    #[test]
    fn no_message_is_longer_than_discord_takes(text in pieces(), times in 1..40_usize) {
        let parts = Styled::markdown(&text.repeat(times)).split(LIMITS.text, LIMITS.spans, 5);
        for part in parts {
            prop_assert!(render(&part).encode_utf16().count() <= MAX_CHARS);
        }
    }
}
