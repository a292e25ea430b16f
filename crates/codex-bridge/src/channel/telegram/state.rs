//! The state of a bot: how far its updates were read, which groups have another number now, and which chats must be left
//! alone for a while.

use std::collections::{BTreeMap, HashMap};
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::channel::recent::Recent;

/// How long after its last update a bot is read without an offset. After a week without one, Telegram begins anew with random
/// numbers, and updates below an offset are lost.
const OFFSET_AGE_MS: i64 = 3 * 24 * 60 * 60 * 1000;

/// The state of a bot.
#[derive(Debug, Default)]
pub struct State {
    /// Groups that became supergroups: the old number and the new one. Stored.
    pub moved: BTreeMap<i64, i64>,
    /// Chats with too many messages, and until when they get no edits and no signs.
    pub rate_limited: HashMap<i64, Instant>,
    /// When the last poll before this one ended. Telegram does not tell when a button was tapped: it was after that.
    pub polled_at: i64,
    /// The parts of albums, by their first part: `CHAT/NUMBER`. Stored.
    pub albums: Recent<Vec<i64>>,
    /// The bot's user name.
    pub username: String,
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

/// The first update to read, by a stored cursor. None after a long or unknown time and on another server: the numbers may have
/// begun anew. What was read before is confirmed by then, or recognised.
pub fn offset_of(cursor: Option<&str>, server: Option<&str>, now: i64) -> Option<i64> {
    let cursor: Cursor = serde_json::from_str(cursor?).ok()?;
    let is_old = cursor.read_at.is_none_or(|at| now - at > OFFSET_AGE_MS);
    cursor.offset.filter(|_| !is_old && cursor.server.as_deref() == server)
}

/// When the last update before this cursor was read; 0 if that is not known.
pub fn read_before(cursor: Option<&str>) -> i64 {
    let cursor: Option<Cursor> = cursor.and_then(|cursor| serde_json::from_str(cursor).ok());
    cursor.and_then(|cursor| cursor.read_at).unwrap_or_default()
}

/// The cursor behind these updates.
pub fn cursor_behind(updates: &[Value], server: Option<&str>, now: i64) -> Option<String> {
    // Also of updates that lie below the last offset, where their numbers have begun anew.
    let last = updates.iter().filter_map(|update| update["update_id"].as_i64()).max()?;
    let cursor = Cursor { offset: Some(last + 1), server: server.map(str::to_owned), read_at: Some(now) };
    serde_json::to_string(&cursor).ok()
}

impl State {
    /// What has to be known after a restart.
    pub fn notes(&self) -> Value {
        json!({ "moved": self.moved, "albums": self.albums })
    }

    /// Restores what was stored.
    pub fn restore(&mut self, notes: &Value) {
        if let Ok(moved) = serde_json::from_value(notes["moved"].clone()) {
            self.moved = moved;
        }
        if let Ok(albums) = serde_json::from_value(notes["albums"].clone()) {
            self.albums = albums;
        }
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

    /// The album that has a message, by the id of its first part.
    pub fn album_of(&self, external_id: &str) -> Option<String> {
        let (chat, number) = external_id.split_once('/')?;
        let number: i64 = number.parse().ok()?;
        let has_it = |(first, parts): &(&String, &Vec<i64>)| {
            first.split_once('/').is_some_and(|(of, _)| of == chat) && parts.contains(&number)
        };
        self.albums.iter().find(has_it).map(|(first, _)| first.clone())
    }

    /// Notes the parts of an album, and returns the first one. An album of which a part is known keeps its first part.
    pub fn note_album(&mut self, chat: &str, parts: &[i64]) -> Option<i64> {
        let known = parts.iter().find_map(|part| self.album_of(&format!("{chat}/{part}")));
        let first = match known.as_ref().and_then(|first| first.split_once('/')) {
            Some((_, first)) => first.parse().ok()?,
            None => *parts.iter().min()?,
        };
        let name = format!("{chat}/{first}");
        let mut all = self.albums.get(&name).cloned().unwrap_or_default();
        all.extend(parts);
        all.sort_unstable();
        all.dedup();
        self.albums.insert(&name, all);
        Some(first)
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
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

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
