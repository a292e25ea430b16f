//! The running turn: its machine, its caller, and its posted calls.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use codex_wire::call::{CompactStart, ThreadTurnsList, TurnStart, TurnSteer};
use codex_wire::connection::Connection;
use codex_wire::peer::{CallError, read_reply};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

use crate::result::TurnResult;
use crate::session_event::EventWriter;
use crate::turn::{Millis, Reply, SteerOutcome, Turn};

pub(super) struct Running {
    pub(super) turn: Turn,
    pub(super) writer: EventWriter,
    /// The current or last connection. The stderr of its server explains an error.
    pub(super) connection: Connection,
    pub(super) reply: oneshot::Sender<TurnResult>,
    pub(super) steers: HashMap<u64, oneshot::Sender<SteerOutcome>>,
    /// Where the work time is published, if requested.
    pub(super) work_meter: Option<Arc<AtomicU64>>,
}

impl Running {
    pub(super) fn show_work(&self, now: Millis) {
        if let Some(meter) = &self.work_meter {
            meter.store(self.turn.worked_ms(now), Ordering::Relaxed);
        }
    }
}

/// A posted call, which determines how its reply is read.
#[derive(Debug, Clone, Copy)]
pub(super) enum Posted {
    Start,
    Compact,
    Steer(u64),
    Turns,
    /// The reply is ignored.
    Unwatched,
}

impl Posted {
    /// The reply as an input of the machine.
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
