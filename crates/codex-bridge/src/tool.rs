//! The `codex_bridge` tool for agents: one JSON call in, one JSON reply out.
//!
//! It keeps the names, defaults and reply fields of earlier bridges and adds its own; a snapshot pins them. A refusal is
//! a reply too: `{"success": false, "error", "code", "hint"}`.

mod actions;
mod call;
mod reply;
mod schema;

use codex_bridge_core::{Caller, Desk};
use serde_json::{Value, json};

use crate::calls;
use crate::failure::Failure;
use call::{Action, Call};

pub use schema::schema;

/// Answers one call.
pub async fn answer(desk: &Desk, caller: &Caller, tool: calls::Tool) -> Value {
    let caller = &caller.clone().by_tool();
    let call = match Call::read(tool.call) {
        Ok(call) => call,
        Err(failure) => return refusal(failure),
    };
    let reply = match call.action {
        Action::Start => actions::start(desk, caller, call, tool.caller_cwd).await,
        Action::Status => actions::status(desk, caller, &call).await,
        Action::List => actions::list(desk, caller, &call).await,
        Action::NotifyCompleted => actions::notify_completed(desk, caller, &call).await,
        Action::Steer => actions::steer(desk, caller, &call).await,
        Action::Interrupt | Action::Cancel => actions::interrupt(desk, caller, &call).await,
        Action::Respond => actions::respond(desk, caller, &call).await,
        Action::Continue => actions::continue_task(desk, caller, &call).await,
        Action::Wait => actions::wait(desk, caller, &call).await,
        Action::Events => actions::events(desk, caller, &call).await,
        Action::Result => actions::result(desk, caller, &call).await,
        Action::Fork => actions::fork(desk, caller, &call).await,
    };
    reply.unwrap_or_else(refusal)
}

/// A failure as a reply.
pub fn refusal(failure: Failure) -> Value {
    let Failure { code, message, hint } = failure;
    json!({ "success": false, "error": message, "code": code, "hint": hint })
}
