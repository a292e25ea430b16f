//! What a chat platform's channel remembers. The messages that will be edited are stored as soon as they are sent; the rest
//! is forgotten at a restart. All stored text is redacted.

use std::collections::HashMap;
use std::time::Instant;

use codex_bridge_core::inbox::command::Command;
use codex_bridge_core::inbox::{About, Arrival};
use codex_bridge_core::request::RequestName;
use codex_bridge_core::task::TimeMs;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Keyboard, Tapped};
use crate::channel::Stored;
use crate::channel::recent::{self, Recent};
use crate::channel::text::{Span, Styled};

/// How long somebody may take to write a comment.
const COMMENT_MS: TimeMs = 10 * 60 * 1000;
/// How far the clock of a platform may be behind ours. Some platforms count only whole seconds.
const CLOCK_MS: TimeMs = 5_000;

/// What a channel remembers.
#[derive(Debug, Default)]
pub struct Memory {
    /// Messages with buttons, the oldest first.
    pub request_messages: Vec<RequestMessage>,
    /// Messages that show the progress of turns, by the message that started the turn.
    pub progress_messages: Recent<ProgressMessage>,
    /// Comments that people were asked for, by place and person.
    pub comments: Recent<AwaitedComment>,
    /// The authors of comments that are not stored yet, by message.
    given_comments: HashMap<String, String>,
    /// Taps that are being decided, by their ids.
    pub taps: HashMap<String, Tapped>,
    /// Places in which progress was edited, and when.
    pub edited_at: HashMap<String, Instant>,
    /// Whether the stored memory was read; what is stored later is older than this.
    is_restored: bool,
}

/// A message with the buttons of a request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(from = "StoredMessage")]
pub struct RequestMessage {
    /// The place.
    pub place: String,
    /// The platform's id of the message.
    pub message_id: String,
    /// The text of the message.
    pub text: String,
    /// The formatting of the text.
    pub spans: Vec<Span>,
    /// The buttons of the message.
    pub keyboard: Keyboard,
    /// The request, which is still open.
    pub request: RequestName,
}

impl RequestMessage {
    /// The text with its formatting.
    pub fn shown(&self) -> Styled {
        Styled { text: self.text.clone(), spans: self.spans.clone() }
    }
}

/// A comment that somebody was asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwaitedComment {
    request: RequestName,
    at: TimeMs,
}

fn author(place: &str, sender_id: &str) -> String {
    format!("{place}/{sender_id}")
}

/// A message that shows the progress of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// The place.
    pub place: String,
    /// The platform's id of the message; none if sending failed, which is not retried.
    pub message_id: Option<MessageNumber>,
    /// The text of the message.
    #[serde(skip)]
    pub text: String,
}

/// A platform's id of a message. Earlier versions stored Telegram's as numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "NumberOrText")]
pub struct MessageNumber(pub String);

#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(i64),
    Text(String),
}

impl From<NumberOrText> for MessageNumber {
    fn from(id: NumberOrText) -> Self {
        match id {
            NumberOrText::Number(number) => Self(number.to_string()),
            NumberOrText::Text(text) => Self(text),
        }
    }
}

/// A message with buttons as it is stored; the field names are fixed.
#[derive(Deserialize)]
struct StoredMessage {
    place: String,
    message_id: MessageNumber,
    text: String,
    #[serde(default)]
    spans: Vec<Span>,
    #[serde(alias = "buttons")]
    keyboard: Keyboard,
    #[serde(default)]
    request: Option<RequestName>,
    /// Of earlier versions, whose messages had several requests.
    #[serde(default)]
    requests: Vec<RequestName>,
}

impl From<StoredMessage> for RequestMessage {
    fn from(stored: StoredMessage) -> Self {
        let StoredMessage { place, message_id, text, spans, keyboard, request, requests } = stored;
        let request = request.or(requests.into_iter().next()).unwrap_or_else(|| "".into());
        Self { place, message_id: message_id.0, text, spans, keyboard, request }
    }
}

/// What is stored; the field names are fixed. Earlier versions of Telegram's channel had it in the cursor, with `moved`.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Sent {
    asking: Vec<RequestMessage>,
    shown: Recent<ProgressMessage>,
    comments: Recent<AwaitedComment>,
    /// The platform's own notes.
    notes: Value,
    #[serde(skip_serializing)]
    moved: Value,
}

impl Memory {
    /// Restores what is stored, the first time. Returns the platform's own notes.
    pub fn restore(&mut self, stored: &Stored) -> Value {
        // Taps without a stored decision come again; for the others the bridge answers that the request is decided.
        self.taps.clear();
        if std::mem::replace(&mut self.is_restored, true) {
            return Value::Null;
        }
        let text = stored.memory.as_ref().or(stored.cursor.as_ref());
        let sent: Sent = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        // Messages that were sent before the channel was served are kept.
        self.request_messages.splice(0..0, sent.asking);
        (self.progress_messages, self.comments) = (sent.shown, sent.comments);
        if sent.notes.is_null() { serde_json::json!({ "moved": sent.moved }) } else { sent.notes }
    }

    /// What has to be stored.
    pub fn to_stored(&self, notes: Value) -> Option<String> {
        let (asking, shown) = (self.request_messages.clone(), self.progress_messages.clone());
        let comments = self.comments.clone();
        serde_json::to_string(&Sent { asking, shown, comments, notes, moved: Value::Null }).ok()
    }

    /// The request that a message is about: the one in our message to which it replies, or the one on which its author was
    /// asked for a comment.
    pub fn request_of(&mut self, arrival: &Arrival, replies_to: Option<&str>) -> Option<About> {
        let place = arrival.conversation.as_str();
        if Command::parse(&arrival.text).is_some() || arrival.context.edits.is_some() {
            return None;
        }
        let is_it = |one: &&RequestMessage| one.place == place && Some(one.message_id.as_str()) == replies_to;
        let answered = self.request_messages.iter().find(is_it).map(|one| one.request.clone());
        let author = author(place, &arrival.sender.id);
        let asked = self.comments.get(&author).map(|asked| asked.request.clone());
        let is_comment = answered.is_none() || answered == asked;
        if let Some(request) = asked.filter(|_| is_comment && self.is_awaited(&author, arrival)) {
            self.given_comments.insert(arrival.external_id.clone(), author);
            return Some(About::Comment(request));
        }
        answered.map(About::Reply)
    }

    /// Whether a message is the one with the comment that its author was asked for: the first that was written since.
    fn is_awaited(&self, author: &str, arrival: &Arrival) -> bool {
        let is_in_time = self
            .comments
            .get(author)
            .is_some_and(|asked| (asked.at - CLOCK_MS..asked.at + COMMENT_MS).contains(&arrival.sent_at));
        let is_first = |(given, of): (&String, &String)| of != author || *given == arrival.external_id;
        is_in_time && self.given_comments.iter().all(is_first)
    }

    /// Forgets the comments on a request that is decided.
    pub fn forget_comments_on(&mut self, request: &RequestName) {
        self.comments.retain(|asked| asked.request != *request);
    }

    /// Forgets that a comment was asked for, once the message with it is stored.
    pub fn note_stored(&mut self, external_id: &str) {
        if let Some(author) = self.given_comments.remove(external_id) {
            self.comments.remove(&author);
        }
    }

    /// Remembers that the next message of this person in this place is a comment on a request.
    pub fn await_comment(&mut self, place: &str, sender_id: &str, request: RequestName, now: TimeMs) {
        let author = author(place, sender_id);
        self.given_comments.retain(|_, of| *of != author);
        self.comments.insert(&author, AwaitedComment { request, at: now });
    }

    /// Remembers a message with buttons.
    pub fn note_request(&mut self, message: RequestMessage) {
        recent::push(&mut self.request_messages, message);
    }
}
