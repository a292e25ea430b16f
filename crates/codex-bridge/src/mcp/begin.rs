//! How a call begins: work is handed over under a name, or found again by it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::access::Access;
use super::arguments::{Asked, Begin};
use super::call::RECONNECT_AFTER;
use super::request_form::FASTEST;
use super::turn::TurnRef;
use crate::amount::now_ms;
use crate::calls::Prompt;
use crate::failure::{Code, Failure};
use crate::view::{AskedTurn, Task};

/// How often the work is handed over again to a daemon that went away meanwhile. The name makes it safe.
const HAND_OVERS: u32 = 3;

/// What a client that was asked for input brings back. It is only a reference: whoever changes it gets at nothing that
/// the daemon would not show and let them do anyway, so it needs no seal.
#[derive(Serialize, Deserialize)]
pub struct State {
    /// The turn, by its name.
    pub task: String,
    /// The caller's name for the call.
    pub name: String,
    /// The last line that was told.
    pub told: i64,
    /// When it was asked for input, in milliseconds since 1970.
    pub asked_at: i64,
}

impl State {
    /// As the client gets it.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether the client brings it back sooner than a person can have answered.
    pub fn is_too_soon(&self) -> bool {
        let taken = now_ms().saturating_sub(self.asked_at);
        u64::try_from(taken).is_ok_and(|taken| Duration::from_millis(taken) < FASTEST)
    }

    /// As the client brings it back.
    pub fn read(text: &str) -> Result<Self, Failure> {
        serde_json::from_str(text)
            .map_err(|_| Failure::new(Code::BadCall, "this requestState is not one of ours"))
    }
}

/// Work that is under way.
pub struct Begun {
    /// The turn that was asked for.
    pub turn: TurnRef,
    /// The task, as it stood.
    pub task: Task,
    /// The last line that the client was told.
    pub told: i64,
    /// The name under which the call can be repeated.
    pub client_request_id: String,
}

/// Goes on where the client was asked for input.
pub async fn take_up(access: &Access, state: State) -> Result<Begun, Failure> {
    let turn = TurnRef::named(&state.task);
    let task = access.show(&turn.task_id).await?;
    Ok(Begun { turn, task, told: state.told, client_request_id: state.name })
}

/// Hands the work over, or finds what was handed over under this name before.
pub async fn begin(access: &Access, asked: &Asked) -> Result<Begun, Failure> {
    let mut tries = 0;
    loop {
        tries += 1;
        match hand_over(access, asked).await {
            Err(failure) if failure.code == Code::DaemonGone && tries < HAND_OVERS => {
                sleep(RECONNECT_AFTER).await;
            }
            outcome => return outcome,
        }
    }
}

async fn hand_over(access: &Access, asked: &Asked) -> Result<Begun, Failure> {
    let name = asked.client_request_id.clone();
    let task = match &asked.begin {
        Begin::Start(start) => access.start(start).await?,
        Begin::Continue { thread, prompt } => {
            let turn = Prompt { prompt: prompt.clone(), client_request_id: Some(name.clone()) };
            access.continue_task(thread, turn).await?
        }
    };
    let asked = match (&asked.begin, task.turn) {
        (_, Some(turn)) => turn,
        (Begin::Start(_), None) => AskedTurn { number: 1, after: 0 },
        (Begin::Continue { .. }, None) => {
            let message = "the daemon is of an older version: it does not say which turn was asked for";
            return Err(Failure::new(Code::Internal, message).hint("restart it: `codex-bridge stop`"));
        }
    };
    let turn = TurnRef { task_id: task.task_id.clone(), number: asked.number };
    Ok(Begun { turn, task, told: asked.after, client_request_id: name })
}
