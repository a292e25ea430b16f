//! The answers to [`crate::request::ServerRequest`], each in its method's own shape.
//!
//! Codex does not report a wrong shape: a permission request that is answered with `{"decision": …}` counts as a grant
//! of nothing, and an unknown decision as "approval request failed" (codex 0.166). So each shape is a type here.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::request::{Permissions, ServerRequest};

/// JSON-RPC's "method not found": how an unknown server request is refused.
pub const METHOD_NOT_FOUND: i64 = -32601;

/// An answer, ready to be sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// To a command approval.
    Command(CommandDecision),
    /// To a file change approval.
    FileChange(Verdict),
    /// To a permission request: what is granted, empty for nothing.
    Permissions {
        /// A subset of what was asked.
        granted: Permissions,
        /// How long the grant lasts.
        scope: GrantScope,
    },
    /// To questions: answers by question id.
    UserInput(BTreeMap<String, Vec<String>>),
    /// To an elicitation.
    Elicitation {
        /// What the person did.
        action: ElicitationAction,
        /// The filled form.
        content: Option<Value>,
        /// Metadata, such as `{"persist": "session"}`.
        meta: Option<Value>,
    },
    /// To a dynamic tool call.
    ToolCall {
        /// The text for the model.
        text: String,
        /// Whether the tool worked.
        success: bool,
    },
    /// To `currentTime/read`: seconds since 1970, UTC.
    CurrentTime,
    /// A JSON-RPC error.
    Refusal {
        /// The code, such as [`METHOD_NOT_FOUND`].
        code: i64,
        /// The message.
        message: String,
    },
}

/// The four decisions that command and file approvals always know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// Yes, once.
    Accept,
    /// Yes, and the same again in this thread, without asking.
    AcceptForSession,
    /// Declined; the turn continues.
    Decline,
    /// Declined, and the turn ends.
    Cancel,
}

/// A decision on a command.
#[derive(Debug, Clone, PartialEq)]
pub enum CommandDecision {
    /// One of the four verdicts.
    Plain(Verdict),
    /// Accept, and allow this prefix permanently in every thread (codex writes it to its rules file).
    AmendExecpolicy(Vec<String>),
}

/// How long granted permissions last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum GrantScope {
    /// This turn.
    Turn,
    /// This thread.
    Session,
}

/// What a person did with an elicitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ElicitationAction {
    /// The form was filled in, or the tool allowed.
    Accept,
    /// The person said no.
    Decline,
    /// The person closed it.
    Cancel,
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message} (code {code})")]
pub struct RpcError {
    /// The code.
    pub code: i64,
    /// For people.
    #[serde(default)]
    pub message: String,
    /// For programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
}

impl Answer {
    /// The refusal of an unknown method.
    pub fn unknown_method(method: &str) -> Self {
        Self::Refusal { code: METHOD_NOT_FOUND, message: format!("unsupported request {method}") }
    }

    /// The answer when nobody can decide: no to everything that a person would be asked.
    pub fn fail_closed(request: &ServerRequest) -> Self {
        match request {
            ServerRequest::Command(_) => Self::Command(CommandDecision::Plain(Verdict::Decline)),
            ServerRequest::FileChange(_) => Self::FileChange(Verdict::Decline),
            ServerRequest::Permissions(_) => {
                Self::Permissions { granted: Permissions::default(), scope: GrantScope::Turn }
            }
            ServerRequest::UserInput(_) => Self::UserInput(BTreeMap::new()),
            ServerRequest::Elicitation(_) => {
                Self::Elicitation { action: ElicitationAction::Decline, content: None, meta: None }
            }
            ServerRequest::ToolCall(call) => Self::ToolCall {
                text: format!("no tool named {} is offered here", call.tool),
                success: false,
            },
            // An error here would fail the turn (codex 0.166).
            ServerRequest::CurrentTime => Self::CurrentTime,
            ServerRequest::Unknown { method, .. } => Self::unknown_method(method),
        }
    }

    /// The `result` or `error` member of the reply.
    ///
    /// ```
    /// use codex_wire::answer::{Answer, Verdict};
    ///
    /// let reply = Answer::FileChange(Verdict::AcceptForSession).into_reply().unwrap();
    /// assert_eq!(reply, serde_json::json!({"decision": "acceptForSession"}));
    /// ```
    pub fn into_reply(self) -> Result<Value, RpcError> {
        Ok(match self {
            Self::Command(CommandDecision::Plain(verdict)) | Self::FileChange(verdict) => {
                json!({ "decision": verdict })
            }
            Self::Command(CommandDecision::AmendExecpolicy(prefix)) => {
                json!({"decision": {"acceptWithExecpolicyAmendment": {"execpolicy_amendment": prefix}}})
            }
            Self::Permissions { granted, scope } => {
                // A denial is exactly `{"permissions": {}}`, without a scope.
                if granted == Permissions::default() {
                    json!({"permissions": {}})
                } else {
                    json!({"permissions": granted, "scope": scope})
                }
            }
            Self::UserInput(answers) => {
                let answers: BTreeMap<_, _> =
                    answers.into_iter().map(|(id, answers)| (id, json!({ "answers": answers }))).collect();
                json!({ "answers": answers })
            }
            Self::Elicitation { action, content, meta } => {
                json!({"action": action, "content": content, "_meta": meta})
            }
            Self::ToolCall { text, success } => {
                json!({"contentItems": [{"type": "inputText", "text": text}], "success": success})
            }
            Self::CurrentTime => json!({ "currentTimeAt": unix_seconds() }),
            Self::Refusal { code, message } => return Err(RpcError { code, message, data: None }),
        })
    }
}

fn unix_seconds() -> i64 {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_1970.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
