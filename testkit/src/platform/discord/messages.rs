//! Messages of Discord's: what the API refuses, and what it tells of those that it took.

use serde_json::{Value, json};

use super::super::Answer;
use super::markup::{Shown, shown};

/// The longest content, in characters.
const MAX_CHARS: usize = 2_000;
/// The flags that a bot may set: no previews, no sound, components of the second version.
const ALLOWED_FLAGS: u64 = 1 << 2 | 1 << 12 | 1 << 15;

/// A message of the bot's, as people see it now.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    /// Its id.
    pub id: u64,
    /// The channel or thread.
    pub channel: u64,
    /// Its content, with all marks.
    pub content: String,
    /// What people read.
    pub text: String,
    /// The formatting of the text: its kind, and the text that has it.
    pub marks: Vec<(&'static str, String)>,
    /// Its rows of buttons.
    pub components: Value,
    /// The name and the content of a file.
    pub file: Option<(String, String)>,
    /// Which message it answers.
    pub answers: Option<u64>,
    /// How often it was edited.
    pub edits: usize,
    /// What it is recognised by.
    pub nonce: Option<String>,
}

impl Said {
    /// Sets the content, as the API keeps it.
    pub(super) fn set_content(&mut self, content: &str) {
        content.trim().clone_into(&mut self.content);
        let Shown { text, marks } = shown(&self.content);
        (self.text, self.marks) = (text, marks);
    }

    /// The texts with formatting of this kind.
    pub fn styled(&self, kind: &str) -> Vec<&str> {
        self.marks.iter().filter(|(of, _)| *of == kind).map(|(_, text)| text.as_str()).collect()
    }

    /// The `custom_id` of the button with this label.
    pub fn button(&self, label: &str) -> Option<String> {
        let mut all = buttons(&self.components);
        all.find(|button| button["label"] == label)?["custom_id"].as_str().map(str::to_owned)
    }

    /// As the API tells of it.
    pub(super) fn message(&self, bot: &Value) -> Value {
        let file = self.file.as_ref().map(|(name, content)| json!({
            "id": self.id.to_string(), "filename": name, "size": content.len(), "url": "https://cdn.example/x",
            "proxy_url": "https://cdn.example/x", "content_type": "text/plain; charset=utf-8",
        }));
        let mut message = message(self.id, self.channel, bot, &self.content);
        message["attachments"] = file.into_iter().collect();
        message["components"] = self.components.clone();
        if self.edits > 0 {
            message["edited_timestamp"] = timestamp(now_ms()).into();
        }
        if let Some(answered) = self.answers {
            message["type"] = 19.into();
            message["message_reference"] = json!({ "type": 0, "message_id": answered.to_string(), "channel_id": self.channel.to_string() });
        }
        if let Some(nonce) = &self.nonce {
            message["nonce"] = nonce.as_str().into();
        }
        message
    }
}

fn buttons(components: &Value) -> impl Iterator<Item = &Value> {
    let rows = components.as_array().into_iter().flatten();
    rows.flat_map(|row| row["components"].as_array().into_iter().flatten())
}

/// A plain message.
pub fn message(id: u64, channel: u64, author: &Value, content: &str) -> Value {
    json!({
        "id": id.to_string(), "channel_id": channel.to_string(), "type": 0, "author": author, "content": content,
        "timestamp": timestamp(now_ms()), "edited_timestamp": null, "tts": false, "mention_everyone": false,
        "mentions": [], "mention_roles": [], "attachments": [], "embeds": [], "pinned": false, "components": [], "flags": 0,
    })
}

/// An error of the API.
pub fn refusal(status: u16, code: u64, message: &str) -> Answer {
    Answer::json(status, json!({ "message": message, "code": code }))
}

fn invalid(what: &str) -> Answer {
    refusal(400, 50035, &format!("Invalid Form Body: {what}"))
}

/// Why the API does not take a message, or an edit of one.
pub fn wrong(body: &Value, has_file: bool) -> Option<Answer> {
    let content = body["content"].as_str().unwrap_or_default();
    if content.chars().count() > MAX_CHARS {
        return Some(invalid("content: Must be 2000 or fewer in length."));
    }
    if content.trim().is_empty() && !has_file {
        return Some(refusal(400, 50006, "Cannot send an empty message"));
    }
    if body["flags"].as_u64().is_some_and(|flags| flags & !ALLOWED_FLAGS != 0) {
        return Some(invalid("flags: cannot be set"));
    }
    if body["nonce"].as_str().is_some_and(|nonce| nonce.chars().count() > 25) {
        return Some(invalid("nonce: Must be 25 or fewer in length."));
    }
    wrong_components(&body["components"])
}

fn wrong_components(components: &Value) -> Option<Answer> {
    let Some(rows) = components.as_array() else {
        return if components.is_null() {
            None
        } else {
            Some(invalid("components: Only a list may be used."))
        };
    };
    if rows.len() > 5 {
        return Some(invalid("components: Must be 5 or fewer in length."));
    }
    for row in rows {
        let count = row["components"].as_array().map_or(0, Vec::len);
        if row["type"] != 1 || !(1..=5).contains(&count) {
            return Some(invalid("components: a row has one to five buttons."));
        }
    }
    let length = |button: &Value, key: &str| button[key].as_str().map_or(0, |text| text.chars().count());
    let is_wrong = |button: &Value| {
        button["type"] != 2
            || !button["style"].as_u64().is_some_and(|style| (1..=4).contains(&style))
            || !(1..=80).contains(&length(button, "label"))
            || !(1..=100).contains(&length(button, "custom_id"))
    };
    if buttons(components).any(is_wrong) {
        return Some(invalid("components: BASE_TYPE_BAD_LENGTH"));
    }
    let mut ids: Vec<&str> = buttons(components).filter_map(|button| button["custom_id"].as_str()).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    if ids.len() == count { None } else { Some(invalid("components: COMPONENT_CUSTOM_ID_DUPLICATED")) }
}

/// Whom a message would notify, if it does not say that nobody is to be.
pub fn notifies(body: &Value) -> bool {
    let content = shown(body["content"].as_str().unwrap_or_default());
    let raw = body["content"].as_str().unwrap_or_default();
    let names_all = raw.contains("@everyone") || raw.contains("@here");
    let names = names_all || raw.contains("<@") || !content.of_kind("mention").is_empty();
    let allowed = &body["allowed_mentions"];
    let parses = allowed["parse"].as_array().is_none_or(|kinds| !kinds.is_empty());
    let pings_author = body["message_reference"].is_object() && allowed["replied_user"] != false;
    (names && parses) || pings_author
}

/// What a form with a file was given: its message, and the file.
pub fn form(body: &str) -> Option<(Value, Option<(String, String)>)> {
    let boundary = body.strip_prefix("--")?.split("\r\n").next()?;
    let (mut message, mut file) = (Value::Null, None);
    for part in body.split(&format!("--{boundary}")).filter(|part| part.starts_with("\r\n")) {
        let (headers, content) = part.trim_start_matches("\r\n").split_once("\r\n\r\n")?;
        let content = content.strip_suffix("\r\n").unwrap_or(content);
        let named = |key: &str| headers.split(&format!(" {key}=\"")).nth(1)?.split('"').next();
        match (named("name")?, named("filename")) {
            ("payload_json", _) => message = serde_json::from_str(content).ok()?,
            (name, Some(file_name)) if name.starts_with("files[") => {
                file = Some((file_name.to_owned(), content.to_owned()));
            }
            _ => return None,
        }
    }
    Some((message, file))
}

/// The milliseconds since 1970.
pub fn now_ms() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    u64::try_from(now.as_millis()).expect("before long")
}

/// A time as the API writes it.
pub fn timestamp(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // From days to a date: years begin in March, and have a cycle of 400.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second, milli) =
        (rest / 3_600_000, rest / 60_000 % 60, rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}000+00:00")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_a_date() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000000+00:00");
        assert_eq!(timestamp(1_709_210_096_789), "2024-02-29T12:34:56.789000+00:00");
    }

    #[test]
    fn a_name_in_a_message_notifies_unless_it_says_that_it_must_not() {
        let body = |content: &str| json!({ "content": content });
        assert!(notifies(&body("hi @everyone")) && notifies(&body("<@42>")) && !notifies(&body("hi")));
        let quiet = json!({ "content": "@everyone", "allowed_mentions": {"parse": []} });
        assert!(!notifies(&quiet));
    }
}
