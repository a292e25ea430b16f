//! The end of a turn. Every end goes through [`Turn::end`], once.

use codex_wire::thread::{Turn as WireTurn, TurnStatus};

use super::catch_up::is_finished;
use super::stop::StopCause;
use super::{Effect, Outgoing, Phase, Turn, is_abort_marker};
use crate::failure::{Failure, FailureKind};
use crate::projection::Projector;
use crate::result::{TurnOutcome, TurnResult};

/// How a turn ended, before the facts of the turn are added.
struct Ending {
    outcome: TurnOutcome,
    error: Option<Failure>,
    outcome_unknown: bool,
}

impl Turn {
    /// Codex reports the end of the turn.
    pub(super) fn end_as_reported(&mut self, turn: &WireTurn, effects: &mut Vec<Effect>) {
        if self.has_ended() {
            return;
        }
        for item in turn.items.iter().filter(|item| is_finished(item, &turn.status, true)) {
            self.projector.complete(item);
        }
        match &turn.status {
            // The turn completed before it could be stopped.
            TurnStatus::Completed if let Some(breach) = self.breach() => self.end_failed(breach, effects),
            TurnStatus::Completed => self.end(Ending::completed(), effects),
            TurnStatus::Interrupted => self.end_interrupted(effects),
            TurnStatus::Failed => {
                let failure = match turn.error.as_ref().or(self.last_error.as_ref()) {
                    Some(error) => Failure::of_turn(error, self.resets_at),
                    None => Failure::new(FailureKind::Model, "the turn failed and Codex did not say why"),
                };
                self.end_failed(failure, effects);
            }
            TurnStatus::InProgress | TurnStatus::Other(_) => {
                let message = format!("the turn ended with the unknown status {:?}", turn.status);
                self.end_failed(Failure::new(FailureKind::Protocol, message), effects);
            }
        }
    }

    /// The failure, if the turn is being stopped because its thread left its bounds.
    fn breach(&self) -> Option<Failure> {
        match &self.stop.as_ref()?.cause {
            cause @ StopCause::Breach(_) => cause.failure(),
            StopCause::User | StopCause::WorkLimit(_) | StopCause::IdleLimit(_) => None,
        }
    }

    pub(super) fn end_interrupted(&mut self, effects: &mut Vec<Effect>) {
        let error = match &self.stop {
            Some(stop) => stop.cause.failure(),
            None if self.ends_with_abort_marker() => {
                Some(Failure::new(FailureKind::Aborted, "codex reported turn_aborted"))
            }
            None => None,
        };
        let error = match error {
            None if self.is_compaction => {
                Some(Failure::new(FailureKind::Aborted, "compact turn interrupted"))
            }
            error => error,
        };
        // An interrupt leaves the commands of the turn running in the background (codex 0.166).
        if self.stop.is_some() && self.turn_id().is_some() {
            self.call(Outgoing::CleanTerminals, effects);
        }
        self.end(Ending { outcome: TurnOutcome::Interrupted, error, outcome_unknown: false }, effects);
    }

    pub(super) fn end_failed(&mut self, failure: Failure, effects: &mut Vec<Effect>) {
        self.end(
            Ending { outcome: TurnOutcome::Failed, error: Some(failure), outcome_unknown: false },
            effects,
        );
    }

    /// The outcome is unknown, and the turn may still run.
    pub(super) fn end_unknown(&mut self, failure: Failure, effects: &mut Vec<Effect>) {
        let outcome = if self.stop.is_some() { TurnOutcome::Interrupted } else { TurnOutcome::Failed };
        self.end(Ending { outcome, error: Some(failure), outcome_unknown: true }, effects);
    }

    /// The host has ended, and the turn with it.
    pub(super) fn end_lost(&mut self, how: &str, effects: &mut Vec<Effect>) {
        let failure = Failure::new(FailureKind::Lost, format!("codex app-server ended unexpectedly: {how}"));
        self.end(Ending { outcome: TurnOutcome::Lost, error: Some(failure), outcome_unknown: true }, effects);
    }

    fn end(&mut self, ending: Ending, effects: &mut Vec<Effect>) {
        if self.has_ended() {
            return;
        }
        let turn_id = self.turn_id().cloned();
        self.phase = Phase::Ended;
        if ending.outcome_unknown {
            self.refuse_open_requests(effects);
        }
        self.requests.orphan_all(effects);
        self.refuse_held(effects);
        self.refuse_waiting_steers(effects);
        self.fail_sent_steers("the turn ended before Codex answered", effects);
        let projection = std::mem::replace(&mut self.projector, Projector::new("")).finish();
        let should_retire = ending.error.as_ref().is_some_and(Failure::retires_session);
        effects.push(Effect::End(Box::new(TurnResult {
            outcome: ending.outcome,
            interrupted: ending.outcome == TurnOutcome::Interrupted,
            side_effects: if ending.outcome_unknown { projection.side_effects } else { Vec::new() },
            final_text: projection.final_text.unwrap_or_default(),
            projected_messages: projection.messages,
            other_items: projection.opaque,
            tool_iterations: projection.tool_iterations,
            compacted: projection.compacted,
            error: ending.error,
            turn_id,
            thread_id: Some(self.thread_id.clone()),
            usage: self.usage.take(),
            work_ms: 0,
            should_retire,
            outcome_unknown: ending.outcome_unknown,
        })));
    }

    pub(super) fn ends_with_abort_marker(&self) -> bool {
        self.projector.final_text().is_some_and(is_abort_marker)
    }
}

impl Ending {
    fn completed() -> Self {
        Self { outcome: TurnOutcome::Completed, error: None, outcome_unknown: false }
    }
}
