//! The script of a scripted app-server: what it does when a client calls a method.
//!
//! A script is plain JSON on disk; in Rust it is put together from the step builders in this module,
//! which carry the shapes of codex 0.166.
//!
//! ```
//! use testkit::script::{self, Script};
//!
//! let written: Script = serde_json::from_str(
//!     r#"{ "rules": [{ "method": "turn/start", "nth": 2, "steps": [
//!         { "stderr": "out of memory" },
//!         { "exit": { "code": 3 } }
//!     ] }] }"#,
//! )
//! .unwrap();
//! let built = Script::new().on_nth("turn/start", 2, [script::stderr("out of memory"), script::exit(3)]);
//! assert_eq!(written, built);
//! ```
//!
//! # Templates
//! In every string of a reply, notification or request these names are replaced when the step is played:
//!
//! | name | becomes |
//! |---|---|
//! | `$thread` | the thread that the client's message is about (a new id for `thread/start`) |
//! | `$turn` | the turn that the message began, else the thread's latest turn |
//! | `$item` | the id of the innermost [`Step::FreshItem`], counted over all: `item_000001` is the first |
//! | `$n` | the round of the innermost [`Step::Repeat`] from 0, else how often the method was called before |
//! | `$prompt` | the text of the turn's input |
//! | `$now_us` | the time in microseconds since 1970, for measuring |
//! | `$cwd`, `$dir`, `$version` | the thread's directory, the directory of the script, the scripted version |
//!
//! A string that is nothing but one of these becomes a value of its own type: `$index` (the number `$n`),
//! `$now_ms` and `$now_s` (the time), `$input` and `$client_id` (of the turn's `turn/start`), `$summary`
//! (the last agent message of the turn, as an array), `$thread_object` (as in `thread/started`), and the
//! whole results `$thread_result`, `$resume_result`, `$fork_result`, `$read_result`, `$turns_page` and
//! `$items_page`: with the client's settings echoed, and with the turns that were played so far.
//! An object with a key `$extends` becomes the value of that template with its other keys set in it.

mod edit;
mod events;
pub mod item;
mod requests;
mod shapes;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use events::{
    compacted, completed, completed_without_message, delta, diff, error_final, error_retried, failed,
    failed_without_error, happy_turn, interrupted, message, message_in_phase, rate_limits, reasoning_delta,
    started, status_active, status_idle, status_system_error, status_waiting_on_approval, streamed_message,
    token_usage, warning,
};
pub use item::Item;
pub use requests::{
    attestation, child_started, command_approval, command_request, current_time, elicitation_form,
    elicitation_url, file_approval, file_request, mcp_tool_approval, permissions_request, resolved,
    token_refresh, tool_call, unknown_request, user_input_request,
};
pub use shapes::{reply_resume, reply_thread, reply_turn, thread_id, turn_id, turn_object};

/// The version that a scripted server claims unless told otherwise.
pub const VERSION: &str = "0.166.0";

/// What a scripted app-server does; a method without a rule gets what the real one would answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use]
pub struct Script {
    /// What `--version`, the user agent and the threads say.
    #[serde(default = "default_version")]
    pub version: String,
    /// Played on every new connection before anything is read from it.
    #[serde(default)]
    pub at_open: Vec<Step>,
    /// What to do for which client method.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// Whether end of input and SIGTERM leave the process running, so that only a kill ends it.
    #[serde(default)]
    pub stubborn: bool,
}

/// What to play when the client calls a method.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The client's method; a notification of the client, such as `initialized`, matches too.
    pub method: String,
    /// Which call it is for, counted from 1; a rule without it is for all calls that no other names.
    #[serde(default)]
    pub nth: Option<u64>,
    /// What is played, in order.
    pub steps: Vec<Step>,
}

/// One step of a rule. Rules of several calls are played side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[must_use]
pub enum Step {
    /// Answers the client's call.
    Reply(Value),
    /// Answers the client's call with an error.
    #[serde(rename_all = "camelCase")]
    ReplyError {
        /// The JSON-RPC error code.
        code: i64,
        /// What went wrong.
        message: String,
        /// More about it; left out when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        data: Option<Value>,
    },
    /// Does what a server without a rule for this method does.
    Default,
    /// Sends a notification.
    Notify {
        /// Its method.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// Asks the client for something.
    Request {
        /// An integer or a string, sent in just that type.
        id: Value,
        /// The method asked for.
        method: String,
        /// Its parameters.
        params: Value,
    },
    /// Goes on when the client has answered the request with this very id, type included.
    AwaitAnswer(Value),
    /// Goes on when the client has called this method since the rule began; each such step takes one call.
    AwaitMethod(String),
    /// Goes on when this file exists.
    AwaitFile(String),
    /// Goes on when the connection that began the rule is gone.
    AwaitDisconnect,
    /// Waits.
    #[serde(rename_all = "camelCase")]
    Pause {
        /// How long.
        millis: u64,
    },
    /// Writes bytes as they are. On a socket: one text frame, or a binary one if they are not UTF-8.
    Raw(Vec<u8>),
    /// Sends a valid notification, `test/bigLine`, whose line has this many bytes without the newline.
    BigLine {
        /// Size of the line.
        bytes: usize,
    },
    /// Writes the beginning of a line. On a socket: a first fragment that is not the last.
    HalfLine(String),
    /// Writes to stderr, with a newline.
    Stderr(String),
    /// Ends the process after everything before it was written.
    Exit {
        /// The exit code.
        code: i32,
    },
    /// Closes stdout for good while the process lives on. On a socket: drops the connection.
    CloseStdout,
    /// Never goes on.
    Hang,
    /// Plays the steps this often.
    Repeat {
        /// How often.
        count: u64,
        /// What is played.
        steps: Vec<Step>,
    },
    /// Plays the steps in order.
    Group(Vec<Step>),
    /// Plays the steps in order with a new `$item`.
    FreshItem(Vec<Step>),
}

impl Default for Script {
    fn default() -> Self {
        Self { version: default_version(), at_open: Vec::new(), rules: Vec::new(), stubborn: false }
    }
}

impl Script {
    /// A server that behaves like the real one; a turn answers `done`.
    pub fn new() -> Self {
        Self::default()
    }

    /// Plays `steps` for every call of `method` that no other rule names.
    pub fn on(mut self, method: &str, steps: impl IntoIterator<Item = Step>) -> Self {
        self.rules.push(Rule { method: method.into(), nth: None, steps: steps.into_iter().collect() });
        self
    }

    /// Plays `steps` for the `nth` call of `method`, counted from 1.
    pub fn on_nth(mut self, method: &str, nth: u64, steps: impl IntoIterator<Item = Step>) -> Self {
        self.rules.push(Rule { method: method.into(), nth: Some(nth), steps: steps.into_iter().collect() });
        self
    }

    /// Plays `steps` on every new connection before anything is read from it.
    pub fn at_open(mut self, steps: impl IntoIterator<Item = Step>) -> Self {
        self.at_open.extend(steps);
        self
    }

    /// Claims another version of Codex.
    pub fn version(mut self, version: &str) -> Self {
        self.version = version.into();
        self
    }

    /// Outlives end of input and SIGTERM: only a kill ends it.
    pub fn stubborn(mut self) -> Self {
        self.stubborn = true;
        self
    }

    /// The rule for the `nth` call of `method`: the one that names it, else the general one.
    pub fn rule_for(&self, method: &str, nth: u64) -> Option<&Rule> {
        let of_method = || self.rules.iter().filter(|rule| rule.method == method);
        of_method().find(|rule| rule.nth == Some(nth)).or_else(|| of_method().find(|rule| rule.nth.is_none()))
    }
}

fn default_version() -> String {
    VERSION.into()
}

/// Answers the client's call.
pub fn reply(result: Value) -> Step {
    Step::Reply(result)
}

/// Answers the client's call with an error.
pub fn reply_error(code: i64, message: &str) -> Step {
    Step::ReplyError { code, message: message.into(), data: None }
}

/// Answers the client's call with an error that carries data.
pub fn reply_error_with(code: i64, message: &str, data: Value) -> Step {
    Step::ReplyError { code, message: message.into(), data: Some(data) }
}

/// The refusal of an overloaded server.
pub fn overloaded() -> Step {
    // codex 0.166: the sentence that bursts of requests get
    reply_error(-32001, "Server overloaded; retry later.")
}

/// Says in a script that the call gets no answer.
pub fn no_reply() -> Step {
    Step::Group(Vec::new())
}

/// Does what a server without a rule for this method does.
pub fn default_steps() -> Step {
    Step::Default
}

/// Sends any notification.
pub fn notify(method: &str, params: Value) -> Step {
    Step::Notify { method: method.into(), params }
}

/// Asks the client for anything.
pub fn request(id: impl Into<Value>, method: &str, params: Value) -> Step {
    Step::Request { id: id.into(), method: method.into(), params }
}

/// Goes on when the client has answered the request with this id.
pub fn await_answer(id: impl Into<Value>) -> Step {
    Step::AwaitAnswer(id.into())
}

/// Goes on when the client has called `method` since the rule began.
pub fn await_method(method: &str) -> Step {
    Step::AwaitMethod(method.into())
}

/// Goes on when the test has called [`crate::ScriptedServer::release`] with this name.
pub fn await_release(name: &str) -> Step {
    Step::AwaitFile(format!("$dir/{name}.release"))
}

/// Goes on when the client has gone.
pub fn await_disconnect() -> Step {
    Step::AwaitDisconnect
}

/// Writes bytes without a newline.
pub fn raw(bytes: impl Into<Vec<u8>>) -> Step {
    Step::Raw(bytes.into())
}

/// Writes bytes as a line.
pub fn raw_line(bytes: impl Into<Vec<u8>>) -> Step {
    let mut bytes = bytes.into();
    bytes.push(b'\n');
    Step::Raw(bytes)
}

/// Sends a valid notification of just this many bytes.
pub fn big_line(bytes: usize) -> Step {
    Step::BigLine { bytes }
}

/// Writes half a line; follow it with [`hang`] for silence.
pub fn half_line(text: &str) -> Step {
    Step::HalfLine(text.into())
}

/// Writes a line to stderr.
pub fn stderr(text: &str) -> Step {
    Step::Stderr(text.into())
}

/// Ends the process after everything before it was written.
pub fn exit(code: i32) -> Step {
    Step::Exit { code }
}

/// Closes stdout, or drops the connection on a socket.
pub fn close_stdout() -> Step {
    Step::CloseStdout
}

/// Never goes on.
pub fn hang() -> Step {
    Step::Hang
}

/// Plays the steps `count` times as fast as it can; `$n` counts the rounds.
pub fn flood(count: u64, steps: impl IntoIterator<Item = Step>) -> Step {
    Step::Repeat { count, steps: steps.into_iter().collect() }
}

/// Several steps as one.
pub fn group(steps: impl IntoIterator<Item = Step>) -> Step {
    Step::Group(steps.into_iter().collect())
}

/// Several steps as one that share a new `$item`.
pub fn fresh_item(steps: impl IntoIterator<Item = Step>) -> Step {
    Step::FreshItem(steps.into_iter().collect())
}
