//! Telegram's Bot API (10.3): a bot's methods, its chats, and the meaning of replies to `sendMessage`. Formatting is sent as
//! entities beside the text, never as a parse mode, which could fail. No link previews.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use codex_bridge_core::inbox::attachment::FILE_BYTES;
use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use serde::Deserialize;
use serde_json::{Value, json};

use super::files::safe_path;
use crate::channel::http::{self, Call, DownloadError, Reply};
use crate::channel::text::{Limit, Limits, Span, Style, Styled};

/// Telegram's own server.
pub const API: &str = "https://api.telegram.org";
/// The limits of a message.
pub const LIMITS: Limits = Limits { text: Limit::Utf16(4096), spans: 100 };
/// The longest address of a link, in bytes.
const LINK_BYTES: usize = 2_000;

/// A client for a bot's methods.
pub struct Bot {
    /// The address of the bot's methods, which contains the token.
    base: String,
    /// The address of the bot's files, which contains the token too.
    files: String,
    id: String,
}

impl fmt::Debug for Bot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bot").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Bot {
    /// The bot of a token, at Telegram's own server or another.
    pub fn new(token: &str, api_base: Option<&str>) -> Result<Self, String> {
        if token.is_empty() || !token.chars().all(|char| char.is_ascii_alphanumeric() || ":_-".contains(char))
        {
            return Err("the token is not a Telegram token; it looks like 123456:ABC-DEF".to_owned());
        }
        let base = api_base.unwrap_or(API).trim_end_matches('/');
        let id = token.split(':').next().unwrap_or_default().to_owned();
        Ok(Self { base: format!("{base}/bot{token}"), files: format!("{base}/file/bot{token}"), id })
    }

    /// The bot's number, which is no secret.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Calls a method.
    pub async fn call(&self, method: &str, body: &Value) -> Result<Reply, http::Error> {
        Call::post(format!("{}/{method}", self.base), body).send().await
    }

    /// Downloads a file, by the id that a message gives it.
    pub async fn download(&self, file_id: &str) -> Result<Vec<u8>, DownloadError> {
        let found = self.call("getFile", &json!({ "file_id": file_id })).await;
        let found = found.map_err(DownloadError::Unreachable)?;
        if found.body["ok"] != true {
            // Telegram gives bots no file above 20 MB.
            let described = found.body["description"].as_str().unwrap_or_default();
            let is_large = described.contains("file is too big");
            return Err(if is_large { DownloadError::TooLarge } else { DownloadError::Status(found.status) });
        }
        let file = &found.body["result"];
        if file["file_size"].as_u64().is_some_and(|bytes| bytes > FILE_BYTES) {
            return Err(DownloadError::TooLarge);
        }
        let path = file["file_path"].as_str().and_then(safe_path);
        let path = path.ok_or_else(|| DownloadError::Refused("the server does not give it".to_owned()))?;
        Call::get(format!("{}/{path}", self.files)).download(FILE_BYTES).await
    }

    /// Sends a text as a file.
    pub async fn send_file(
        &self,
        fields: &[(&str, String)],
        name: &str,
        text: &str,
    ) -> Result<Reply, http::Error> {
        let url = format!("{}/sendDocument", self.base);
        Call::post_file(url, fields, ("document", name), text).send().await
    }

    /// Polls for a list, with a timeout of its own.
    pub async fn list(&self, method_and_query: &str, timeout: Duration) -> Result<Reply, http::Error> {
        Call { timeout, ..Call::get(format!("{}/{method_and_query}", self.base)) }.send().await
    }
}

/// A Telegram chat: a number or an `@name`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Chat {
    /// The chat's number.
    Number(i64),
    /// The chat's name.
    Name(String),
}

impl fmt::Display for Chat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

/// A chat, or a topic in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The chat.
    pub chat: Chat,
    /// The topic, if any.
    pub topic: Option<i64>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.topic {
            Some(topic) => write!(f, "{}:{topic}", self.chat),
            None => self.chat.fmt(f),
        }
    }
}

impl Place {
    /// Parses `CHAT` or `CHAT:TOPIC`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (chat, topic) = text.split_once(':').map_or((text, None), |(chat, topic)| (chat, Some(topic)));
        let number = chat.parse().map(Chat::Number);
        Ok(Self {
            chat: number.unwrap_or_else(|_| Chat::Name(chat.to_owned())),
            topic: topic.map(|topic| topic.parse().map_err(|_| "a thread is a number")).transpose()?,
        })
    }

    /// Whether others than one person read the place.
    pub fn is_shared(&self) -> bool {
        !matches!(self.chat, Chat::Number(chat) if chat > 0)
    }

    /// The body of `sendMessage`.
    pub fn message(&self, text: &Styled) -> Value {
        let chat: Value = match &self.chat {
            Chat::Number(number) => (*number).into(),
            Chat::Name(name) => name.as_str().into(),
        };
        let mut body = content(text, self.is_shared());
        body["chat_id"] = chat;
        if let Some(topic) = self.topic {
            body["message_thread_id"] = topic.into();
        }
        body
    }
}

/// The text of a message with its formatting. Where others read it, words behind `@` are code, so that nobody is notified.
pub fn content(text: &Styled, is_shared: bool) -> Value {
    let mentions = if is_shared { mentions(text) } else { Vec::new() };
    let entities = if mentions.len() > LIMITS.spans {
        let all = Span { range: 0..text.text.len(), style: Style::Code };
        vec![entity(&text.text, &all.range, &all.style)]
    } else {
        entities(text, &mentions)
    };
    json!({ "text": text.text, "entities": entities, "link_preview_options": { "is_disabled": true } })
}

/// The names behind `@` outside of code, as code.
fn mentions(text: &Styled) -> Vec<Span> {
    let is_of_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let is_code = |at: usize| text.spans.iter().any(|span| span.style.is_code() && span.range.contains(&at));
    let names = text.text.match_indices('@').filter_map(|(at, _)| {
        let name = &text.text[at + 1..];
        let length = name.find(|char| !is_of_name(char)).unwrap_or(name.len());
        (length > 0 && !is_code(at)).then(|| Span { range: at..at + 1 + length, style: Style::Code })
    });
    names.collect()
}

/// Formatting as entities, whose places are counted in UTF-16. Telegram allows no other entity within code, and takes no more
/// than a message may have; of those the mentions come first.
fn entities(text: &Styled, mentions: &[Span]) -> Vec<Value> {
    let spans = || mentions.iter().chain(&text.spans);
    let code: Vec<&Span> = spans().filter(|span| span.style.is_code()).collect();
    let mut entities = Vec::new();
    for span in spans() {
        let mut pieces = vec![span.range.clone()];
        for other in code.iter().filter(|_| !span.style.is_code()) {
            pieces = pieces.into_iter().flat_map(|piece| without(&piece, &other.range)).collect();
        }
        entities.extend(pieces.into_iter().map(|piece| entity(&text.text, &piece, &span.style)));
    }
    entities.truncate(LIMITS.spans);
    entities
}

/// What is left of a range without another one.
fn without(range: &Range<usize>, other: &Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
    let before = range.start..range.end.min(other.start);
    let behind = range.start.max(other.end)..range.end;
    [before, behind].into_iter().filter(|piece| piece.start < piece.end)
}

fn entity(text: &str, range: &Range<usize>, style: &Style) -> Value {
    let units = |text: &str| text.encode_utf16().count();
    let mut entity = json!({ "offset": units(&text[..range.start]), "length": units(&text[range.clone()]) });
    entity["type"] = match style {
        Style::Bold => "bold",
        Style::Italic => "italic",
        Style::Struck => "strikethrough",
        Style::Code => "code",
        Style::Block { .. } => "pre",
        Style::Link(_) => "text_link",
    }
    .into();
    match style {
        Style::Link(address) => entity["url"] = address.chars().take(LINK_BYTES).collect::<String>().into(),
        Style::Block { language: Some(language) } => entity["language"] = language.as_str().into(),
        _ => {}
    }
    entity
}

/// Parses a place with a numeric chat, and returns the number too.
pub fn numeric_place(place: &str) -> Result<(i64, Place), String> {
    let place = Place::parse(place)?;
    match place.chat {
        Chat::Number(chat) => Ok((chat, place)),
        Chat::Name(_) => Err("a place is CHAT or CHAT:TOPIC, both numbers".to_owned()),
    }
}

/// The meaning of a reply to `sendMessage`.
pub fn outcome(reply: &Reply) -> Outcome {
    if reply.body["ok"] == true {
        let id = &reply.body["result"]["message_id"];
        return Outcome::delivered(id.as_i64().map(|id| id.to_string()));
    }
    let described = reply.body["description"].as_str().unwrap_or("without a reason");
    let error = format!("Telegram answered {}: {described}", reply.status);
    match reply.status {
        429 => Outcome::failed(retry_after(reply).map_or(Refusal::Later, Refusal::NotBefore), error),
        // Blocked, kicked, or no such chat.
        403 => Outcome::failed(Refusal::Gone, error),
        400 if described.contains("chat not found") => Outcome::failed(Refusal::Gone, error),
        // A group that became a supergroup has a new number, which the operator has to configure.
        400 => Outcome::failed(Refusal::Never, migrated(reply, error)),
        // The token may be corrected meanwhile.
        401 | 404 => Outcome::failed(Refusal::Later, error),
        _ => reply.refusal(),
    }
}

/// The pause that Telegram asks for, if any.
pub fn retry_after(reply: &Reply) -> Option<Duration> {
    let wait = reply.body["parameters"]["retry_after"].as_u64().map(Duration::from_secs);
    wait.or(reply.retry_after)
}

fn migrated(reply: &Reply, error: String) -> String {
    match reply.body["parameters"]["migrate_to_chat_id"].as_i64() {
        Some(chat) => format!("{error}; the group's number is {chat} now"),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &Styled, is_shared: bool) -> Vec<(String, String)> {
        let body = content(text, is_shared);
        let units: Vec<u16> = text.text.encode_utf16().collect();
        let read = |entity: &Value| {
            let number = |key: &str| usize::try_from(entity[key].as_u64().unwrap()).unwrap();
            let text = &units[number("offset")..number("offset") + number("length")];
            (entity["type"].as_str().unwrap().to_owned(), String::from_utf16(text).unwrap())
        };
        body["entities"].as_array().unwrap().iter().map(read).collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(kind, text)| ((*kind).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn code_cuts_other_formatting_in_pieces() {
        let text = Styled::markdown("𝄞 **see `x` there**");
        assert_eq!(shown(&text, false), pairs(&[("bold", "see "), ("bold", " there"), ("code", "x")]));
    }

    #[test]
    fn where_others_read_no_name_notifies_anybody() {
        let text = Styled::markdown("**@ada_l** and `@bob`");
        assert_eq!(shown(&text, true), pairs(&[("code", "@ada_l"), ("code", "@bob")]));
        assert_eq!(shown(&text, false), pairs(&[("bold", "@ada_l"), ("code", "@bob")]));
        let styled = Styled::markdown(&"**x** ".repeat(200));
        let mut text = styled;
        text.push("@ada_l");
        assert_eq!(shown(&text, true)[0].1, "@ada_l", "before all that is only pretty");
        let many = Styled::from("@ada_l ".repeat(150).as_str());
        assert_eq!(shown(&many, true).len(), 1);
    }
}
