//! Which turn a message got. Changes nothing.

use super::Chats;
use crate::bridge::Error;
use crate::event::Event;
use crate::inbox::{Message, MessageState};
use crate::store::DeliveryFilter;
use crate::task::{TimeMs, TurnProgress, TurnRecord};

/// The turn that a message got. A turn that the bridge resumed by itself belongs to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageTurn {
    began_at: TimeMs,
    /// When the next turn began that somebody asked for.
    next_began_at: Option<TimeMs>,
    is_over: bool,
}

impl MessageTurn {
    /// The last turn that somebody had asked for by this time.
    fn at(turns: &[TurnRecord], time: TimeMs) -> Option<Self> {
        let first = turns.iter().rposition(|turn| is_asked_for(turn) && turn.created_at <= time)?;
        let later = &turns[first + 1..];
        let resumed = later.iter().take_while(|turn| !is_asked_for(turn)).count();
        let next = later.get(resumed);
        let last = &turns[first + resumed];
        Some(Self {
            began_at: turns[first].created_at,
            next_began_at: next.map(|turn| turn.created_at),
            is_over: last.progress == TurnProgress::Ended || next.is_some(),
        })
    }

    /// Whether the turn has ended. A turn that the bridge will resume counts as ended until then.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// When the turn began.
    pub fn began_at(&self) -> TimeMs {
        self.began_at
    }

    /// Whether a line of the task's log is about this turn.
    pub fn has(&self, event: &Event) -> bool {
        event.at >= self.began_at && self.next_began_at.is_none_or(|next| event.at < next)
    }
}

/// Whether somebody asked for a turn, and the bridge did not resume the turn before it.
pub(super) fn is_asked_for(turn: &TurnRecord) -> bool {
    turn.before.as_ref().is_none_or(|before| !before.resumes)
}

/// When the turn of a running message began.
pub(super) fn began_at(turns: &[TurnRecord], message: &Message) -> Option<TimeMs> {
    MessageTurn::at(turns, message.updated_at).map(|turn| turn.began_at)
}

impl Chats {
    /// The turn of a message that had one; `None` if it is not stored any more.
    pub async fn turn_of(&self, message: &Message) -> Result<Option<MessageTurn>, Error> {
        let Some(task_id) = &message.task_id else { return Ok(None) };
        let store = &self.inner().store;
        let mut at = message.updated_at;
        if let Some(reply_id) = message.reply_id.clone().filter(|_| message.state != MessageState::Running) {
            let reply = DeliveryFilter { id: Some(reply_id), ..DeliveryFilter::default() };
            // The next message gets its turn after this one has its reply, so that the reply's time is a bound. The row of
            // the message changes again when its source is told.
            at = store.deliveries(&reply).await?.first().map_or(at, |reply| reply.created_at - 1);
        }
        Ok(MessageTurn::at(&store.turns(task_id).await?, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Line, Warning};
    use crate::store::conformance::samples;

    fn turn(number: u32, created_at: TimeMs, resumes: bool, progress: TurnProgress) -> TurnRecord {
        let mut turn = TurnRecord { progress, created_at, ..samples::turn(1, number) };
        turn.before.as_mut().unwrap().resumes = resumes;
        turn
    }

    #[test]
    fn a_turn_begins_where_it_was_asked_for_and_not_where_it_was_taken_up_again() {
        let ended = TurnProgress::Ended;
        let turns = [
            turn(1, 10, false, ended),
            turn(2, 20, false, ended),
            turn(3, 30, true, ended),
            turn(4, 40, false, TurnProgress::Accepted),
        ];
        let failed_at = |updated_at| Message { updated_at, ..samples::message(1, "room") };
        assert_eq!(began_at(&turns, &failed_at(35)), Some(20));
        assert_eq!(began_at(&turns, &failed_at(5)), None, "the clock was put back");
    }

    #[test]
    fn a_turn_has_its_own_lines_and_is_over_when_its_last_part_is() {
        let ended = TurnProgress::Ended;
        let turns = [
            turn(1, 10, false, ended),
            turn(2, 20, false, ended),
            turn(3, 30, true, TurnProgress::Accepted),
            turn(4, 40, false, TurnProgress::Sending),
        ];
        let lines_of = |turns: &[TurnRecord], at: TimeMs| -> (Vec<TimeMs>, bool) {
            let turn = MessageTurn::at(turns, at).unwrap();
            let line = |at| Event {
                task_id: None,
                seq: at,
                at,
                line: Line::Warning(Warning { message: String::new() }),
            };
            let own = [15, 20, 25, 30, 35, 40, 45].into_iter().filter(|at| turn.has(&line(*at)));
            (own.collect(), turn.is_over())
        };
        assert_eq!(lines_of(&turns, 15), (vec![15], true));
        assert_eq!(
            lines_of(&turns, 20),
            (vec![20, 25, 30, 35], true),
            "somebody asked for another one since"
        );
        assert_eq!(lines_of(&turns, 45), (vec![40, 45], false));
        assert_eq!(lines_of(&turns[..3], 39), (vec![20, 25, 30, 35, 40, 45], false), "it was resumed");
        assert!(lines_of(&turns[..2], 39).1);
    }
}
