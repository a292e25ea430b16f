//! A text as Block Kit: `rich_text` blocks, in which Slack parses nothing, and `actions` blocks with the buttons. Pure.

use serde_json::{Map, Value, json};

use super::words::escaped;
use crate::channel::chat::keyboard::Meaning;
use crate::channel::chat::{Key, Keyboard};
use crate::channel::text::{Limit, Limits, Span, Style, Styled};

/// The limits of a message. Slack counts the characters of all blocks together, with what is around them, up to about 12,000.
pub const LIMITS: Limits = Limits { text: Limit::Utf16(4_000), spans: 100 };
/// How much of a text stands in the notification that Slack shows.
const FALLBACK_CHARS: usize = 500;
/// The parts of a `rich_text` block.
const LINES: &str = "rich_text_section";
const CODE: &str = "rich_text_preformatted";
/// The first letter of the `action_id` of each of our buttons.
const ACTION: &str = "key";

/// The text of a message with its formatting and buttons, as `chat.postMessage` and `chat.update` take it.
pub fn content(text: &Styled, keyboard: &Keyboard) -> Value {
    let mut blocks = Vec::new();
    if !text.text.is_empty() {
        blocks.push(json!({ "type": "rich_text", "elements": elements(text) }));
    }
    blocks.extend(keyboard.0.iter().enumerate().map(|(number, row)| actions(number, row)));
    json!({
        "text": fallback(&text.text), "blocks": blocks, "mrkdwn": false, "parse": "none", "link_names": false,
        "unfurl_links": false, "unfurl_media": false,
    })
}

/// The beginning of a text for places that show no blocks, with nothing in it that Slack parses.
pub fn fallback(text: &str) -> String {
    let short: String = text.chars().take(FALLBACK_CHARS).collect();
    escaped(&short)
}

fn actions(number: usize, row: &[Key]) -> Value {
    let button = |(column, key): (usize, &Key)| {
        let label = if key.text.trim().is_empty() { "-" } else { &key.text };
        let mut button = json!({
            "type": "button", "action_id": format!("{ACTION}-{number}-{column}"), "value": key.data,
            "text": { "type": "plain_text", "text": label, "emoji": false },
        });
        match key.meaning() {
            Meaning::Yes => button["style"] = "primary".into(),
            Meaning::No => button["style"] = "danger".into(),
            Meaning::Other => {}
        }
        button
    };
    json!({ "type": "actions", "elements": row.iter().enumerate().map(button).collect::<Vec<_>>() })
}

/// The text as the elements of a `rich_text` block. All their texts together are the text, byte for byte: a line break behind
/// a block of code stands at the end of the block, where it is not seen.
fn elements(text: &Styled) -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for (range, spans) in text.pieces() {
        let mut piece = &text.text[range.clone()];
        let block = spans.iter().find(|span| matches!(span.style, Style::Block { .. }));
        if let Some(code) = all.last_mut().filter(|last| last["type"] == CODE) {
            if block.is_some_and(|span| span.range.start < range.start) {
                append(code, piece);
                continue;
            }
            if let (None, Some(rest)) = (block, piece.strip_prefix('\n')) {
                append(code, "\n");
                piece = rest;
            }
        }
        if piece.is_empty() {
            continue;
        }
        let element =
            if block.is_some() { json!({ "type": "text", "text": piece }) } else { inline(piece, &spans) };
        let kind = if block.is_some() { CODE } else { LINES };
        let section = all.last_mut().filter(|last| kind == LINES && last["type"] == LINES);
        match section.and_then(|section| section["elements"].as_array_mut()) {
            Some(elements) => elements.push(element),
            None => all.push(json!({ "type": kind, "elements": [element] })),
        }
    }
    all
}

/// Adds to the text of a block of code.
fn append(code: &mut Value, more: &str) {
    let text = format!("{}{more}", code["elements"][0]["text"].as_str().unwrap_or_default());
    code["elements"][0]["text"] = text.into();
}

/// A part of a line with its styles.
fn inline(part: &str, covering: &[&Span]) -> Value {
    let mut element = json!({ "type": "text", "text": part });
    let mut style = Map::new();
    for span in covering {
        let name = match &span.style {
            Style::Bold => "bold",
            Style::Italic => "italic",
            Style::Struck => "strike",
            Style::Code => "code",
            Style::Block { .. } => continue,
            Style::Link(address) => {
                (element["type"], element["url"]) = ("link".into(), encoded(address).into());
                continue;
            }
        };
        style.insert(name.to_owned(), true.into());
    }
    if !style.is_empty() {
        element["style"] = style.into();
    }
    element
}

/// An address without blanks and controls, which Slack does not take.
fn encoded(address: &str) -> String {
    let is_bad = |char: char| char.is_whitespace() || char.is_control();
    address.chars().map(|char| if is_bad(char) { "%20".to_owned() } else { char.to_string() }).collect()
}

/// The text of one of our messages, from the blocks that Slack gives back.
pub fn text_of(blocks: &Value) -> Option<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ours = list(blocks).into_iter().find(|block| block["type"] == "rich_text")?;
    let elements = list(&ours["elements"]).into_iter().flat_map(|section| list(&section["elements"]));
    Some(elements.filter_map(|element| element["text"].as_str().map(str::to_owned)).collect())
}

#[cfg(test)]
mod tests;
