//! Stopping a turn: ask Codex, wait for its word, and climb only as far as is needed, never at the cost of another
//! task on the same host.

use super::{Effect, Millis, Outgoing, Phase, Turn};
use crate::failure::{Failure, FailureKind};

/// How long a turn that was accepted may take to become active. An interrupt by id is refused before that.
const ACTIVE_LIMIT: Millis = 1_000;
/// How long Codex may take to confirm an interrupt.
const CONFIRM_LIMIT: Millis = 5_000;
/// How long a draining host may take to end.
const DRAIN_LIMIT: Millis = 10_000;

/// Why a turn is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopCause {
    /// Someone asked for it.
    User,
    /// It worked this many milliseconds.
    WorkLimit(Millis),
    /// It was silent this many milliseconds.
    IdleLimit(Millis),
}

#[derive(Debug)]
pub(super) struct Stop {
    pub(super) cause: StopCause,
    rung: Rung,
    until: Option<Millis>,
}

/// How far we have climbed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rung {
    /// The turn's id is not known, or it is not active yet.
    Waiting,
    /// `turn/interrupt` is out.
    Asked,
    /// And again, for whatever runs, its terminals included.
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
    /// What the caller is told; a person's own wish is no failure.
    pub(super) fn failure(self) -> Option<Failure> {
        let message = match self {
            Self::User => return None,
            Self::WorkLimit(limit) => format!("the turn timed out after {} s of work", seconds(limit)),
            Self::IdleLimit(limit) => {
                format!("the turn was inactive for {} s; task incomplete", seconds(limit))
            }
        };
        Some(Failure::new(FailureKind::Timeout, message))
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
        for (token, _) in std::mem::take(&mut self.waiting_steers) {
            effects.push(Effect::Steered { token, outcome: super::SteerOutcome::NoActiveTurn });
        }
        self.stop = Some(Stop { cause, rung: Rung::Waiting, until: None });
        self.await_activity_to_stop(now);
        self.interrupt_if_stopping(now, effects);
    }

    /// A turn that was just accepted becomes active in a moment; only then it can be interrupted by its id.
    pub(super) fn await_activity_to_stop(&mut self, now: Millis) {
        if let Some(stop) = &mut self.stop
            && stop.rung == Rung::Waiting
            && matches!(self.phase, Phase::Accepted(_))
        {
            stop.until = Some(now + ACTIVE_LIMIT);
        }
    }

    pub(super) fn interrupt_if_stopping(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let (Some(stop), Phase::Active(turn_id)) = (&mut self.stop, &self.phase)
            && stop.rung == Rung::Waiting
            && self.detached_since.is_none()
        {
            (stop.rung, stop.until) = (Rung::Asked, Some(now + CONFIRM_LIMIT));
            effects.push(Effect::Call(Outgoing::Interrupt { turn_id: turn_id.0.clone() }));
        }
    }

    pub(super) fn climb_if_due(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        let Some(stop) = self.stop.as_mut().filter(|stop| stop.until.is_some_and(|until| now >= until))
        else {
            return;
        };
        let anything_running = || Effect::Call(Outgoing::Interrupt { turn_id: String::new() });
        match stop.rung {
            Rung::Waiting => {
                (stop.rung, stop.until) = (Rung::Asked, Some(now + CONFIRM_LIMIT));
                effects.push(anything_running());
            }
            Rung::Asked => {
                (stop.rung, stop.until) = (Rung::Forced, Some(now + CONFIRM_LIMIT));
                effects.extend([anything_running(), Effect::Call(Outgoing::CleanTerminals)]);
            }
            Rung::Forced => {
                (stop.rung, stop.until) = (Rung::Draining, Some(now + DRAIN_LIMIT));
                effects.push(Effect::DrainHost);
            }
            Rung::Draining => {
                let failure = stop.cause.failure().unwrap_or_else(|| {
                    Failure::new(
                        FailureKind::Unresponsive,
                        "codex did not confirm the interrupt; its host is drained",
                    )
                });
                self.end_unknown(failure, effects);
            }
        }
    }
}
