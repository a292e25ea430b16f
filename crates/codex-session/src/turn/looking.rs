//! Looking before repeating: was the prompt taken, how did the turn go on while we were away.

use codex_wire::TurnId;
use codex_wire::event::Event;
use codex_wire::item::Item;
use codex_wire::peer::CallError;
use codex_wire::thread::{Turn as WireTurn, TurnStatus};

use super::{ABORT_MARKER_QUIET, Effect, Input, Millis, Outgoing, Phase, Turn};
use crate::failure::Failure;

/// On a living host a prompt may still be on its way: up to 60 ms were seen.
const SECOND_LOOK_AFTER: Millis = 1_000;

/// Events that came while the turn is being read back. They are taken after what was missed, in order.
#[derive(Debug, Default)]
pub(super) struct CatchUp {
    held_back: Vec<(Option<TurnId>, Event)>,
}

impl CatchUp {
    pub(super) fn hold_back(&mut self, turn_id: Option<TurnId>, event: Event) {
        self.held_back.push((turn_id, event));
    }
}

impl Turn {
    pub(super) fn look_for_prompt(&mut self, host_lives: bool, effects: &mut Vec<Effect>) {
        let Some(start) = self.prompt.clone() else { return };
        self.phase = Phase::Looking { start, looks_left: u8::from(host_lives), next_look: None };
        effects.push(Effect::Call(Outgoing::ListTurns));
    }

    pub(super) fn look_again_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let Phase::Looking { next_look, .. } = &mut self.phase
            && next_look.is_some_and(|due| now >= due)
        {
            *next_look = None;
            effects.push(Effect::Call(Outgoing::ListTurns));
        }
    }

    pub(super) fn begin_catch_up(&mut self, effects: &mut Vec<Effect>) {
        self.catch_up = Some(CatchUp::default());
        effects.push(Effect::Call(Outgoing::ListTurns));
    }

    /// Some servers leave a marker instead of a `turn/completed`. The turn itself tells whether it ended.
    pub(super) fn check_abort_marker(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.abort_marker_at.is_some_and(|at| now >= at + ABORT_MARKER_QUIET) {
            self.abort_marker_at = None;
            self.begin_catch_up(effects);
        }
    }

    pub(super) fn on_turns(
        &mut self,
        result: Result<Vec<WireTurn>, CallError>,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        match (&self.phase, result) {
            (_, Err(CallError::Closed(_))) => {}
            (Phase::Looking { .. }, Ok(turns)) => self.on_looked(turns, now, effects),
            (Phase::Looking { .. }, Err(error)) if is_without_history(&error) => {
                self.on_looked(Vec::new(), now, effects)
            }
            (Phase::Looking { .. }, Err(error)) => {
                self.end_unknown(Failure::of_call("thread/turns/list", &error), effects)
            }
            (_, Ok(turns)) => self.on_caught_up(turns, now, effects),
            (_, Err(_)) => self.on_caught_up(Vec::new(), now, effects),
        }
    }

    fn on_looked(&mut self, turns: Vec<WireTurn>, now: Millis, effects: &mut Vec<Effect>) {
        let Phase::Looking { start, looks_left, next_look } = &mut self.phase else { return };
        let client_id = start.client_user_message_id.as_deref();
        if let Some(turn) = turns.into_iter().find(|turn| carries_prompt(turn, client_id)) {
            self.phase = Phase::Active(turn.id.clone());
            self.catch_up = None;
            self.take_read_back(turn, effects);
            return self.interrupt_if_stopping(now, effects);
        }
        if *looks_left > 0 {
            *looks_left -= 1;
            *next_look = Some(now + SECOND_LOOK_AFTER);
            return;
        }
        let start = start.clone();
        match &self.stop {
            // It never ran, and now it need not.
            Some(_) => self.end_interrupted(effects),
            None => {
                self.phase = Phase::Starting;
                effects.push(Effect::Call(Outgoing::Start(start)));
            }
        }
    }

    fn on_caught_up(&mut self, turns: Vec<WireTurn>, now: Millis, effects: &mut Vec<Effect>) {
        let Some(catch_up) = self.catch_up.take() else { return };
        if let Some(turn) = turns.into_iter().find(|turn| Some(&turn.id) == self.turn_id()) {
            self.take_read_back(turn, effects);
        }
        let thread_id = self.thread_id.clone();
        for (turn_id, event) in catch_up.held_back {
            self.step(Input::Event { thread_id: Some(thread_id.clone()), turn_id, event }, now, effects);
        }
        self.interrupt_if_stopping(now, effects);
    }

    /// Takes the items that were missed, and the end if there was one.
    fn take_read_back(&mut self, turn: WireTurn, effects: &mut Vec<Effect>) {
        for item in &turn.items {
            if is_finished(item, &turn.status) {
                self.requests.forget_patch(item);
                self.projector.complete(item);
            } else {
                self.requests.remember_patch(item);
                self.projector.start(item);
            }
        }
        if turn.status != TurnStatus::InProgress {
            self.end_as_reported(turn, effects);
        } else if let Phase::Accepted(turn_id) = &self.phase {
            self.phase = Phase::Active(turn_id.clone());
        }
    }
}

/// A thread that never had a turn has no history to list: the prompt is not in it.
fn is_without_history(error: &CallError) -> bool {
    matches!(error, CallError::Refused(refusal)
        if ["no rollout", "not loaded", "not found", "not materialized"].iter().any(|sign| refusal.message.contains(sign)))
}

fn carries_prompt(turn: &WireTurn, client_id: Option<&str>) -> bool {
    turn.items.iter().any(|item| match item {
        Item::UserMessage(message) => {
            message.client_id.is_some() && message.client_id.as_deref() == client_id
        }
        _ => false,
    })
}

/// Whether an item of a read-back is complete: items with a status say so, the others are complete unless the turn
/// still runs and they may be growing.
fn is_finished(item: &Item, turn: &TurnStatus) -> bool {
    match item.is_in_progress() {
        Some(in_progress) => !in_progress,
        None => {
            *turn != TurnStatus::InProgress || !matches!(item, Item::AgentMessage(_) | Item::Reasoning(_))
        }
    }
}
