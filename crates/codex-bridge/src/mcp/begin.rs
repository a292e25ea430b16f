//! The start of a call: hands over its work under a name, or finds the work that was handed over under this name.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::sleep;

use super::access::Access;
use super::arguments::{Arguments, Work};
use super::call::RECONNECT_AFTER;
use super::request_form::MIN_ANSWER_TIME;
use super::turn::TurnRef;
use crate::amount::now_ms;
use crate::calls::Prompt;
use crate::failure::{Code, Failure};
use crate::view::{AskedTurn, Task};

/// How often the work is handed over if the daemon goes away meanwhile. The name makes repetitions safe.
const MAX_ATTEMPTS: u32 = 3;

/// The `requestState` that a client returns with the input it was asked for. It needs no seal: it is only a reference, and
/// the daemon checks what the caller may see and do.
#[derive(Serialize, Deserialize)]
pub struct State {
    /// The name of the turn.
    pub task: String,
    /// The caller's name for the request.
    pub name: String,
    /// The last event that the client was told about.
    pub told: i64,
    /// When the client was asked for input, in milliseconds since 1970.
    pub asked_at: i64,
}

impl State {
    /// The text for the client.
    pub fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Whether the client answered faster than a person can.
    pub fn is_too_soon(&self) -> bool {
        let elapsed = now_ms().saturating_sub(self.asked_at);
        u64::try_from(elapsed).is_ok_and(|elapsed| Duration::from_millis(elapsed) < MIN_ANSWER_TIME)
    }

    /// Parses the text from the client.
    pub fn read(text: &str) -> Result<Self, Failure> {
        serde_json::from_str(text)
            .map_err(|_| Failure::new(Code::BadCall, "this requestState was not made by codex-bridge"))
    }
}

/// Work that has been handed over.
pub struct Begun {
    /// The turn of this call.
    pub turn: TurnRef,
    /// The task at that time.
    pub task: Task,
    /// The last event that the client was told about.
    pub last_event: i64,
    /// The name under which the call can be repeated.
    pub client_request_id: String,
}

/// Resumes a call whose client was asked for input.
pub async fn resume(access: &Access, state: State) -> Result<Begun, Failure> {
    let turn = TurnRef::named(&state.task);
    let task = access.show(&turn.task_id).await?;
    Ok(Begun { turn, task, last_event: state.told, client_request_id: state.name })
}

/// Hands over the work, or finds what was handed over under this name before.
pub async fn begin(access: &Access, arguments: &Arguments) -> Result<Begun, Failure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match hand_over(access, arguments).await {
            Err(failure) if failure.code == Code::DaemonGone && attempts < MAX_ATTEMPTS => {
                sleep(RECONNECT_AFTER).await;
            }
            outcome => return outcome,
        }
    }
}

async fn hand_over(access: &Access, arguments: &Arguments) -> Result<Begun, Failure> {
    let name = arguments.client_request_id.clone();
    let task = match &arguments.work {
        Work::Start(start) => access.start(start).await?,
        Work::Continue { thread, prompt } => {
            let turn = Prompt { prompt: prompt.clone(), client_request_id: Some(name.clone()) };
            access.continue_task(thread, turn).await?
        }
    };
    let asked = match (&arguments.work, task.turn) {
        (_, Some(turn)) => turn,
        (Work::Start(_), None) => AskedTurn { number: 1, after: 0 },
        (Work::Continue { .. }, None) => {
            let message = "the daemon is too old: its reply does not name the turn";
            return Err(Failure::new(Code::Internal, message).hint("restart the daemon: `codex-bridge stop`"));
        }
    };
    let turn = TurnRef { task_id: task.task_id.clone(), number: asked.number };
    Ok(Begun { turn, task, last_event: asked.after, client_request_id: name })
}
