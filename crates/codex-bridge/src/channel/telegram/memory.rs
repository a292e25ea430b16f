//! What must not be forgotten beside how far we have read: the messages of ours that still have buttons, and those that
//! show how a turn stands. Written with the cursor, so that the next life can edit them. Everything in it is redacted.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use codex_bridge_core::inbox::MessageId;
use codex_bridge_core::outbox::{Attempt, DeliveryId};
use codex_bridge_core::request::RequestName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::update::Tapped;
use crate::channel::recent::{MOST, Recent};

/// For so long after something came, more is expected.
const STIRRED: Duration = Duration::from_mins(1);

/// What is remembered, and what is only known in this life.
#[derive(Debug, Default)]
pub struct Memory {
    /// The next update that we want.
    pub offset: Option<i64>,
    /// Messages with buttons, the oldest first.
    pub asking: Vec<Asking>,
    /// Messages that show how turns stand, by the message that asked for the turn.
    pub shown: Recent<Shown>,
    /// Taps that are being decided on, by their names.
    pub taps: HashMap<String, Tapped>,
    /// Groups that have another number now.
    pub moved: BTreeMap<i64, i64>,
    /// Chats that asked for quiet, and until when.
    pub quiet: HashMap<i64, Instant>,
    /// Groups in which how a turn stands was edited just now, and when.
    pub edited_at: HashMap<i64, Instant>,
    /// How far we came with what takes several messages, by its key.
    told: Recent<Told>,
    /// How our bot is called.
    pub username: String,
    /// When something came last.
    pub stirred_at: Option<Instant>,
    /// Whether the last life's notes were read: from then on we know better.
    has_recalled: bool,
}

/// How far we came with something that takes several messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// How many were said.
    pub said: usize,
    /// So many may have been said, whether or not we know of it; those are marked when they are said again.
    pub in_doubt: usize,
}

/// A message with buttons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asking {
    /// Where.
    pub place: String,
    /// Its number.
    pub message_id: i64,
    /// What it says.
    pub text: String,
    /// Its buttons.
    pub buttons: Value,
    /// The requests that are still open in it.
    pub requests: Vec<RequestName>,
}

/// A message that shows how a turn stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// Where.
    pub place: String,
    /// Its number; none if it could not be sent, and is not tried again.
    pub message_id: Option<i64>,
    /// What it says.
    #[serde(skip)]
    pub text: String,
}

/// As it is written.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Cursor {
    offset: Option<i64>,
    asking: Vec<Asking>,
    shown: Recent<Shown>,
    moved: BTreeMap<i64, i64>,
}

impl Memory {
    /// Takes over what another life wrote down, once.
    pub fn recall(&mut self, cursor: Option<&str>) {
        if std::mem::replace(&mut self.has_recalled, true) {
            return;
        }
        let cursor: Cursor = cursor.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        (self.offset, self.asking) = (cursor.offset, cursor.asking);
        (self.shown, self.moved) = (cursor.shown, cursor.moved);
    }

    /// The first update that is not yet durable here.
    pub fn offset_of(cursor: Option<&str>) -> Option<i64> {
        let cursor: Cursor = serde_json::from_str(cursor?).ok()?;
        cursor.offset
    }

    /// What the next life needs.
    pub fn cursor(&self) -> Option<String> {
        let cursor = Cursor {
            offset: self.offset,
            asking: self.asking.clone(),
            shown: self.shown.clone(),
            moved: self.moved.clone(),
        };
        serde_json::to_string(&cursor).ok()
    }

    /// A message with buttons was sent.
    pub fn ask(&mut self, asking: Asking) {
        self.asking.push(asking);
        let surplus = self.asking.len().saturating_sub(MOST);
        self.asking.drain(..surplus);
    }

    /// A message that shows how a turn stands was sent, or could not be.
    pub fn show(&mut self, turn: &MessageId, shown: Shown) {
        self.shown.insert(turn.as_str(), shown);
    }

    /// A group that became a supergroup says so with a message of its own, on either side.
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

    /// The number under which a chat is known here: what was begun in a group goes on after it has moved.
    pub fn home(&self, chat: i64) -> i64 {
        self.moved.iter().find(|(_, now)| **now == chat).map_or(chat, |(before, _)| *before)
    }

    /// Whether a chat asked for quiet.
    pub fn is_quiet(&mut self, chat: i64) -> bool {
        self.quiet.retain(|_, until| *until > Instant::now());
        self.quiet.contains_key(&chat)
    }

    /// How far we came with this. What was begun in another life may have been said to its end.
    pub fn told(&self, attempt: &Attempt) -> Told {
        let in_doubt = if attempt.may_be_duplicate { usize::MAX } else { 0 };
        self.told.get(attempt.key.as_str()).copied().unwrap_or(Told { said: 0, in_doubt })
    }

    /// We came so far with this.
    pub fn note_told(&mut self, key: &DeliveryId, told: Told) {
        self.told.insert(key.as_str(), told);
    }

    /// All of it was said.
    pub fn forget_told(&mut self, key: &DeliveryId) {
        self.told.remove(key.as_str());
    }

    /// Where a chat is now.
    pub fn now(&self, chat: i64) -> i64 {
        self.moved.get(&chat).copied().unwrap_or(chat)
    }

    /// Whether something is under way, so that we should not sleep long.
    pub fn is_busy(&self) -> bool {
        let is_stirred = self.stirred_at.is_some_and(|at| at.elapsed() < STIRRED);
        is_stirred || !self.asking.is_empty() || !self.shown.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_life_knows_what_this_one_has_to_edit() {
        let mut memory = Memory { offset: Some(8), ..Memory::default() };
        let asking = |message_id| Asking {
            place: "42".into(),
            message_id,
            text: "Codex asks".into(),
            buttons: Value::Null,
            requests: vec!["req-1".into()],
        };
        (0..100).for_each(|number| memory.ask(asking(number)));
        memory
            .show(&"in-1".into(), Shown { place: "42".into(), message_id: Some(7), text: "working".into() });
        memory.moved.insert(-1, -100);
        let mut next = Memory::default();
        next.recall(memory.cursor().as_deref());
        assert_eq!((next.offset, next.asking.len(), next.asking[63].message_id), (Some(8), MOST, 99));
        let shown = next.shown.get("in-1").and_then(|shown| shown.message_id);
        assert_eq!((shown, next.now(-1), next.now(-2)), (Some(7), -100, -2));
        next.recall(None);
        assert_eq!(next.offset, Some(8), "later on we know better");
        assert_eq!(Memory::offset_of(memory.cursor().as_deref()), Some(8));
        assert_eq!(Memory::offset_of(Some("nonsense")), None);
    }
}
