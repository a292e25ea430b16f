//! What calls give back: text for models, and the same for programs.

use codex_bridge_core::task::{ShownStatus, Status};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData};
use serde_json::{Value, json};

use super::request_form::how_to_answer;
use super::turn::{Finished, TurnRef};
use crate::failure::Failure;
use crate::tool;
use crate::view::Task;

/// A reply of the `codex_bridge` tool, as it is.
pub fn reply(reply: Value) -> CallToolResult {
    let succeeded = reply["success"] == Value::Bool(true);
    if succeeded { CallToolResult::structured(reply) } else { CallToolResult::structured_error(reply) }
}

/// What is told of a call beside its answer.
pub struct About<'a> {
    /// The turn that was asked for.
    pub turn: &'a TurnRef,
    /// Codex's thread, if there is one.
    pub thread_id: Option<&'a str>,
    /// The name under which the call can be repeated; not known to those who only look.
    pub client_request_id: Option<&'a str>,
    /// What was asked for and left out.
    pub notes: &'a [String],
}

impl About<'_> {
    /// The answer of a call whose turn has finished.
    pub fn finished(&self, finished: &Finished) -> CallToolResult {
        let said = [&finished.error, &finished.reason].into_iter().flatten().next();
        let content = match finished.status {
            Status::Completed => finished.final_text.clone().unwrap_or_default(),
            Status::Paused if finished.goes_on => {
                let why = finished.reason.as_deref().unwrap_or("it waits");
                format!(
                    "The task is paused: {why}. It goes on by itself; call again with the same arguments then."
                )
            }
            Status::Paused | Status::Lost => {
                let why = said.map(|why| format!(": {why}")).unwrap_or_default();
                format!(
                    "The task is {}{why}. codex-reply with its threadId goes on with it.",
                    finished.status
                )
            }
            status => said.cloned().unwrap_or_else(|| format!("The task is {status}.")),
        };
        self.told(
            &content,
            ShownStatus::Stored(finished.status),
            json!({}),
            finished.status != Status::Completed,
        )
    }

    /// The state of a call whose task waits for somebody whom the client cannot ask.
    pub fn pending(&self, task: &Task) -> CallToolResult {
        let mut lines = vec!["Codex waits for a person and goes on when they have answered.".to_owned()];
        lines.extend(task.pending_requests.iter().map(how_to_answer));
        let again = match self.client_request_id {
            Some(name) => format!("client_request_id {name:?}"),
            None => "the same arguments".to_owned(),
        };
        lines.push(format!(
            "Then call again with {again} for the answer, or ask codex_bridge: {{\"action\": \"wait\", \"task_id\": \"{}\"}}.",
            task.task_id
        ));
        let content = lines.join("\n");
        self.told(&content, task.status, json!({ "pendingRequests": task.pending_requests }), false)
    }

    /// A call that went wrong while its task was under way.
    pub fn failed(&self, failure: Failure) -> CallToolResult {
        let content = format!(
            "{failure}\nThe task {} is not lost: the same call with the same client_request_id finds it.",
            self.turn.task_id
        );
        let mut told = self.fields(&content);
        merge(&mut told, tool::refusal(failure));
        result(content, told, true)
    }

    fn told(&self, content: &str, status: ShownStatus, more: Value, is_error: bool) -> CallToolResult {
        let mut told = self.fields(content);
        told["status"] = json!(status);
        merge(&mut told, more);
        let notes = self.notes.iter().map(|note| format!("[codex-bridge: {note}]"));
        let text = std::iter::once(content.to_owned()).chain(notes).collect::<Vec<_>>().join("\n");
        result(text, told, is_error)
    }

    /// What both drop-ins always give; the two first are the names that `codex mcp-server` had.
    fn fields(&self, content: &str) -> Value {
        let mut told = json!({
            "threadId": self.thread_id.unwrap_or_default(),
            "content": content,
            "taskId": self.turn.task_id,
        });
        if let Some(name) = self.client_request_id {
            told["clientRequestId"] = name.into();
        }
        if !self.notes.is_empty() {
            told["notes"] = json!(self.notes);
        }
        told
    }
}

/// A call that was refused before there was a task.
pub fn refused(failure: Failure) -> CallToolResult {
    let content = failure.to_string();
    let mut told = json!({ "threadId": "", "content": content });
    merge(&mut told, tool::refusal(failure));
    result(content, told, true)
}

/// A failure where the protocol has no room for a result.
pub fn error(failure: Failure) -> ErrorData {
    let data = json!({ "code": failure.code, "hint": failure.hint });
    ErrorData::new(ErrorCode(failure.code.mcp()), failure.message, Some(data))
}

fn result(text: String, told: Value, is_error: bool) -> CallToolResult {
    let mut result =
        if is_error { CallToolResult::structured_error(told) } else { CallToolResult::structured(told) };
    result.content = vec![ContentBlock::text(text)];
    result
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
