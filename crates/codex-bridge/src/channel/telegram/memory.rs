//! The state of a bot. The offset, the messages with buttons and the messages that show progress are stored as the cursor,
//! so that they can be edited after a restart. All stored text is redacted.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use codex_bridge_core::outbox::Attempt;
use codex_bridge_core::request::RequestName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::update::Tapped;
use crate::channel::recent::Recent;

/// How long polls stay short after an update.
const ACTIVE_FOR: Duration = Duration::from_mins(1);

/// The state of a bot. Only the fields of [`Cursor`] survive a restart.
#[derive(Debug, Default)]
pub struct Memory {
    /// The next update to read.
    pub offset: Option<i64>,
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
    /// Deliveries of several messages that are not complete, by their ids.
    pub parts_sent: Recent<PartsSent>,
    /// The bot's user name.
    pub username: String,
    /// When the last update arrived.
    pub last_update_at: Option<Instant>,
    /// Whether the stored cursor was read; later cursors are older than this state.
    is_restored: bool,
}

/// How many messages of a delivery were sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartsSent {
    /// Messages that were sent.
    pub sent: usize,
    /// Messages that may have been sent; they are marked as possible duplicates when they are sent again.
    pub in_doubt: usize,
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
    /// The buttons of the message.
    pub buttons: Value,
    /// The requests in the message that are still open.
    pub requests: Vec<RequestName>,
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

/// The stored part of the state; its field names are fixed.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Cursor {
    offset: Option<i64>,
    asking: Vec<RequestMessage>,
    shown: Recent<ProgressMessage>,
    moved: BTreeMap<i64, i64>,
}

impl Memory {
    /// Restores the stored state, once.
    pub fn restore(&mut self, cursor: Option<&str>) {
        if std::mem::replace(&mut self.is_restored, true) {
            return;
        }
        let cursor: Cursor = cursor.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        (self.offset, self.request_messages) = (cursor.offset, cursor.asking);
        (self.progress_messages, self.moved) = (cursor.shown, cursor.moved);
    }

    /// The first update that is not stored yet.
    pub fn offset_of(cursor: Option<&str>) -> Option<i64> {
        let cursor: Cursor = serde_json::from_str(cursor?).ok()?;
        cursor.offset
    }

    /// The state to be stored.
    pub fn cursor(&self) -> Option<String> {
        let cursor = Cursor {
            offset: self.offset,
            asking: self.request_messages.clone(),
            shown: self.progress_messages.clone(),
            moved: self.moved.clone(),
        };
        serde_json::to_string(&cursor).ok()
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

    /// The progress of a delivery. After a restart, all of its messages may have been sent.
    pub fn parts_sent(&self, attempt: &Attempt) -> PartsSent {
        let in_doubt = if attempt.may_be_duplicate { usize::MAX } else { 0 };
        self.parts_sent.get(attempt.key.as_str()).copied().unwrap_or(PartsSent { sent: 0, in_doubt })
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
    use super::*;
    use crate::channel::recent::{self, MAX_ENTRIES};

    #[test]
    fn the_next_life_knows_what_this_one_has_to_edit() {
        let mut memory = Memory { offset: Some(8), ..Memory::default() };
        let message = |message_id| RequestMessage {
            place: "42".into(),
            message_id,
            text: "Codex asks".into(),
            buttons: Value::Null,
            requests: vec!["req-1".into()],
        };
        (0..100).for_each(|number| recent::push(&mut memory.request_messages, message(number)));
        let shown = ProgressMessage { place: "42".into(), message_id: Some(7), text: "working".into() };
        memory.progress_messages.insert("in-1", shown);
        memory.moved.insert(-1, -100);
        let mut next = Memory::default();
        next.restore(memory.cursor().as_deref());
        assert_eq!(
            (next.offset, next.request_messages.len(), next.request_messages[63].message_id),
            (Some(8), MAX_ENTRIES, 99)
        );
        let shown = next.progress_messages.get("in-1").and_then(|shown| shown.message_id);
        assert_eq!((shown, next.current_chat(-1), next.current_chat(-2)), (Some(7), -100, -2));
        next.restore(None);
        assert_eq!(next.offset, Some(8), "later on we know better");
        assert_eq!(Memory::offset_of(memory.cursor().as_deref()), Some(8));
        assert_eq!(Memory::offset_of(Some("nonsense")), None);
    }
}
