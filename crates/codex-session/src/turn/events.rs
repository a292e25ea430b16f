//! The events of a turn: only those of this thread and turn count, in order.

use codex_wire::event::Event;
use codex_wire::item::Item;
use codex_wire::{ThreadId, TurnId};

use super::{Effect, Input, Millis, Notice, Phase, Turn, Unheard};

/// How long after an agent message that consists of an abort marker alone the turn is read back.
const ABORT_MARKER_QUIET: Millis = 2_000;

/// How far an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stage {
    Started,
    Completed,
}

impl Turn {
    pub(super) fn on_event(
        &mut self,
        thread_id: Option<ThreadId>,
        turn_id: Option<TurnId>,
        event: Event,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        if let Event::RequestResolved(id) = &event {
            self.on_resolved(id, effects);
        }
        if let Some(child) = thread_id.as_ref().filter(|thread_id| **thread_id != self.thread_id) {
            // The thread of a sub-agent. Its events are no events of our turn, but show that the turn works.
            match &event {
                Event::ItemStarted(item) => self.requests.remember_patch(child, item),
                Event::ItemCompleted(item) => self.requests.forget_patch(child, item),
                _ => {}
            }
            return self.clock.active(now);
        }
        let turn_id = turn_id.or_else(|| turn_of(&event));
        match (&self.phase, turn_id) {
            (Phase::Starting, Some(turn_id)) => {
                // The reply to a compaction has no turn id.
                let named = self.is_compaction && matches!(event, Event::TurnStarted(_));
                let event = Input::Event { thread_id, turn_id: Some(turn_id.clone()), event };
                if named {
                    self.accept(turn_id, now, effects);
                    return self.take(event, now, effects);
                }
                self.hold(event, now);
            }
            (Phase::Accepted(own) | Phase::Active(own), Some(turn_id)) if turn_id != *own => {}
            // An event for all threads of the host is no sign of life of this turn.
            (_, None) if thread_id.is_none() => self.apply_event(event, now, effects),
            _ => self.take_event(event, now, effects),
        }
    }

    /// An event of this very turn, or of its thread.
    fn take_event(&mut self, event: Event, now: Millis, effects: &mut Vec<Effect>) {
        if !matches!(event, Event::RateLimits(_) | Event::ThreadStatus(_)) {
            self.clock.active(now);
            self.tool_result_at = None;
            self.read_back_at = None;
            self.unheard = Unheard::default();
        }
        self.apply_event(event, now, effects);
    }

    fn apply_event(&mut self, event: Event, now: Millis, effects: &mut Vec<Effect>) {
        let mut completed = None;
        match &event {
            Event::ItemStarted(item) => return self.take_item(item, Stage::Started, now, effects),
            Event::ItemCompleted(item) => return self.take_item(item, Stage::Completed, now, effects),
            // The turn was read back before this event came: its start is already reported.
            Event::TurnStarted(_) if matches!(self.phase, Phase::Active(_)) => return,
            Event::TurnStarted(_) => self.activate(now, effects),
            Event::TokenUsage(usage) => self.usage = Some(usage.clone()),
            Event::Error { error, will_retry: false } => self.last_error = Some(error.clone()),
            Event::RateLimits(limits) => self.resets_at = limits.resets_at().or(self.resets_at),
            Event::Compacted => self.projector.note_compaction(),
            Event::TurnCompleted(turn) => completed = Some(turn.clone()),
            _ => {}
        }
        effects.push(Effect::Tell(Notice::Happened(event)));
        if let Some(turn) = completed {
            self.end_as_reported(&turn, effects);
        }
    }

    /// Processes an item, live or from a read-back. Repetitions are ignored.
    pub(super) fn take_item(&mut self, item: &Item, stage: Stage, now: Millis, effects: &mut Vec<Effect>) {
        if !item.id().is_none_or(|id| self.told.insert((stage, format!("{} {id}", item.type_name())))) {
            return;
        }
        let event = match stage {
            Stage::Started => {
                self.requests.remember_patch(&self.thread_id, item);
                self.projector.start(item);
                Event::ItemStarted(item.clone())
            }
            Stage::Completed => {
                self.complete_item(item, now);
                Event::ItemCompleted(item.clone())
            }
        };
        effects.push(Effect::Tell(Notice::Happened(event)));
    }

    fn complete_item(&mut self, item: &Item, now: Millis) {
        self.requests.forget_patch(&self.thread_id, item);
        if self.projector.complete(item) {
            self.tool_result_at = Some(now);
        }
        if let Item::AgentMessage(message) = item
            && is_abort_marker(&message.text)
        {
            self.read_back_at = Some(now + ABORT_MARKER_QUIET);
        }
    }
}

fn turn_of(event: &Event) -> Option<TurnId> {
    match event {
        Event::TurnStarted(turn) | Event::TurnCompleted(turn) => Some(turn.id.clone()),
        _ => None,
    }
}

/// Whether an agent message consists of the marker that some servers write instead of a `turn/completed`. A message
/// that quotes the marker does not count.
pub fn is_abort_marker(text: &str) -> bool {
    matches!(text.trim(), "<turn_aborted>" | "<turn_aborted/>" | "<turn_aborted />")
}
