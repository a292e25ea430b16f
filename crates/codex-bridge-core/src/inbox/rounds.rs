//! Counts how long agents have written in a conversation without a person. Needed because a slow peer that does not
//! keep the hop mark passes every other guard, and would be answered for ever. Pure.

use super::{Message, MessageState, Party};
use crate::task::TimeMs;

/// A pause of this length starts a new count. An endless exchange does not pause.
const PAUSE_MS: TimeMs = 60 * 60 * 1000;

/// How many messages of agents in a row were worked on, back to a person's message or a pause. Takes the messages of a
/// conversation, the newest first.
pub fn in_a_row<'a>(newest_first: impl IntoIterator<Item = &'a Message>, now: TimeMs) -> usize {
    let mut after = now;
    let worked_on = newest_first.into_iter().filter(|one| one.state != MessageState::Dead);
    worked_on
        .take_while(|one| {
            let pause = after - one.received_at;
            after = one.received_at;
            one.party == Party::Agent && pause < PAUSE_MS
        })
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::conformance::samples;

    const MINUTE_MS: TimeMs = 60 * 1000;

    /// Messages of an agent, so many minutes ago.
    fn row(minutes_ago: &[TimeMs], now: TimeMs) -> Vec<Message> {
        let one = |ago: &TimeMs| Message {
            party: Party::Agent,
            state: MessageState::Acknowledged,
            received_at: now - ago * MINUTE_MS,
            ..samples::message(1, "room")
        };
        minutes_ago.iter().map(one).collect()
    }

    #[test]
    fn a_row_goes_back_to_a_pause_or_to_a_person() {
        let now = 10_000 * MINUTE_MS;
        assert_eq!(in_a_row(&[], now), 0);
        assert_eq!(in_a_row(&row(&[20, 79, 138], now), now), 3);
        assert_eq!(in_a_row(&row(&[20, 80, 138], now), now), 1, "an hour between two of them");
        assert_eq!(in_a_row(&row(&[60, 61], now), now), 0, "an hour until now");
        let mut spoken_to = row(&[1, 2, 3, 4], now);
        spoken_to[2].party = Party::Person;
        assert_eq!(in_a_row(&spoken_to, now), 2);
    }

    #[test]
    fn what_was_not_worked_on_neither_counts_nor_fills_a_pause() {
        let now = 10_000 * MINUTE_MS;
        let mut refused = row(&[10, 40, 70], now);
        refused[1].state = MessageState::Dead;
        assert_eq!(in_a_row(&refused, now), 1, "the others are an hour apart");
    }
}
