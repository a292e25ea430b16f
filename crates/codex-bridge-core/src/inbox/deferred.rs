//! Messages for which there was no room. Their source offers them again. Until a deferred message is taken, no later
//! message of its conversation is. A message that is not offered again in time is forgotten. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::{ChannelName, ConversationKey};

/// How long to wait for a message to be offered again.
const PATIENCE: Duration = Duration::from_mins(2);
/// The limits for messages of one conversation and for conversations.
const MOST_IN_LINE: usize = 256;
const MOST_LINES: usize = 1024;

/// A channel and a conversation in it.
pub type Line = (ChannelName, ConversationKey);

/// Deferred messages by conversation: the source's ids, the oldest first, and when each was last offered.
#[derive(Debug, Default)]
pub struct Deferred {
    lines: BTreeMap<Line, VecDeque<(String, Instant)>>,
}

impl Deferred {
    /// Whether no deferred message is before this one.
    pub fn is_next(&mut self, line: &Line, external_id: &str, now: Instant) -> bool {
        let Some(waiting) = self.lines.get_mut(line) else { return true };
        waiting.retain(|(_, offered)| now.duration_since(*offered) < PATIENCE);
        waiting.front().is_none_or(|(first, _)| first == external_id)
    }

    /// Defers a message.
    pub fn defer(&mut self, line: &Line, external_id: &str, now: Instant) {
        if self.lines.len() >= MOST_LINES {
            self.lines.retain(|_, waiting| {
                waiting.back().is_some_and(|(_, offered)| now.duration_since(*offered) < PATIENCE)
            });
        }
        if self.lines.len() >= MOST_LINES && !self.lines.contains_key(line) {
            return;
        }
        let waiting = self.lines.entry(line.clone()).or_default();
        if let Some((_, offered)) = waiting.iter_mut().find(|(known, _)| known == external_id) {
            *offered = now;
        } else if waiting.len() < MOST_IN_LINE {
            waiting.push_back((external_id.to_owned(), now));
        }
    }

    /// Removes a message that was taken or refused.
    pub fn take(&mut self, line: &Line, external_id: &str) {
        if let Some(waiting) = self.lines.get_mut(line) {
            waiting.retain(|(known, _)| known != external_id);
            if waiting.is_empty() {
                self.lines.remove(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_off_is_taken_in_its_order_and_holds_up_no_other_conversation() {
        let (mut deferred, now) = (Deferred::default(), Instant::now());
        let line = |key: &str| ("chat".into(), key.into());
        for id in ["1", "2", "3"] {
            deferred.defer(&line("a"), id, now);
        }
        assert!(deferred.is_next(&line("b"), "9", now) && !deferred.is_next(&line("a"), "2", now));
        assert!(deferred.is_next(&line("a"), "1", now) && !deferred.is_next(&line("a"), "new", now));
        deferred.take(&line("a"), "1");
        assert!(deferred.is_next(&line("a"), "2", now) && !deferred.is_next(&line("a"), "3", now));
        // Offered again, it keeps its place, and one that is not is waited for no longer.
        let later = now + PATIENCE / 2;
        deferred.defer(&line("a"), "3", later);
        assert!(deferred.is_next(&line("a"), "3", now + PATIENCE) && deferred.lines.len() == 1);
        deferred.take(&line("a"), "3");
        assert!(deferred.lines.is_empty());
    }

    #[test]
    fn no_more_is_remembered_than_may_be() {
        let (mut deferred, now) = (Deferred::default(), Instant::now());
        for key in 0..2 * MOST_LINES {
            deferred.defer(&("chat".into(), ConversationKey(key.to_string())), "1", now);
        }
        let one = ("chat".into(), "0".into());
        (0..2 * MOST_IN_LINE).for_each(|id| deferred.defer(&one, &id.to_string(), now));
        assert_eq!((deferred.lines.len(), deferred.lines[&one].len()), (MOST_LINES, MOST_IN_LINE));
    }
}
