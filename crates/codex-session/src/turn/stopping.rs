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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopCause {
    /// Someone asked for it.
    User,
    /// It worked this many milliseconds.
    WorkLimit(Millis),
    /// It was silent this many milliseconds.
    IdleLimit(Millis),
    /// The thread left its bounds, in these words.
    Breach(String),
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

    /// What the caller is told when Codex never said that the turn has stopped.
    fn unconfirmed(&self) -> Failure {
        let message = "codex did not confirm the interrupt; its host is ended unless others work on it";
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
        self.stop = Some(Stop { cause, rung: Rung::Waiting, until: None });
        self.await_activity_to_stop(now);
        self.interrupt_if_stopping(now, effects);
    }

    /// A turn that was just accepted becomes active in a moment; only then it can be interrupted by its id. The
    /// reply to a prompt is waited for, as its call has a limit; that to a compaction tells nothing.
    pub(super) fn await_activity_to_stop(&mut self, now: Millis) {
        let is_about_to_run = match self.phase {
            _ if !self.is_attached() => false,
            Phase::Accepted(_) => true,
            Phase::Starting => self.is_compaction,
            Phase::Looking { .. } | Phase::Active(_) | Phase::Ended => false,
        };
        if let Some(stop) = self.stop.as_mut().filter(|stop| stop.rung == Rung::Waiting && is_about_to_run) {
            stop.until = Some(now + ACTIVE_LIMIT);
        }
    }

    /// Nothing can be asked without a connection.
    pub(super) fn pause_stop(&mut self) {
        if let Some(stop) = &mut self.stop {
            stop.until = None;
        }
    }

    /// The connection is back, and what was asked on the old one may be lost: asked again from the beginning.
    pub(super) fn take_up_stop(&mut self, now: Millis, effects: &mut Vec<Effect>) {
        if let Some(stop) = &mut self.stop {
            (stop.rung, stop.until) = (Rung::Waiting, None);
        }
        self.await_activity_to_stop(now);
        self.interrupt_if_stopping(now, effects);
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
                let failure = stop.cause.unconfirmed();
                // Its end may be among what is held.
                self.let_go_of_held(now, effects);
                self.end_unknown(failure, effects);
            }
        }
    }

    /// The host is gone, and the turn with it: at our wish, if we were ending it.
    pub(super) fn end_with_host(&mut self, how: &str, effects: &mut Vec<Effect>) {
        match self.stop.as_ref().filter(|stop| stop.rung == Rung::Draining) {
            Some(stop) => self.end_unknown(stop.cause.unconfirmed(), effects),
            None => self.end_lost(how, effects),
        }
    }
}
