//! Stopping a turn: ask Codex, wait for the confirmation, and escalate only as far as needed, never at the cost of
//! another task on the same host.

use super::{Effect, Millis, Outgoing, Phase, Turn};
use crate::failure::{Failure, FailureKind};

/// How long an accepted turn may take to become active. Codex refuses an interrupt by id before that.
const ACTIVE_LIMIT: Millis = 1_000;
/// How long Codex may take to confirm an interrupt.
const CONFIRM_LIMIT: Millis = 5_000;
/// How long a draining host may take to end.
const DRAIN_LIMIT: Millis = 10_000;

/// Why a turn is being stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopCause {
    /// On request.
    User,
    /// It has worked for this many milliseconds.
    WorkLimit(Millis),
    /// It was silent for this many milliseconds.
    IdleLimit(Millis),
    /// The thread left its bounds, with this explanation.
    Breach(String),
}

#[derive(Debug)]
pub(super) struct Stop {
    pub(super) cause: StopCause,
    stage: StopStage,
    until: Option<Millis>,
}

/// How far the stop has escalated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopStage {
    /// The turn's id is not known, or it is not active yet.
    Waiting,
    /// `turn/interrupt` was sent.
    Asked,
    /// `turn/interrupt` was sent again without an id, and background terminals were ended.
    Forced,
    /// The host is being drained.
    Draining,
}

impl Stop {
    pub(super) fn until(&self) -> Option<Millis> {
        self.until
    }
}

impl StopCause {
    /// The failure for the caller; `None` if the stop was requested.
    pub(super) fn failure(&self) -> Option<Failure> {
        let message = match self {
            Self::User => return None,
            Self::WorkLimit(limit) => format!("the turn timed out after {} s of work", seconds(*limit)),
            Self::IdleLimit(limit) => {
                format!("the turn was inactive for {} s; task incomplete", seconds(*limit))
            }
            Self::Breach(message) => return Some(Failure::new(FailureKind::Breach, message)),
        };
        Some(Failure::new(FailureKind::Timeout, message))
    }

    /// The failure for the caller when Codex did not confirm the stop.
    fn unconfirmed(&self) -> Failure {
        let message = "codex did not confirm the interrupt; its host is ended unless other tasks run on it";
        self.failure().unwrap_or_else(|| Failure::new(FailureKind::Unresponsive, message))
    }
}

#[expect(clippy::cast_precision_loss, reason = "for people; limits are far below 2^52 ms")]
fn seconds(limit: Millis) -> f64 {
    limit as f64 / 1000.0
}

impl Turn {
    pub(super) fn stop(&mut self, cause: StopCause, now: Millis, effects: &mut Vec<Effect>) {
        if self.stop.is_some() {
            return;
        }
        self.refuse_waiting_steers(effects);
        self.stop = Some(Stop { cause, stage: StopStage::Waiting, until: None });
        self.await_activity_to_stop(now);
        self.interrupt_if_stopping(now, effects);
    }

    /// An accepted turn becomes active in a moment, and can be interrupted by its id only then. The reply to a prompt
    /// is awaited, since its call has a limit. The reply to a compaction has no turn id.
    pub(super) fn await_activity_to_stop(&mut self, now: Millis) {
        let is_about_to_run = match self.phase {
            _ if !self.is_attached() => false,
            Phase::Accepted(_) => true,
            Phase::Starting => self.is_compaction,
            Phase::Looking { .. } | Phase::Active(_) | Phase::Ended => false,
        };
        if let Some(stop) =
            self.stop.as_mut().filter(|stop| stop.stage == StopStage::Waiting && is_about_to_run)
        {
            stop.until = Some(now + ACTIVE_LIMIT);
        }
    }

    /// Pauses the stop while there is no connection.
    pub(super) fn pause_stop(&mut self) {
        if let Some(stop) = &mut self.stop {
            stop.until = None;
        }
    }

    /// Starts the stop again on a new connection, since calls on the old one may be lost.
    pub(super) fn take_up_stop(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let Some(stop) = &mut self.stop {
            (stop.stage, stop.until) = (StopStage::Waiting, None);
        }
        self.await_activity_to_stop(now);
        self.interrupt_if_stopping(now, effects);
    }

    pub(super) fn interrupt_if_stopping(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let (Some(stop), Phase::Active(turn_id)) = (&mut self.stop, &self.phase)
            && stop.stage == StopStage::Waiting
            && self.detached_since.is_none()
        {
            (stop.stage, stop.until) = (StopStage::Asked, Some(now + CONFIRM_LIMIT));
            effects.push(Effect::Call(Outgoing::Interrupt { turn_id: turn_id.0.clone() }));
        }
    }

    pub(super) fn escalate_stop_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let Some(stop) = self.stop.as_mut().filter(|stop| stop.until.is_some_and(|until| now >= until))
        else {
            return;
        };
        let anything_running = || Effect::Call(Outgoing::Interrupt { turn_id: String::new() });
        match stop.stage {
            StopStage::Waiting => {
                (stop.stage, stop.until) = (StopStage::Asked, Some(now + CONFIRM_LIMIT));
                effects.push(anything_running());
            }
            StopStage::Asked => {
                (stop.stage, stop.until) = (StopStage::Forced, Some(now + CONFIRM_LIMIT));
                effects.extend([anything_running(), Effect::Call(Outgoing::CleanTerminals)]);
            }
            StopStage::Forced => {
                (stop.stage, stop.until) = (StopStage::Draining, Some(now + DRAIN_LIMIT));
                effects.push(Effect::DrainHost);
            }
            StopStage::Draining => {
                let failure = stop.cause.unconfirmed();
                // The end of the turn may be among the held inputs.
                self.process_or_drop_held(now, effects);
                self.end_unknown(failure, effects);
            }
        }
    }

    /// The host has ended, and the turn with it. If we were ending the host, the turn counts as stopped.
    pub(super) fn end_with_host(&mut self, how: &str, effects: &mut Vec<Effect>) {
        match self.stop.as_ref().filter(|stop| stop.stage == StopStage::Draining) {
            Some(stop) => self.end_unknown(stop.cause.unconfirmed(), effects),
            None => self.end_lost(how, effects),
        }
    }
}
