use codex_bridge_core::request::Button;
use proptest::prelude::*;

use super::*;

/// The text of all elements, one after the other.
fn said(content: &Value) -> String {
    text_of(&content["blocks"]).unwrap_or_default()
}

fn kinds(content: &Value) -> Vec<String> {
    let elements = content["blocks"][0]["elements"].as_array().unwrap();
    let text = |part: &Value| {
        part["elements"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["text"].as_str().unwrap())
            .collect::<String>()
    };
    elements
        .iter()
        .map(|part| format!("{}:{}", if part["type"] == CODE { "code" } else { "lines" }, text(part)))
        .collect()
}

#[test]
fn code_in_lines_is_a_part_of_its_own_and_takes_the_line_break_behind_it() {
    let content = content(
        &Styled::markdown("see\n```rust\nfn a() {}\n\nfn b() {}\n```\nand `c` **d**"),
        &Keyboard::NONE,
    );
    assert_eq!(kinds(&content), ["lines:see\n", "code:fn a() {}\n\nfn b() {}\n", "lines:and c d"]);
    let last = &content["blocks"][0]["elements"][2]["elements"];
    assert_eq!((&last[1]["style"]["code"], &last[3]["style"]["bold"]), (&true.into(), &true.into()));
    assert!(content["blocks"][0]["elements"][1]["elements"][0].get("style").is_none());
}

#[test]
fn a_link_keeps_its_address_and_its_style() {
    let content = content(&Styled::markdown("**[the docs](<https://example.com/a b>)**"), &Keyboard::NONE);
    let link = &content["blocks"][0]["elements"][0]["elements"][0];
    let expected = json!({
        "type": "link", "text": "the docs", "url": "https://example.com/a%20b", "style": {"bold": true},
    });
    assert_eq!(*link, expected);
}

#[test]
fn buttons_say_what_they_mean_and_nothing_is_parsed_or_unfurled() {
    let key = |text: &str, data: &str| Key { text: text.to_owned(), data: data.to_owned() };
    let row = vec![key("Approve", "a:req-1"), key("", "q:req-1:0")];
    let keyboard = Keyboard(vec![row, vec![key("Decline", "d:req-1")]]);
    let content = content(&Styled::from("<!here> & *x*"), &keyboard);
    let (first, second) = (&content["blocks"][1]["elements"], &content["blocks"][2]["elements"]);
    assert_eq!((&first[0]["style"], &second[0]["style"]), (&"primary".into(), &"danger".into()));
    assert_eq!((first[1].get("style"), &first[1]["text"]["text"]), (None, &"-".into()));
    assert_ne!(first[0]["action_id"], second[0]["action_id"]);
    assert_eq!(content["text"], "&lt;!here&gt; &amp; *x*");
    assert_eq!((&content["unfurl_links"], &content["parse"]), (&false.into(), &"none".into()));
    assert_eq!(Button::named("req-1").request_id.as_str(), "req-1");
}

proptest! {
    #[test]
    fn what_the_model_said_is_what_slack_gets(source in "(?s)([\\PC\\n]|[*_`#>~ \\n-]|```|שלום|👩‍💻|🇩🇪|e\u{301}|<@U1>|&amp;|:x:){0,60}") {
        let styled = Styled::markdown(&source);
        let content = content(&styled, &Keyboard::NONE);
        prop_assert_eq!(said(&content), styled.text.clone());
        let parts = content["blocks"][0]["elements"].as_array().cloned().unwrap_or_default();
        for element in parts.iter().flat_map(|part| part["elements"].as_array().cloned().unwrap_or_default()) {
            prop_assert!(element["text"].as_str().is_some_and(|text| !text.is_empty()), "{}", element);
        }
        prop_assert_eq!(super::super::words::plain(&fallback(&source), &|_| None), source.chars().take(FALLBACK_CHARS).collect::<String>());
    }
}
