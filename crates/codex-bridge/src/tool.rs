//! The `codex_bridge` tool: one JSON call in, one JSON reply out, for agents of any kind.
//!
//! Names, defaults and reply fields are those that users of earlier bridges know, beside our own; a golden file pins
//! them. A refusal is a reply too: `{"success": false, "error", "code", "hint"}`.

mod actions;
mod call;
mod reply;
mod schema;

use serde_json::{Value, json};

use crate::calls;
use crate::failure::Failure;
use crate::http::{App, Caller};
use call::{Action, Call};

pub use schema::schema;

/// Answers one call.
pub async fn answer(app: &App, caller: &Caller, tool: calls::Tool) -> Value {
    let call = match Call::read(tool.call) {
        Ok(call) => call,
        Err(failure) => return refusal(failure),
    };
    if let Err(failure) = caller.may(call.action.needs()) {
        return refusal(failure);
    }
    if let Err(failure) = actions::within_reach(app, caller, &call).await {
        return refusal(failure);
    }
    if let Err(failure) = actions::note(app, caller, &call).await {
        return refusal(failure);
    }
    let done = match call.action {
        Action::Start => actions::start(app, caller, call, tool.caller_cwd).await,
        Action::Status => actions::status(app, &call).await,
        Action::List => actions::list(app, &call).await,
        Action::NotifyCompleted => actions::notify_completed(app, caller, &call).await,
        Action::Steer => actions::steer(app, caller, &call).await,
        Action::Interrupt | Action::Cancel => actions::interrupt(app, &call).await,
        Action::Respond => actions::respond(app, caller, &call).await,
        Action::Continue => actions::continue_task(app, caller, &call).await,
        Action::Wait => actions::wait(app, &call).await,
        Action::Events => actions::events(app, &call).await,
        Action::Result => actions::result(app, &call).await,
        Action::Fork => actions::fork(app, caller, &call).await,
    };
    done.unwrap_or_else(refusal)
}

/// A failure as a reply.
pub fn refusal(failure: Failure) -> Value {
    let Failure { code, message, hint } = failure;
    json!({ "success": false, "error": message, "code": code, "hint": hint })
}
