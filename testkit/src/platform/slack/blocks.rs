//! Block Kit as Slack checks and shows it.

use serde_json::Value;

/// The most characters of all blocks together.
const MOST_CHARS: usize = 12_000;

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text_within(value: &Value, most: usize) -> bool {
    value.as_str().is_some_and(|text| (1..=most).contains(&text.chars().count()))
}

/// Slack's word for what is wrong with blocks, if anything is.
pub fn wrong(blocks: &Value) -> Option<&'static str> {
    let all = list(blocks);
    if all.len() > 50 || !all.iter().all(is_right) {
        return Some("invalid_blocks");
    }
    let mut ids: Vec<&Value> =
        all.iter().flat_map(|block| list(&block["elements"])).map(|one| &one["action_id"]).collect();
    ids.retain(|id| id.is_string());
    let count = ids.len();
    ids.sort_by_key(|id| id.as_str());
    ids.dedup();
    if ids.len() < count {
        return Some("invalid_blocks");
    }
    (shown(blocks).chars().count() > MOST_CHARS).then_some("msg_blocks_too_long")
}

fn is_right(block: &Value) -> bool {
    let elements = list(&block["elements"]);
    match block["type"].as_str() {
        Some("rich_text") => !elements.is_empty() && elements.iter().all(is_right_part),
        Some("actions") => (1..=25).contains(&elements.len()) && elements.iter().all(is_right_button),
        Some("section") => text_within(&block["text"]["text"], 3_000),
        _ => false,
    }
}

fn is_right_part(part: &Value) -> bool {
    let elements = list(&part["elements"]);
    let is_right = |element: &Value| {
        let is_plain = part["type"] == "rich_text_section" || element["style"].is_null();
        let styles = element["style"].as_object();
        let is_styled = styles.is_none_or(|styles| {
            styles.iter().all(|(name, is_set)| {
                ["bold", "italic", "strike", "code"].contains(&name.as_str()) && is_set.is_boolean()
            })
        });
        let is_known = match element["type"].as_str() {
            Some("text") => text_within(&element["text"], MOST_CHARS),
            Some("link") => {
                let url = element["url"].as_str().unwrap_or_default();
                let has_scheme =
                    ["https://", "http://", "mailto:"].iter().any(|start| url.starts_with(start));
                has_scheme && !url.contains(char::is_whitespace)
            }
            _ => false,
        };
        is_plain && is_styled && is_known
    };
    let is_known = part["type"] == "rich_text_section" || part["type"] == "rich_text_preformatted";
    is_known && !elements.is_empty() && elements.iter().all(is_right)
}

fn is_right_button(button: &Value) -> bool {
    button["type"] == "button"
        && button["text"]["type"] == "plain_text"
        && text_within(&button["text"]["text"], 75)
        && text_within(&button["value"], 2_000)
        && text_within(&button["action_id"], 255)
        && (button["style"].is_null() || button["style"] == "primary" || button["style"] == "danger")
}

/// The blocks as people read them. Each part is a paragraph of its own: a line break at its end is not seen.
pub fn shown(blocks: &Value) -> String {
    let part = |part: &Value| {
        let text: String =
            list(&part["elements"]).iter().filter_map(|element| element["text"].as_str()).collect();
        text.strip_suffix('\n').map(str::to_owned).unwrap_or(text)
    };
    let texts = list(blocks).iter().filter_map(|block| match block["type"].as_str()? {
        "rich_text" => Some(list(&block["elements"]).iter().map(part).collect::<Vec<_>>().join("\n")),
        "section" => block["text"]["text"].as_str().map(str::to_owned),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// The texts with a style.
pub fn styled(blocks: &Value, style: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in list(blocks).iter().flat_map(|block| list(&block["elements"])) {
        let is_block = part["type"] == "rich_text_preformatted" && style == "preformatted";
        let elements = list(&part["elements"]).iter().filter(|one| is_block || one["style"][style] == true);
        found.extend(
            elements
                .filter_map(|one| one["text"].as_str().map(|text| text.trim_end_matches('\n').to_owned())),
        );
    }
    found
}
