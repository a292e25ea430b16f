//! A turn that runs: the machine, whoever waits for its result, and what it has posted.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codex_wire::call::{CompactStart, ThreadTurnsList, TurnStart, TurnSteer};
use codex_wire::connection::Connection;
use codex_wire::peer::{CallError, read_reply};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::narration::Narrator;
use crate::result::TurnResult;
use crate::turn::{Millis, Reply, SteerOutcome, Turn};

pub(super) struct Running {
    pub(super) turn: Turn,
    pub(super) narrator: Narrator,
    /// The connection that it runs on, or ran on last: its server's last words explain an error.
    pub(super) connection: Connection,
    pub(super) reply: oneshot::Sender<TurnResult>,
    pub(super) steers: HashMap<u64, oneshot::Sender<SteerOutcome>>,
    /// Where the turn's work is shown, if somebody wants to see it.
    pub(super) work_meter: Option<Arc<AtomicU64>>,
}

impl Running {
    pub(super) fn show_work(&self, now: Millis) {
        if let Some(meter) = &self.work_meter {
            meter.store(self.turn.worked_ms(now), Ordering::Relaxed);
        }
    }
}

/// A call that was posted for the turn, to read its reply by.
#[derive(Debug, Clone, Copy)]
pub(super) enum Posted {
    Start,
    Compact,
    Steer(u64),
    Turns,
    /// Nobody waits for it.
    Unwatched,
}

impl Posted {
    /// The reply as the machine wants it.
    pub(super) fn read(self, result: Result<Box<RawValue>, CallError>) -> Option<Reply> {
        Some(match self {
            Self::Start => Reply::Start(
                result.and_then(|raw| read_reply::<TurnStart>(&raw)).map(|started| started.turn.id),
            ),
            Self::Compact => {
                Reply::Compact(result.and_then(|raw| read_reply::<CompactStart>(&raw)).map(|_| ()))
            }
            Self::Steer(token) => {
                let result =
                    result.and_then(|raw| read_reply::<TurnSteer>(&raw)).map(|steered| steered.turn_id);
                Reply::Steer { token, result }
            }
            Self::Turns => {
                Reply::Turns(result.and_then(|raw| read_reply::<ThreadTurnsList>(&raw)).map(|page| page.data))
            }
            Self::Unwatched => return None,
        })
    }
}
