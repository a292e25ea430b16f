//! What the model will say: scenarios, as plain data and as a builder.
//!
//! A [`Scenario`] is a list of [`Response`]s, one for each request that Codex makes within a turn: the first
//! one, then the one after the outputs of the tools that it called, and so on. A response is a list of
//! [`Step`]s. This module knows nothing of HTTP, of sockets or of how an event is written.
//!
//! ```
//! use scripted_model::Scenario;
//!
//! let scenario = Scenario::new().say("I will look.").then_exec("touch x").then_say("Done.");
//! assert_eq!(scenario.responses().len(), 2); // text and call together, then the closing words
//! ```
//!
//! # Tools of `gpt-5.5` under codex 0.166
//!
//! Seen in the `tools` array of real requests; [`ToolCall`] has a constructor for each.
//!
//! | tool | kind | arguments |
//! |---|---|---|
//! | `exec_command` | function | `cmd`, and optionally `workdir`, `shell`, `login`, `tty`, `yield_time_ms`, `max_output_tokens`, `sandbox_permissions` (`use_default`, `with_additional_permissions`, `require_escalated`), `justification`, `prefix_rule`, `additional_permissions` |
//! | `write_stdin` | function | `session_id` (the number in the text of the exec output), `chars`, `yield_time_ms`, `max_output_tokens` |
//! | `apply_patch` | **custom** (free form) | the patch text itself, `*** Begin Patch` … `*** End Patch` |
//! | `request_user_input` | function | `questions: [{id, header, question, options: [{label, description}]}]`, 1 to 3 of them, 2 to 3 options each; usable in default mode with `features.default_mode_request_user_input` |
//! | `request_permissions` | function | `permissions: {file_system: {read, write}, network: {enabled}}`, `reason`; with `features.request_permissions_tool` |
//! | `view_image` | function | `path`, `detail` |
//! | `get_goal`, `create_goal`, `update_goal` | function | |
//! | dynamic tools | function | as given in `thread/start` with `dynamicTools: [{type: "function", name, description, inputSchema}]`; those of a `{type: "namespace", name, description, tools}` carry `namespace` |
//! | tools of MCP servers | function | `namespace` is `mcp__SERVER`. They are held back from `tools` (the model would find them by `tool_search`), yet a call without a search works |
//! | `list_mcp_resources`, `list_mcp_resource_templates`, `read_mcp_resource` | function | only with an MCP server |
//! | `tool_search` | of its own kind | `query`, `limit`; finds tools that were held back |
//! | `web_search` | hosted | runs at the provider |
//!
//! Outputs come back in the next request as `function_call_output` (text, or for MCP a list of `input_text`
//! parts) and `custom_tool_call_output`, with the `call_id` of the call, which is also the `itemId` of the item
//! and of its approval. Two calls in one response run in parallel; both outputs are in the next request.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

mod build;
mod failure;
mod inline;
mod tool;

pub use inline::Error as InlineError;
pub use tool::{Question, ToolCall};

/// The words before an inline script in a prompt: what follows is played instead of a registered scenario.
pub const INLINE_MARKER: &str = "[play]";

/// How Codex's automatic reviewer begins its prompts, which quote the turn under review.
///
/// The reviewer is a model session of its own on the same provider. Its verdict is JSON, such as
/// `{"outcome": "allow", "risk_level": "low", "user_authorization": "high", "rationale": "…"}`; only `outcome`,
/// `allow` or `deny`, is required. Unless scripted otherwise the answer is `deny`.
pub const REVIEW_PROMPT: &str = "The following is the Codex agent history";

/// How Codex begins the prompt by which it compacts a thread. Unless scripted otherwise a short summary answers.
pub const COMPACTION_PROMPT: &str = "You are performing a CONTEXT CHECKPOINT COMPACTION.";

/// One turn of the model: a response for each request that Codex makes in it.
///
/// When a turn asks for more responses than there are, the model closes it with a short message. As JSON, a
/// scenario is the list of its responses:
///
/// ```
/// use scripted_model::Scenario;
///
/// let json = r#"[
///     {"steps": [
///         {"say": {"chunks": ["I will ", "look."], "phase": "commentary"}},
///         {"call": {"function": {"name": "exec_command", "arguments": {"cmd": "ls"}}}}
///     ]},
///     {"times": 1, "headers": {"retry-after": "1"}, "steps": [{"http": {"status": 429, "body": {}}}]},
///     {"steps": [{"stall": {"name": "gate"}}, {"say": {"chunks": ["Done."]}}]}
/// ]"#;
/// let scenario: Scenario = serde_json::from_str(json).unwrap();
/// assert_eq!(scenario.pick(1, 0).unwrap().times, Some(1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
#[must_use]
pub struct Scenario {
    responses: Vec<Response>,
}

/// The answer to one request: headers, and what is streamed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[must_use]
pub struct Response {
    /// Played for this many attempts only; then the response after it answers the same request.
    /// `None`: every attempt from here on. An attempt is a repeat of the request by Codex after a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Response headers beside `content-type`, such as `retry-after` or `x-codex-primary-used-percent`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing that the model does in a response.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// A whole message, streamed in these chunks.
    Say {
        chunks: Vec<String>,
        #[serde(default)]
        phase: Option<Phase>,
    },
    /// A piece of a message that stays open: more deltas continue it, the next whole item or the end of the
    /// response completes it, a cut leaves it incomplete.
    Delta {
        text: String,
        #[serde(default)]
        phase: Option<Phase>,
    },
    /// The same delta many times, as quickly as the reader takes it.
    Flood { deltas: u32, text: String },
    /// A reasoning item with its summary parts.
    Reason { summary: Vec<String> },
    /// A tool call. Several in one response run in parallel.
    Call(ToolCall),
    /// Waits until the name is released. As the first step: before the first byte of the answer.
    Stall { name: String },
    /// The token counts that the end of the response reports.
    Usage(Usage),
    /// Any event of the Responses API, as it is.
    Event(Value),
    /// A line of the stream as it is, followed by an empty line: for what is not an event at all.
    Line { line: String },
    /// Answers with this status and body instead of a stream. Must be the first step, stalls aside.
    Http { status: u16, body: Value },
    /// Ends the stream with `response.failed`.
    Failed { code: String, message: String },
    /// Ends the stream with `response.incomplete`.
    Incomplete { reason: String },
    /// Ends the stream in good order but without `response.completed`.
    EndEarly,
    /// Drops the connection.
    Cut,
}

/// What a message is in the turn: a remark on the way, or the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Commentary,
    FinalAnswer,
}

/// Token counts of one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens read, the cached ones included.
    pub input: u64,
    /// Of `input`, those that came from the cache.
    pub cached: u64,
    /// Tokens written, the reasoning ones included.
    pub output: u64,
    /// Of `output`, those spent on reasoning.
    pub reasoning: u64,
}

impl Default for Usage {
    fn default() -> Self {
        Self { input: 100, cached: 0, output: 10, reasoning: 0 }
    }
}

impl Scenario {
    /// The responses, in order.
    pub fn responses(&self) -> &[Response] {
        &self.responses
    }

    /// The response for a request: `round` counts the tool outputs that the model got in this turn, `attempt`
    /// the earlier tries of the same request.
    pub fn pick(&self, round: usize, attempt: u32) -> Option<&Response> {
        let mut left = attempt;
        let mut candidates = self.responses.iter();
        for _ in 0..round {
            candidates.by_ref().find(|response| response.times.is_none())?;
        }
        for response in candidates {
            match response.times {
                Some(times) if left >= times => left -= times,
                _ => return Some(response),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
