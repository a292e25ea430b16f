//! Catching up after a gap: was the prompt accepted, and how did the turn go on without a connection.

use codex_wire::answer::METHOD_NOT_FOUND;
use codex_wire::event::Event;
use codex_wire::item::Item;
use codex_wire::peer::CallError;
use codex_wire::thread::{Turn as WireTurn, TurnStatus};

use super::events::Stage;
use super::{Effect, Input, Millis, Notice, Outgoing, Phase, Turn, warn};
use crate::failure::Failure;

/// On a living host a prompt may still be in flight: up to 60 ms were seen.
const SECOND_LOOK_AFTER: Millis = 1_000;
/// Pause after a failed read-back, if the turn stays silent.
const READ_BACK_RETRY: Millis = 10_000;
/// Most events that are held. Further ones are read back.
const HELD_EVENTS: usize = 1_024;

/// How long a resumed turn may give no events before its thread is resumed again. It doubles with every try.
const UNHEARD: Millis = 5_000;
const UNHEARD_AT_MOST: Millis = 60_000;

/// A resumed turn that gives no events. codex 0.166: a thread that is resumed just when its turn begins may send none
/// of the turn's events and requests to that connection. After another resume it does.
#[derive(Debug, Default)]
pub(super) struct Unheard {
    /// When the silence is too long.
    pub(super) until: Option<Millis>,
    waited: Millis,
}

/// Inputs that cannot be processed yet: the turn's id is unknown, or the turn is being read back. They are processed
/// afterwards, in order.
#[derive(Debug, Default)]
pub(super) struct Held {
    inputs: Vec<Input>,
    overflowed: bool,
}

impl Turn {
    /// Whether inputs must wait for a lookup.
    pub(super) fn is_looking(&self) -> bool {
        self.reading_back || matches!(self.phase, Phase::Looking { .. })
    }

    /// Holds an input. Events are bounded; requests are not, since each must be answered.
    pub(super) fn hold(&mut self, input: Input, now: Millis) {
        self.clock.active(now);
        if matches!(input, Input::Event { .. }) && self.held.inputs.len() >= HELD_EVENTS {
            self.held.overflowed = true;
        } else {
            self.held.inputs.push(input);
        }
    }

    /// Processes the held inputs. Those that cannot be assigned yet are held again.
    pub(super) fn take_held(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let Held { inputs, overflowed } = std::mem::take(&mut self.held);
        self.held.overflowed = overflowed;
        for input in inputs {
            self.take(input, now, effects);
        }
    }

    /// Processes the held inputs when the lookup is done.
    pub(super) fn release_held(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        self.take_held(now, effects);
        if self.held.overflowed && self.turn_id().is_some() {
            self.held.overflowed = false;
            self.read_back(effects);
        }
        self.send_unsent_answers(effects);
        self.send_waiting_steers(effects);
    }

    /// The connection is lost. Held inputs count if they can be assigned to the turn. The rest will be read back, and a
    /// living host repeats its requests.
    pub(super) fn process_or_drop_held(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if std::mem::take(&mut self.reading_back) {
            self.held.inputs.retain(|input| matches!(input, Input::Event { .. }));
            self.take_held(now, effects);
        }
        self.held = Held::default();
    }

    /// The turn has ended: held requests are refused.
    pub(super) fn refuse_held(&mut self, effects: &mut Vec<Effect>) {
        for input in std::mem::take(&mut self.held).inputs {
            self.refuse_after_end(input, effects);
        }
    }

    pub(super) fn look_for_prompt(&mut self, host_lives: bool, effects: &mut Vec<Effect>) {
        if self.prompt.is_some() {
            self.phase = Phase::Looking { looks_left: u8::from(host_lives), next_look: None };
            self.call(Outgoing::ListTurns, effects);
        }
    }

    pub(super) fn look_again_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let Phase::Looking { next_look, .. } = &mut self.phase
            && next_look.is_some_and(|due| now >= due)
        {
            *next_look = None;
            self.call(Outgoing::ListTurns, effects);
        }
    }

    pub(super) fn read_back(&mut self, effects: &mut Vec<Effect>) {
        self.reading_back = true;
        self.read_back_at = None;
        self.call(Outgoing::ListTurns, effects);
    }

    /// Some servers write a marker instead of a `turn/completed`. The history tells whether the turn ended.
    pub(super) fn read_back_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.read_back_at.is_some_and(|due| now >= due) {
            self.read_back(effects);
        }
    }

    pub(super) fn on_turns(
        &mut self,
        result: Result<Vec<WireTurn>, CallError>,
        now: Millis,
        effects: &mut Vec<Effect>,
    ) {
        match result {
            // The end of the connection is reported next.
            Err(CallError::Closed(_)) => {}
            result if matches!(self.phase, Phase::Looking { .. }) => match result {
                Ok(turns) => self.on_looked(turns, now, effects),
                Err(error) if is_without_history(&error) => self.on_looked(Vec::new(), now, effects),
                Err(error) => self.end_unknown(Failure::of_call("thread/turns/list", &error), effects),
            },
            result if self.reading_back => {
                self.reading_back = false;
                match result {
                    Ok(turns) => self.on_read_back(turns, now, effects),
                    Err(error) => self.on_not_read_back(&error.to_string(), now, effects),
                }
            }
            _ => {}
        }
    }

    fn on_looked(&mut self, turns: Vec<WireTurn>, now: Millis, effects: &mut Vec<Effect>) {
        let (Phase::Looking { looks_left, next_look }, Some(start)) = (&mut self.phase, &self.prompt) else {
            return;
        };
        let client_id = start.client_user_message_id.as_deref();
        let found = turns.into_iter().find(|turn| carries_prompt(turn, client_id));
        // codex 0.166 lists a turn as interrupted for a moment when it begins.
        let is_settled = |turn: &WireTurn| *looks_left == 0 || turn.status != TurnStatus::Interrupted;
        if let Some(turn) = found.filter(is_settled) {
            self.projector.name_turn(turn.id.as_str());
            self.phase = Phase::Accepted(turn.id.clone());
            return self.take_read_back(&turn, now, effects);
        }
        if *looks_left > 0 {
            *looks_left -= 1;
            *next_look = Some(now + SECOND_LOOK_AFTER);
            return;
        }
        if self.stop.is_some() {
            // The prompt never ran, and must not run any more.
            return self.end_interrupted(effects);
        }
        let start = start.clone();
        self.phase = Phase::Starting;
        self.call(Outgoing::Start(start), effects);
        self.release_held(now, effects);
    }

    fn on_read_back(&mut self, turns: Vec<WireTurn>, now: Millis, effects: &mut Vec<Effect>) {
        match turns.into_iter().find(|turn| Some(&turn.id) == self.turn_id()) {
            Some(turn) if self.is_in_doubt(&turn) => {
                self.doubted_end = true;
                self.read_back_at = Some(now + SECOND_LOOK_AFTER);
                self.release_held(now, effects);
            }
            Some(turn) => self.take_read_back(&turn, now, effects),
            None => self.on_not_read_back("it is not among the latest turns of its thread", now, effects),
        }
    }

    /// Whether a listed end may be false: codex 0.166 lists a turn as interrupted for a moment when it begins. The
    /// second read is believed.
    fn is_in_doubt(&self, turn: &WireTurn) -> bool {
        let has_begun = turn.items.iter().any(|item| !matches!(item, Item::UserMessage(_)));
        let is_explained = has_begun || self.stop.is_some() || self.ends_with_abort_marker();
        turn.status == TurnStatus::Interrupted && !is_explained && !self.doubted_end
    }

    /// The read-back failed. The end may have been missed, so it is tried again unless an event comes.
    fn on_not_read_back(&mut self, why: &str, now: Millis, effects: &mut Vec<Effect>) {
        warn(format!("the turn could not be read from its thread, events may be missing: {why}"), effects);
        self.read_back_at = Some(now + READ_BACK_RETRY);
        self.release_held(now, effects);
    }

    /// Processes the missed items, then the held inputs, then the end if there was one.
    fn take_read_back(&mut self, turn: &WireTurn, now: Millis, effects: &mut Vec<Effect>) {
        let is_over =
            matches!(turn.status, TurnStatus::Completed | TurnStatus::Interrupted | TurnStatus::Failed);
        if !is_over && matches!(self.phase, Phase::Accepted(_)) {
            // The start event was missed.
            effects.push(Effect::Tell(Notice::Happened(Event::TurnStarted(turn.clone()))));
        }
        for (index, item) in turn.items.iter().enumerate() {
            let is_last = index + 1 == turn.items.len();
            let is_whole = is_finished(item, &turn.status, is_last);
            self.take_item(item, if is_whole { Stage::Completed } else { Stage::Started }, now, effects);
        }
        // Items of the past give no reason to warn or to read again.
        self.tool_result_at = None;
        self.read_back_at = None;
        if is_over {
            self.take_held(now, effects);
            return self.end_as_reported(turn, effects);
        }
        self.activate(now, effects);
        self.expect_to_hear(now);
        self.release_held(now, effects);
    }

    fn expect_to_hear(&mut self, now: Millis) {
        self.unheard.waited = (self.unheard.waited * 2).clamp(UNHEARD, UNHEARD_AT_MOST);
        self.unheard.until = Some(now + self.unheard.waited);
    }

    pub(super) fn hang_up_if_unheard(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if self.unheard.until.is_some_and(|until| now >= until) {
            self.unheard.until = None;
            effects.push(Effect::HangUp);
        }
    }
}

/// Whether the error means that the thread has no history. Then the prompt is not in it.
fn is_without_history(error: &CallError) -> bool {
    const SIGNS: [&str; 4] = ["no rollout", "not loaded", "not found", "not materialized"];
    matches!(error, CallError::Refused(refusal) if refusal.code != METHOD_NOT_FOUND
        && SIGNS.iter().any(|sign| refusal.message.contains(sign)))
}

fn carries_prompt(turn: &WireTurn, client_id: Option<&str>) -> bool {
    turn.items.iter().any(|item| match item {
        Item::UserMessage(message) => {
            message.client_id.is_some() && message.client_id.as_deref() == client_id
        }
        _ => false,
    })
}

/// Whether an item of a turn is complete. Items with a status tell. Others are complete, except the last one of a
/// running turn.
pub(super) fn is_finished(item: &Item, turn: &TurnStatus, is_last: bool) -> bool {
    let may_grow = matches!(item, Item::AgentMessage(_) | Item::Reasoning(_));
    !item.is_in_progress().unwrap_or(may_grow && is_last && *turn == TurnStatus::InProgress)
}
