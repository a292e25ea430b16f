//! Chat messages in the shape that OpenAI's chat API made common.

use std::borrow::Cow;

use redact::Redactor;
use serde::Serialize;

/// One message of a conversation.
///
/// ```
/// use codex_session::projection::Message;
///
/// let message = Message::User { content: "hi".to_owned() };
/// assert_eq!(serde_json::to_string(&message).unwrap(), r#"{"role":"user","content":"hi"}"#);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Message {
    /// A person said something.
    User {
        /// What.
        content: String,
    },
    /// The model said something or called a tool.
    Assistant {
        /// What it said.
        #[serde(skip_serializing_if = "Option::is_none")]
        content: Option<String>,
        /// What it thought before.
        #[serde(skip_serializing_if = "Option::is_none")]
        reasoning: Option<String>,
        /// What it called.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<ToolCall>,
    },
    /// A tool answered.
    Tool {
        /// The call that it answers.
        tool_call_id: String,
        /// What it gave.
        content: String,
    },
}

/// A tool call of the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolCall {
    /// The call; its result carries the same id.
    pub id: String,
    /// `function`, the only kind.
    #[serde(rename = "type")]
    kind: &'static str,
    /// What is called.
    pub function: FunctionCall,
}

/// What a [`ToolCall`] calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionCall {
    /// The tool.
    pub name: String,
    /// Its arguments as JSON text, keys sorted.
    pub arguments: String,
}

impl Message {
    /// Hides secrets in every text.
    pub(crate) fn redact(&mut self, redactor: &Redactor) {
        let hide = |text: &mut String| {
            if let Cow::Owned(redacted) = redactor.redact(text) {
                *text = redacted;
            }
        };
        match self {
            Self::User { content } | Self::Tool { content, .. } => hide(content),
            Self::Assistant { content, reasoning, tool_calls } => {
                content.iter_mut().chain(reasoning).for_each(hide);
                for call in tool_calls {
                    hide(&mut call.function.arguments);
                }
            }
        }
    }

    pub(super) fn assistant(content: String, reasoning: Option<String>) -> Self {
        Self::Assistant { content: Some(content), reasoning, tool_calls: Vec::new() }
    }

    pub(super) fn tool_call(call: ToolCall, reasoning: Option<String>) -> Self {
        Self::Assistant { content: None, reasoning, tool_calls: vec![call] }
    }
}

impl ToolCall {
    pub(super) fn new(id: String, name: String, arguments: String) -> Self {
        Self { id, kind: "function", function: FunctionCall { name, arguments } }
    }
}
