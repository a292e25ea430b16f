//! How far Discord was read: the session with its last event, from which it is resumed, and the last message of channels,
//! behind which they are read when no session can be resumed. Stored as the channel's cursor. Pure.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::channel::recent::Recent;

/// When Discord's ids begin, in milliseconds.
const EPOCH_MS: i64 = 1_420_070_400_000;
/// How much later than others a message may arrive that was written before them.
const DISORDER: Duration = Duration::from_mins(1);
/// Older messages are not read after a time without the bot.
const MAX_AGE: Duration = Duration::from_hours(7 * 24);

/// How far Discord was read; the field names are fixed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Position {
    /// The session, unless messages are missing that it will not bring.
    pub session: Option<Session>,
    /// The last message of all channels. Messages before it were read.
    pub seen: u64,
    /// The last message of the channels that were read last.
    pub channels: Recent<u64>,
    /// The last message of the private conversations that were read last.
    pub direct: Recent<u64>,
}

/// A session of the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Where it is resumed.
    pub address: String,
    /// The number of its last event.
    pub number: u64,
}

impl Position {
    /// That of a bot that has read nothing yet, and is to read what is written from now on.
    pub fn new(now_ms: i64) -> Self {
        Self { seen: first_id(now_ms), ..Self::default() }
    }

    /// Reads a cursor.
    pub fn of_cursor(cursor: &str, now_ms: i64) -> Self {
        serde_json::from_str(cursor).unwrap_or_else(|_| Self::new(now_ms))
    }

    /// The cursor. While messages are missing it has no session, so that they are looked for again.
    pub fn to_cursor(&self, is_complete: bool) -> Option<String> {
        let session = self.session.clone().filter(|_| is_complete);
        serde_json::to_string(&Self { session, ..self.clone() }).ok()
    }

    /// Notes that a message was read, and all before it in its channel.
    pub fn note(&mut self, channel: &str, message: u64, is_direct: bool, is_complete: bool) {
        let channels = if is_direct { &mut self.direct } else { &mut self.channels };
        let last = channels.get(channel).copied().unwrap_or_default().max(message);
        // The one that was read last is kept longest.
        channels.remove(channel);
        channels.insert(channel, last);
        if is_complete {
            self.seen = self.seen.max(message);
        }
    }

    /// The message behind which a channel has to be read.
    pub fn last_of(&self, channel: &str, now_ms: i64) -> u64 {
        let known = self.channels.get(channel).or_else(|| self.direct.get(channel)).copied();
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or_default();
        let last = known.unwrap_or_else(|| self.seen.saturating_sub(millis(DISORDER) << 22));
        last.max(first_id(now_ms).saturating_sub(millis(MAX_AGE) << 22))
    }
}

/// The first id of a moment.
fn first_id(now_ms: i64) -> u64 {
    u64::try_from(now_ms - EPOCH_MS).unwrap_or_default() << 22
}

/// When the message of an id was written, in milliseconds.
pub fn written_at(id: u64) -> i64 {
    i64::try_from(id >> 22).unwrap_or_default() + EPOCH_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    #[test]
    fn a_channel_is_read_behind_its_last_message_and_an_unknown_one_behind_the_last_of_all() {
        let mut position = Position::new(NOW);
        let first = position.seen;
        assert_eq!(written_at(first), NOW);
        position.note("1", first + (5_000 << 22), false, true);
        position.note("2", first + (9_000 << 22), true, true);
        assert_eq!(position.last_of("1", NOW), first + (5_000 << 22));
        assert_eq!(position.last_of("2", NOW), first + (9_000 << 22));
        assert_eq!(written_at(position.last_of("3", NOW)), NOW + 9_000 - 60_000, "with some disorder");
        let month = 30 * 24 * 60 * 60 * 1000;
        assert_eq!(written_at(position.last_of("1", NOW + month)), NOW + month - 7 * 24 * 60 * 60 * 1000);
    }

    #[test]
    fn while_messages_are_missing_no_session_is_stored_and_the_last_of_all_stays() {
        let session = Session { id: "s".to_owned(), address: "wss://x".to_owned(), number: 7 };
        let mut position = Position { session: Some(session), ..Position::new(NOW) };
        let before = position.seen;
        position.note("1", before + 1, false, false);
        assert_eq!(position.seen, before);
        let stored = Position::of_cursor(&position.to_cursor(false).unwrap(), NOW);
        assert_eq!((stored.session, stored.channels.get("1")), (None, Some(&(before + 1))));
        let stored = Position::of_cursor(&position.to_cursor(true).unwrap(), NOW);
        assert_eq!(stored, position);
    }

    #[test]
    fn of_many_channels_those_are_known_that_were_read_last() {
        let mut position = Position::new(NOW);
        for number in 0..200_u64 {
            position.note("busy", number, false, true);
            position.note(&format!("c{number}"), number, false, true);
        }
        assert!(position.channels.get("busy").is_some() && position.channels.get("c0").is_none());
    }
}
