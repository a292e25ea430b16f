//! The state of a bot. Two parts of it are stored: the cursor, with the messages that were read, and the messages that will
//! be edited, as soon as they are sent. All stored text is redacted.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use codex_bridge_core::request::RequestName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::update::Tapped;
use crate::channel::Stored;
use crate::channel::recent::Recent;
use crate::channel::text::{Span, Styled};

/// How long polls stay short after an update.
const ACTIVE_FOR: Duration = Duration::from_mins(1);

/// How long after its last update a bot is read without an offset. After a week without one, Telegram begins anew with random
/// numbers, and updates below an offset are lost.
const OFFSET_AGE_MS: i64 = 3 * 24 * 60 * 60 * 1000;

/// The state of a bot. Only the fields of [`Cursor`] and [`Sent`] survive a restart.
#[derive(Debug, Default)]
pub struct Memory {
    /// Messages with buttons, the oldest first.
    pub request_messages: Vec<RequestMessage>,
    /// Messages that show the progress of turns, by the message that started the turn.
    pub progress_messages: Recent<ProgressMessage>,
    /// Taps that are being decided, by their ids.
    pub taps: HashMap<String, Tapped>,
    /// Groups that became supergroups: the old number and the new one.
    pub moved: BTreeMap<i64, i64>,
    /// Chats with too many messages, and until when they must not be edited.
    pub rate_limited: HashMap<i64, Instant>,
    /// Groups in which progress was edited, and when.
    pub edited_at: HashMap<i64, Instant>,
    /// The bot's user name.
    pub username: String,
    /// When the last update arrived.
    pub last_update_at: Option<Instant>,
    /// Whether the stored cursor was read; later cursors are older than this state.
    is_restored: bool,
}

/// A message with buttons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestMessage {
    /// The chat or topic.
    pub place: String,
    /// The number of the message.
    pub message_id: i64,
    /// The text of the message.
    pub text: String,
    /// The formatting of the text.
    #[serde(default)]
    pub spans: Vec<Span>,
    /// The buttons of the message.
    pub buttons: Value,
    /// The requests in the message that are still open.
    pub requests: Vec<RequestName>,
    /// Whether the message had several requests, so that an outcome has to name its own.
    #[serde(default)]
    pub has_several: bool,
}

impl RequestMessage {
    /// The text with its formatting.
    pub fn shown(&self) -> Styled {
        Styled { text: self.text.clone(), spans: self.spans.clone() }
    }
}

/// A message that shows the progress of a turn.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgressMessage {
    /// The chat or topic.
    pub place: String,
    /// The number of the message; none if sending failed, which is not retried.
    pub message_id: Option<i64>,
    /// The text of the message.
    #[serde(skip)]
    pub text: String,
}

/// How far updates were read; the field names are fixed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Cursor {
    offset: Option<i64>,
    /// The server that numbers the updates; none means Telegram's own.
    server: Option<String>,
    /// When the last update was read.
    read_at: Option<i64>,
}

/// The messages that will be edited; the field names are fixed. Earlier versions kept them in the cursor.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Sent {
    asking: Vec<RequestMessage>,
    shown: Recent<ProgressMessage>,
    moved: BTreeMap<i64, i64>,
}

/// The first update to read, by a stored cursor. None after a long or unknown time and on another server: the numbers may have
/// begun anew. What was read before is confirmed by then, or recognised.
pub fn offset_of(cursor: Option<&str>, server: Option<&str>, now: i64) -> Option<i64> {
    let cursor: Cursor = serde_json::from_str(cursor?).ok()?;
    let is_old = cursor.read_at.is_none_or(|at| now - at > OFFSET_AGE_MS);
    cursor.offset.filter(|_| !is_old && cursor.server.as_deref() == server)
}

/// The cursor behind these updates.
pub fn cursor_behind(updates: &[Value], server: Option<&str>, now: i64) -> Option<String> {
    // Also of updates that lie below the last offset, where their numbers have begun anew.
    let last = updates.iter().filter_map(|update| update["update_id"].as_i64()).max()?;
    let cursor = Cursor { offset: Some(last + 1), server: server.map(str::to_owned), read_at: Some(now) };
    serde_json::to_string(&cursor).ok()
}

impl Memory {
    /// Restores the stored state, once.
    pub fn restore(&mut self, stored: &Stored) {
        if std::mem::replace(&mut self.is_restored, true) {
            return;
        }
        let text = stored.memory.as_ref().or(stored.cursor.as_ref());
        let sent: Sent = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        // Messages that were sent before the channel was served are kept.
        self.request_messages.splice(0..0, sent.asking);
        (self.progress_messages, self.moved) = (sent.shown, sent.moved);
    }

    /// The messages that will be edited, to be stored.
    pub fn sent(&self) -> Option<String> {
        let sent = Sent {
            asking: self.request_messages.clone(),
            shown: self.progress_messages.clone(),
            moved: self.moved.clone(),
        };
        serde_json::to_string(&sent).ok()
    }

    /// Notes that a group became a supergroup. Telegram sends a message about it in both.
    pub fn note_move(&mut self, message: &Value) {
        let chat = message["chat"]["id"].as_i64();
        let to = (chat, message["migrate_to_chat_id"].as_i64());
        let from = (message["migrate_from_chat_id"].as_i64(), chat);
        for moved in [to, from] {
            if let (Some(before), Some(now)) = moved {
                self.moved.insert(before, now);
            }
        }
    }

    /// The number that a chat had first: a conversation of a group continues in its supergroup.
    pub fn original_chat(&self, chat: i64) -> i64 {
        self.moved.iter().find(|(_, now)| **now == chat).map_or(chat, |(before, _)| *before)
    }

    /// Whether a chat got too many messages.
    pub fn is_rate_limited(&mut self, chat: i64) -> bool {
        self.rate_limited.retain(|_, until| *until > Instant::now());
        self.rate_limited.contains_key(&chat)
    }

    /// The present number of a chat.
    pub fn current_chat(&self, chat: i64) -> i64 {
        self.moved.get(&chat).copied().unwrap_or(chat)
    }

    /// Whether the next poll should be short.
    pub fn is_busy(&self) -> bool {
        let is_active = self.last_update_at.is_some_and(|at| at.elapsed() < ACTIVE_FOR);
        is_active || !self.request_messages.is_empty() || !self.progress_messages.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::channel::recent::{self, MAX_ENTRIES};

    #[test]
    fn the_next_life_knows_what_this_one_has_to_edit() {
        let mut memory = Memory::default();
        let message = |message_id| RequestMessage {
            place: "42".into(),
            message_id,
            text: "Codex asks".into(),
            spans: Vec::new(),
            buttons: Value::Null,
            requests: vec!["req-1".into()],
            has_several: false,
        };
        (0..100).for_each(|number| recent::push(&mut memory.request_messages, message(number)));
        let shown = ProgressMessage { place: "42".into(), message_id: Some(7), text: "working".into() };
        memory.progress_messages.insert("in-1", shown);
        memory.moved.insert(-1, -100);
        let mut next = Memory::default();
        next.restore(&Stored { memory: memory.sent(), ..Stored::default() });
        assert_eq!((next.request_messages.len(), next.request_messages[63].message_id), (MAX_ENTRIES, 99));
        let shown = next.progress_messages.get("in-1").and_then(|shown| shown.message_id);
        assert_eq!((shown, next.current_chat(-1), next.current_chat(-2)), (Some(7), -100, -2));
        next.restore(&Stored::default());
        assert_eq!(next.request_messages.len(), MAX_ENTRIES, "later on we know better");
    }

    #[test]
    fn what_an_earlier_version_kept_in_its_cursor_is_known() {
        let cursor = r#"{"offset":8,"asking":[{"place":"42","message_id":9,"text":"Codex asks","buttons":[],
            "requests":["req-1"]}],"shown":{},"moved":{"-1":-100}}"#;
        let mut memory = Memory::default();
        memory.restore(&Stored { cursor: Some(cursor.to_owned()), ..Stored::default() });
        assert_eq!((memory.request_messages[0].message_id, memory.current_chat(-1)), (9, -100));
        assert_eq!(offset_of(Some(cursor), None, 5), None, "nobody knows how long ago that was");
    }

    #[test]
    fn numbers_that_begin_anew_are_taken_over() {
        let updates = |ids: &[i64]| ids.iter().map(|id| json!({ "update_id": id })).collect::<Vec<_>>();
        let cursor = cursor_behind(&updates(&[900, 901]), None, 0).unwrap();
        assert_eq!(offset_of(Some(&cursor), None, 5), Some(902));
        assert_eq!(
            offset_of(Some(&cursor), Some("http://other"), 5),
            None,
            "another server has numbers of its own"
        );
        assert_eq!(offset_of(Some(&cursor), None, OFFSET_AGE_MS + 1), None, "after a week they are random");
        let lower = cursor_behind(&updates(&[3, 4]), None, 5).unwrap();
        assert_eq!(offset_of(Some(&lower), None, 5), Some(5));
        assert_eq!(cursor_behind(&[], None, 5), None);
        assert_eq!(offset_of(Some("nonsense"), None, 5), None);
    }
}
