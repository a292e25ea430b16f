//! Reading Markdown without losing a word of it, and splitting it.

use proptest::prelude::*;

use super::*;

/// The text with its spans written out: `‹b:bold›`.
fn shown(source: &str) -> String {
    let styled = Styled::markdown(source);
    let mut marks: Vec<(usize, usize, String)> = Vec::new();
    for (number, Span { range, style }) in styled.spans.iter().enumerate() {
        let name = match style {
            Style::Bold => "b:".to_owned(),
            Style::Italic => "i:".to_owned(),
            Style::Struck => "s:".to_owned(),
            Style::Code => "c:".to_owned(),
            Style::Block { language } => format!("{}:", language.as_deref().unwrap_or("pre")),
            Style::Link(address) => format!("{address} "),
        };
        marks.push((range.start, number + 1, format!("‹{name}")));
        marks.push((range.end, 0, "›".to_owned()));
    }
    marks.sort();
    let mut text = styled.text;
    for (at, _, mark) in marks.into_iter().rev() {
        text.insert_str(at, &mark);
    }
    text
}

fn check(source: &str, expected: &str) {
    assert_eq!(shown(source), expected, "{source:?}");
}

#[test]
fn marks_become_styles() {
    check("**bold** and *italic* and ~~gone~~", "‹b:bold› and ‹i:italic› and ‹s:gone›");
    check("***both***", "‹i:‹b:both››");
    check("use `a*b` or ``x`y``", "use ‹c:a*b› or ‹c:x`y›");
    check("**see `x`**", "‹b:see ‹c:x››");
    check("**粗体**文字", "‹b:粗体›文字");
    check("## Done ##\ntext", "‹b:Done›\ntext");
    check("- one\n  - two\n* three\n1. four", "• one\n  • two\n• three\n1. four");
    check("[docs](https://a.example/x)", "‹https://a.example/x docs›");
    check("[`see`](https://a.example/x)", "‹https://a.example/x ‹c:see››");
    check("[`a.rs`](https://a.example/x)", "‹c:a.rs› (https://a.example/x)");
    check("[src/a.rs](/w/src/a.rs:3)", "src/a.rs (/w/src/a.rs:3)");
    check("[https://bank.example](https://evil.example)", "https://bank.example (https://evil.example)");
    check("[bank.example/in](https://evil.example)", "bank.example/in (https://evil.example)");
    check("[a.example/x](https://a.example/x)", "‹https://a.example/x a.example/x›");
    check("![alt](https://a.example/p.png)", "‹https://a.example/p.png alt›");
    check("a \\* b \\_ c", "a * b _ c");
}

#[test]
fn code_keeps_its_lines_and_its_language() {
    check(
        "a\n\n```rust\nlet x = \"[[bin]]\";\n\n  y();\n```\n\nb",
        "a\n\n‹rust:let x = \"[[bin]]\";\n\n  y();›\n\nb",
    );
    check("```\n@@ -1 +1 @@\n-<!DOCTYPE\n```", "‹pre:@@ -1 +1 @@\n-<!DOCTYPE›");
    check("- x\n  ```sh\n  ls\n  pwd\n  ```\n- y", "• x\n  ‹sh:ls\npwd›\n• y");
    check("~~~\n```\n~~~", "‹pre:```›");
    check("```rust\nopen", "‹rust:open›");
    check("```rust title=x\nlet y;\n```", "rust title=x\n‹pre:let y;›");
    check("```\n```", "```\n```");
}

#[test]
fn tables_are_columns() {
    check(
        "Sizes:\n\n| Name | Size |\n|---|--:|\n| `a b` | 1 |\n| c \\| d | **22** |\n\nEnd",
        "Sizes:\n\n‹pre:Name   Size\n─────  ────\na b    1\nc | d  22›\n\nEnd",
    );
    // The parser leaves out what is behind the last column, so such a table stays as it is.
    check("|a|b|\n|-|-|\n|1|2|3|", "‹pre:|a|b|\n|-|-|\n|1|2|3|›");
}

#[test]
fn a_table_that_would_be_huge_stays_as_it_is() {
    let wide = format!("{}|b\n-|-\n{}", "x".repeat(3_000), "a|b\n".repeat(1_000));
    let styled = Styled::markdown(&wide);
    assert!(styled.text.len() <= wide.len(), "{}", styled.text.len());
}

#[test]
fn what_may_be_meant_literally_stays() {
    for source in [
        "src/**/*.rs and tests/**/*.rs",
        "*.rs and *.toml",
        "2*3*4 and a*b*c",
        "__init__.py and snake_case_name and _x_",
        "[[bin]] and [1] and @types/node",
        "<!DOCTYPE html><b>x</b>",
        "&amp; &nbsp; C:\\dir\\[x]",
        "[note]: this stays\n\nand [note] too",
        "Title\n=====\n\n---\n\n1) one\n2) two",
        "~/a and ~/b",
        "a | b\nno table",
        "$x \\(y\\) \\[z\\]",
        "> quoted\n> text",
    ] {
        check(source, source);
    }
}

#[test]
fn what_people_write_in_other_scripts_arrives_as_it_is() {
    for source in ["می‌خواهم", "👩‍👩‍👧‍👦 👍🏽 🇩🇪", "שלום עולם", "e\u{301}", "हिन्दी"]
    {
        check(source, source);
    }
}

const LIMIT: Limit = Limit::Utf16(100);

#[test]
fn code_that_is_split_is_code_in_both_parts() {
    let lines: Vec<String> = (0..30).map(|number| format!("    line {number}")).collect();
    let source = format!("Look:\n\n```rust\n{}\n```\nDone", lines.join("\n"));
    let whole = Styled::markdown(&source);
    let parts = whole.split(LIMIT, 100, usize::MAX);
    assert!(parts.len() > 3, "{parts:#?}");
    for part in &parts[1..parts.len() - 1] {
        assert_eq!(part.spans.len(), 1);
        assert_eq!(part.spans[0].range, 0..part.text.len());
        assert!(part.text.starts_with("    line"), "{part:?}");
    }
    let joined: Vec<&str> = parts.iter().map(|part| part.text.as_str()).collect();
    assert_eq!(joined.join("\n"), whole.text);
}

#[test]
fn a_part_has_no_more_styles_than_it_may_have() {
    let words: Vec<String> = (0..50).map(|number| format!("`a{number}`")).collect();
    let source = words.join(" ");
    let parts = Styled::markdown(&source).split(Limit::Utf16(4096), 10, usize::MAX);
    assert_eq!(parts.len(), 5);
    assert!(parts.iter().all(|part| part.spans.len() <= 10));
}

#[test]
fn a_family_is_not_torn() {
    let family = "👩‍👩‍👧‍👦".repeat(60);
    let parts = Styled::from(family.as_str()).split(Limit::Utf16(100), 10, usize::MAX);
    assert!(parts.iter().all(|part| part.text.starts_with('👩') && part.text.ends_with('👦')), "{parts:?}");
}

/// Pieces of Markdown and of what looks like it.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("**"),
        Just("*"),
        Just("~~"),
        Just("`"),
        Just("``"),
        Just("```\n"),
        Just("```rust\n"),
        Just("\n"),
        Just("\n\n"),
        Just("# "),
        Just("- "),
        Just("> "),
        Just("[a](b)"),
        Just("[x](https://y.example)"),
        Just("["),
        Just("]("),
        Just(")"),
        Just("!"),
        Just("| a | b |\n|---|---|\n"),
        Just("| 1 | 2 |\n"),
        Just("\\"),
        Just("_"),
        Just(" "),
        Just("    "),
        Just("word"),
        Just("ä"),
        Just("👩‍👧"),
        Just("می‌خ"),
        Just("<b>"),
        Just("&amp;"),
        Just("[n]: x"),
        Just("1. "),
        Just("\t"),
        Just("---\n"),
        Just("\r\n"),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// The characters that no formatting is made of.
fn words(text: &str) -> String {
    text.chars().filter(|char| !char.is_whitespace() && !"*~`#-+•|[]()!>\\─:".contains(*char)).collect()
}

proptest! {
    #[test]
    fn every_word_arrives(source in pieces()) {
        let styled = Styled::markdown(&source);
        let without_addresses = words(&source).replace("https//y.example", "");
        let mut arrived = words(&styled.text).replace("https//y.example", "");
        // The language of a block is shown by its style.
        for span in &styled.spans {
            if let Style::Block { language: Some(language) } = &span.style {
                arrived.push_str(&words(language));
            }
        }
        let sorted = |text: &str| { let mut chars: Vec<char> = text.chars().collect(); chars.sort_unstable(); chars };
        prop_assert_eq!(sorted(&arrived), sorted(&without_addresses), "{:?} became {:?}", source, styled);
    }

    #[test]
    fn spans_lie_on_characters(source in pieces()) {
        let styled = Styled::markdown(&source);
        for span in &styled.spans {
            prop_assert!(styled.text.get(span.range.clone()).is_some_and(|text| !text.is_empty()), "{:?}", styled);
        }
    }

    #[test]
    fn parts_are_the_whole(source in pieces(), most in 8_usize..40, most_spans in 1_usize..5) {
        let styled = Styled::markdown(&source);
        let parts = styled.split(Limit::Utf16(most), most_spans, usize::MAX);
        let solid = |text: &str| text.split_whitespace().collect::<String>();
        let joined: String = parts.iter().map(|part| solid(&part.text)).collect();
        prop_assert_eq!(joined, solid(&styled.text));
        for part in &parts {
            prop_assert!(part.text.encode_utf16().count() <= most, "{:?}", part);
            prop_assert!(part.spans.iter().all(|span| part.text.get(span.range.clone()).is_some()));
        }
    }
}
