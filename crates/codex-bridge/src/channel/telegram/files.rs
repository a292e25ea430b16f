//! Files of Telegram's messages: which there are, and which of them Codex might read. Pure.

use codex_bridge_core::inbox::Attachment;
use codex_bridge_core::inbox::attachment::FILE_BYTES;
use serde_json::Value;

use crate::channel::attachments::{at_source, speech_at_source, unreadable};

/// What is attached to a message without being a file that Codex might read, and why.
const UNREADABLE: [(&str, &str, &str); 7] = [
    // A film without sound. It is told of as a document too.
    ("animation", "animation", "it is a video"),
    ("video", "video", "videos are not read here"),
    ("video_note", "video message", "videos are not read here"),
    ("sticker", "sticker", "stickers are not read here"),
    ("location", "location", "locations are not read here"),
    ("contact", "contact", "contacts are not read here"),
    ("poll", "poll", "polls are not read here"),
];

/// What is attached to a message.
pub fn of(message: &Value) -> Option<Attachment> {
    if let Some((key, kind, why)) = UNREADABLE.iter().find(|(key, ..)| message.get(*key).is_some()) {
        return Some(unreadable(Some(kind), message[*key]["file_name"].as_str(), why));
    }
    if let Some(sizes) = message["photo"].as_array() {
        return Some(photo(sizes));
    }
    if let Some(document) = message.get("document") {
        return Some(fetched(document, "file", at_source));
    }
    let (recording, kind) = message
        .get("voice")
        .map(|voice| (voice, "voice message"))
        .or_else(|| message.get("audio").map(|audio| (audio, "recording")))?;
    Some(fetched(recording, kind, speech_at_source))
}

fn fetched(
    file: &Value,
    kind: &str,
    attachment: fn(&str, &str, &str, Option<u64>) -> Attachment,
) -> Attachment {
    let name = file["file_name"].as_str().unwrap_or_default();
    match file["file_id"].as_str() {
        Some(id) => attachment(kind, name, id, file["file_size"].as_u64()),
        None => unreadable(Some(kind), Some(name), "Telegram does not say where it is"),
    }
}

/// A photo comes in several sizes: the largest that may be taken.
fn photo(sizes: &[Value]) -> Attachment {
    let bytes = |size: &Value| size["file_size"].as_u64();
    let pixels = |size: &&Value| {
        let side = |key: &str| size[key].as_u64().unwrap_or_default();
        side("width").saturating_mul(side("height"))
    };
    let fits = |size: &&Value| bytes(size).unwrap_or_default() <= FILE_BYTES;
    let best = sizes.iter().filter(fits).max_by_key(pixels).or(sizes.first());
    fetched(best.unwrap_or(&Value::Null), "photo", at_source)
}

/// The path of a file on the server, made safe to be part of an address. A server of one's own may give the path of a file of
/// its machine, which is none of ours to read.
pub fn safe_path(path: &str) -> Option<&str> {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '/' | '_' | '-' | '.');
    let is_safe = !path.is_empty()
        && path.len() <= 512
        && path.chars().all(is_plain)
        && path.split('/').all(|part| !part.is_empty() && !part.starts_with('.'));
    is_safe.then_some(path)
}

#[cfg(test)]
mod tests {
    use codex_bridge_core::inbox::Content;
    use serde_json::json;

    use super::*;

    fn shown(message: &Value) -> String {
        let Attachment { kind, name, content } = of(message).unwrap();
        format!("{kind} {name:?} {content:?}")
    }

    #[test]
    fn the_largest_photo_that_may_be_taken_is_fetched() {
        let size = |id: &str, side: u64, bytes: u64| json!({"file_id": id, "width": side, "height": side, "file_size": bytes});
        let photo = json!({"photo": [size("s", 90, 1_000), size("l", 1280, 90_000), size("xl", 9000, FILE_BYTES + 1)]});
        assert_eq!(shown(&photo), "photo \"\" AtSource(l, Some(90000))");
        let large = json!({"photo": [size("xl", 9000, FILE_BYTES + 1)]});
        assert!(shown(&large).contains("AtSource(xl, Some(10485761))"), "it is refused by its size");
    }

    #[test]
    fn other_files_are_what_they_are_called() {
        let file = json!({"file_id": "f", "file_name": "a.txt", "file_size": 3});
        assert_eq!(shown(&json!({"document": file})), "file \"a.txt\" AtSource(f, Some(3))");
        let voice = of(&json!({"voice": {"file_id": "v"}})).unwrap();
        assert!(matches!(voice.content, Content::AtSource { is_speech: true, bytes: None, .. }));
        let both = json!({"animation": file, "document": file});
        assert_eq!(shown(&both), "animation \"a.txt\" Unreadable(\"it is a video\")");
        assert_eq!(
            shown(&json!({"document": {}})),
            "file \"\" Unreadable(\"Telegram does not say where it is\")"
        );
        assert_eq!(of(&json!({"text": "x"})), None);
    }

    #[test]
    fn a_path_stays_below_the_address_of_the_bot() {
        assert_eq!(safe_path("photos/file_0.jpg"), Some("photos/file_0.jpg"));
        for path in ["", "/etc/passwd", "../x", "a/../b", "a//b", "a?b", "a%2e", "a b", "a/.b", "http://x/y"]
        {
            assert_eq!(safe_path(path), None, "{path}");
        }
    }
}
