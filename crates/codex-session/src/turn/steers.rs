//! Steers: messages that are added to a running turn, each with one outcome.

use std::collections::BTreeSet;

use codex_wire::TurnId;
use codex_wire::call::UserInput;
use codex_wire::peer::CallError;

use super::{Effect, Outgoing, Phase, SteerOutcome, Turn, text_of};
use crate::projection::Echo;

/// Steers without an outcome.
#[derive(Debug, Default)]
pub(super) struct Steers {
    /// Steers that wait for the turn to run, or for a connection.
    waiting: Vec<(u64, Vec<UserInput>, Option<String>)>,
    sent: BTreeSet<u64>,
}

impl Turn {
    pub(super) fn on_steer(
        &mut self,
        token: u64,
        input: Vec<UserInput>,
        client_id: Option<String>,
        effects: &mut Vec<Effect>,
    ) {
        let outcome = match &self.phase {
            Phase::Ended => SteerOutcome::NoActiveTurn,
            _ if self.stop.is_some() => SteerOutcome::NoActiveTurn,
            _ if self.is_compaction => SteerOutcome::NotSteerable,
            Phase::Active(turn_id) if self.is_attached() && !self.reading_back => {
                let turn_id = turn_id.clone();
                self.projector.submitted(Echo { client_id: client_id.clone(), text: text_of(&input) });
                self.steers.sent.insert(token);
                return self.call(Outgoing::Steer { token, turn_id, input, client_id }, effects);
            }
            _ => return self.steers.waiting.push((token, input, client_id)),
        };
        effects.push(Effect::Steered { token, outcome });
    }

    pub(super) fn send_waiting_steers(&mut self, effects: &mut Vec<Effect>) {
        for (token, input, client_id) in std::mem::take(&mut self.steers.waiting) {
            self.on_steer(token, input, client_id, effects);
        }
    }

    pub(super) fn on_steer_reply(
        &mut self,
        token: u64,
        result: Result<Option<TurnId>, CallError>,
        effects: &mut Vec<Effect>,
    ) {
        if !self.steers.sent.remove(&token) {
            return;
        }
        let outcome = match result {
            Ok(Some(turn_id)) if self.turn_id() != Some(&turn_id) => {
                SteerOutcome::Unconfirmed("Codex added it to another turn".to_owned())
            }
            Ok(_) => SteerOutcome::Accepted,
            Err(CallError::Refused(error)) => read_refusal(&error.message),
            Err(error) => SteerOutcome::Unconfirmed(error.to_string()),
        };
        effects.push(Effect::Steered { token, outcome });
    }

    pub(super) fn refuse_waiting_steers(&mut self, effects: &mut Vec<Effect>) {
        for (token, ..) in std::mem::take(&mut self.steers.waiting) {
            effects.push(Effect::Steered { token, outcome: SteerOutcome::NoActiveTurn });
        }
    }

    /// No reply will come, so it is unknown whether Codex accepted them.
    pub(super) fn fail_sent_steers(&mut self, why: &str, effects: &mut Vec<Effect>) {
        for token in std::mem::take(&mut self.steers.sent) {
            effects.push(Effect::Steered { token, outcome: SteerOutcome::Unconfirmed(why.to_owned()) });
        }
    }
}

fn read_refusal(message: &str) -> SteerOutcome {
    let lower = message.to_lowercase();
    if lower.contains("no active turn") {
        SteerOutcome::NoActiveTurn
    } else if lower.contains("expected active turn") {
        SteerOutcome::WrongTurn
    } else if lower.contains("steerable")
        || lower.contains("cannot be steered")
        || lower.contains("cannot steer")
    {
        SteerOutcome::NotSteerable
    } else {
        SteerOutcome::Failed(message.to_owned())
    }
}
