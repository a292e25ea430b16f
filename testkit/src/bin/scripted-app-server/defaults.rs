//! What the server does for a method without a rule: what codex 0.166 does for an ordinary client.

use serde_json::{Value, json};
use testkit::script::{self, Step, item};

use crate::state::Thread;

/// What is known when a call without a rule comes in.
pub struct Situation<'a> {
    /// Whether the connection has called `initialize` before.
    pub initialized: bool,
    /// The parameters of the call.
    pub params: &'a Value,
    /// What is known of its thread.
    pub thread: &'a Thread,
}

/// The steps for this call.
pub fn steps(method: &str, situation: &Situation<'_>) -> Vec<Step> {
    match (method, situation.initialized) {
        ("initialize", false) => return vec![script::reply(initialize_result(situation.params))],
        ("initialize", true) => return vec![refusal("Already initialized")],
        (_, false) => return vec![refusal("Not initialized")],
        _ => {}
    }
    match method {
        "thread/start" => opened(script::reply_thread()),
        "thread/fork" => opened(script::reply(json!("$fork_result"))),
        "thread/resume" => vec![script::reply_resume()],
        "turn/start" if situation.thread.active => vec![script::reply_turn()],
        "turn/start" => vec![script::happy_turn("done")],
        "turn/steer" => steer(situation),
        "turn/interrupt" => interrupt(situation),
        "thread/compact/start" => compact(),
        _ => plain(method),
    }
}

fn opened(answer: Step) -> Vec<Step> {
    vec![answer, script::notify("thread/started", json!({ "thread": "$thread_object" }))]
}

fn initialize_result(params: &Value) -> Value {
    let name = params["clientInfo"]["name"].as_str().unwrap_or("unknown");
    let client_version = params["clientInfo"]["version"].as_str().unwrap_or("0");
    json!({
        "userAgent": format!("{name}/$version (Scripted 1.0; x86_64) dumb ({name}; {client_version})"),
        "codexHome": std::env::var("CODEX_HOME").unwrap_or_else(|_| "/codex".into()),
        "platformFamily": "unix",
        "platformOs": "linux",
    })
}

fn steer(situation: &Situation<'_>) -> Vec<Step> {
    let expected = situation.params["expectedTurnId"].as_str().unwrap_or_default();
    if !situation.thread.active {
        vec![refusal("no active turn to steer")]
    } else if expected == situation.thread.turn {
        vec![script::reply(json!({ "turnId": "$turn" }))]
    } else {
        vec![refusal(&format!("expected active turn id `{expected}` but found `$turn`"))]
    }
}

fn interrupt(situation: &Situation<'_>) -> Vec<Step> {
    let wanted = situation.params["turnId"].as_str().unwrap_or_default();
    let answer = script::reply(json!({}));
    match (situation.thread.active, wanted) {
        // codex 0.166: an empty turn id is whatever runs, and nothing running is fine too
        (false, "") => vec![answer],
        (false, _) => vec![refusal("no active turn to interrupt")],
        (true, wanted) if wanted.is_empty() || wanted == situation.thread.turn => {
            vec![answer, script::status_idle(), script::interrupted()]
        }
        (true, wanted) => vec![refusal(&format!("expected active turn id {wanted} but found $turn"))],
    }
}

fn compact() -> Vec<Step> {
    vec![
        script::reply(json!({})),
        script::status_active(),
        script::started(),
        item::compaction().lifecycle(),
        script::token_usage(300, 1590),
        script::status_idle(),
        script::completed(),
    ]
}

fn plain(method: &str) -> Vec<Step> {
    let result = match method {
        "thread/read" => json!("$read_result"),
        "thread/turns/list" => json!("$turns_page"),
        "thread/items/list" => json!("$items_page"),
        "thread/list" => json!({ "data": [], "readStates": {}, "nextCursor": null, "backwardsCursor": null }),
        "model/list" => json!({ "data": [], "nextCursor": null }),
        "thread/loaded/list" => json!({ "data": ["$thread"], "nextCursor": null }),
        "thread/unsubscribe" => json!({ "status": "unsubscribed" }),
        "account/read" => json!({ "account": null, "requiresOpenaiAuth": false, "workspaceRouting": null }),
        // What the sandbox of the real one does with a path that is denied.
        // As a command that runs, and may not read what it tries to.
        "command/exec" => json!({ "exitCode": 1, "stdout": "ran\n", "stderr": "Permission denied" }),
        "thread/archive"
        | "thread/unarchive"
        | "thread/delete"
        | "thread/name/set"
        | "thread/backgroundTerminals/clean" => {
            json!({})
        }
        unknown => {
            return vec![refusal(&format!(
                "Invalid request: unknown variant `{unknown}`, expected one of `…`"
            ))];
        }
    };
    vec![script::reply(result)]
}

fn refusal(message: &str) -> Step {
    // codex 0.166: -32600 for everything that it refuses, unknown methods too
    script::reply_error(-32600, message)
}
