//! The results of `thread/start`, `thread/resume` and `turn/start`, and the ids in them.

use serde_json::{Value, json};

use super::Step;

/// The id of the `n`th thread that a scripted server starts, counted from 1.
pub fn thread_id(n: u64) -> String {
    format!("00000000-0000-7000-8000-{n:012}")
}

/// The id of the `n`th turn that a scripted server starts, counted from 1 over all threads.
pub fn turn_id(n: u64) -> String {
    format!("00000000-0000-7000-9000-{n:012}")
}

/// Answers `thread/start` as the real one does, with the client's settings echoed.
pub fn reply_thread() -> Step {
    Step::Reply(json!("$thread_result"))
}

/// Answers `thread/resume` as the real one does, with the thread's settings.
pub fn reply_resume() -> Step {
    Step::Reply(json!("$resume_result"))
}

/// Answers `turn/start` as the real one does.
pub fn reply_turn() -> Step {
    let mut turn = turn_object("inProgress");
    turn["itemsView"] = json!("notLoaded");
    for time in ["startedAt", "completedAt", "durationMs"] {
        turn[time] = Value::Null;
    }
    Step::Reply(json!({ "turn": turn }))
}

/// A turn as notifications carry it, without items.
pub fn turn_object(status: &str) -> Value {
    let ended = status != "inProgress";
    json!({
        "id": "$turn",
        "rootTurnId": "$turn",
        "items": [],
        "itemsView": if ended { "summary" } else { "notLoaded" },
        "status": status,
        "error": null,
        "startedAt": "$now_s",
        "completedAt": ended.then_some("$now_s"),
        "durationMs": ended.then_some(132),
    })
}
