//! The results of tool calls: text for models, and structured content for programs.

use codex_bridge_core::task::{ShownStatus, Status};
use rmcp::model::{CallToolResult, ContentBlock, ErrorCode, ErrorData};
use serde_json::{Value, json};

use super::request_form::how_to_answer;
use super::turn::{Finished, TurnRef};
use crate::failure::Failure;
use crate::tool;
use crate::view::Task;

/// The result of the `codex_bridge` tool.
pub fn reply(reply: Value) -> CallToolResult {
    let succeeded = reply["success"] == Value::Bool(true);
    if succeeded { CallToolResult::structured(reply) } else { CallToolResult::structured_error(reply) }
}

/// The facts about a call that every result has.
pub struct About<'a> {
    /// The turn of the call.
    pub turn: &'a TurnRef,
    /// Codex's thread, if there is one.
    pub thread_id: Option<&'a str>,
    /// The name under which the call can be repeated. `tasks/get` does not know it.
    pub client_request_id: Option<&'a str>,
    /// Which arguments and answers were not taken.
    pub notes: &'a [String],
}

impl About<'_> {
    /// The result of a finished turn.
    pub fn finished(&self, finished: &Finished) -> CallToolResult {
        let cause = [&finished.error, &finished.reason].into_iter().flatten().next();
        let content = match finished.status {
            Status::Completed => finished.final_text.clone().unwrap_or_default(),
            Status::Paused if finished.resumes => {
                let why = finished.reason.as_deref().unwrap_or("it waits");
                format!(
                    "The task is paused: {why}. It continues by itself. Repeat this call later with the same arguments."
                )
            }
            Status::Paused | Status::Lost => {
                let why = cause.map(|why| format!(": {why}")).unwrap_or_default();
                format!(
                    "The task is {}{why}. Call codex-reply with its threadId to continue it.",
                    finished.status
                )
            }
            status => cause.cloned().unwrap_or_else(|| format!("The task is {status}.")),
        };
        self.result(
            &content,
            ShownStatus::Stored(finished.status),
            json!({}),
            finished.status != Status::Completed,
        )
    }

    /// The result while the task waits for a person whom the client cannot ask.
    pub fn pending(&self, task: &Task) -> CallToolResult {
        let mut lines =
            vec!["Codex waits for a person to decide. The task continues after the decision.".to_owned()];
        lines.extend(task.pending_requests.iter().map(how_to_answer));
        let name = match self.client_request_id {
            Some(name) => format!("client_request_id {name:?}"),
            None => "the same arguments".to_owned(),
        };
        lines.push(format!(
            "After the decision, repeat this call with {name} for the answer, or call codex_bridge: {{\"action\": \"wait\", \"task_id\": \"{}\"}}.",
            task.task_id
        ));
        let content = lines.join("\n");
        self.result(&content, task.status, json!({ "pendingRequests": task.pending_requests }), false)
    }

    /// The result of a call that failed after its task had started.
    pub fn failed(&self, failure: Failure) -> CallToolResult {
        let content = format!(
            "{failure}\nTask {} is not lost. Repeat this call with the same client_request_id to find it.",
            self.turn.task_id
        );
        let mut fields = self.fields(&content);
        merge(&mut fields, tool::refusal(failure));
        result(content, fields, true)
    }

    fn result(&self, content: &str, status: ShownStatus, more: Value, is_error: bool) -> CallToolResult {
        let mut fields = self.fields(content);
        fields["status"] = json!(status);
        merge(&mut fields, more);
        let notes = self.notes.iter().map(|note| format!("[codex-bridge: {note}]"));
        let text = std::iter::once(content.to_owned()).chain(notes).collect::<Vec<_>>().join("\n");
        result(text, fields, is_error)
    }

    /// The fields of every result. `codex mcp-server` had the first two.
    fn fields(&self, content: &str) -> Value {
        let mut fields = json!({
            "threadId": self.thread_id.unwrap_or_default(),
            "content": content,
            "taskId": self.turn.task_id,
        });
        if let Some(name) = self.client_request_id {
            fields["clientRequestId"] = name.into();
        }
        if !self.notes.is_empty() {
            fields["notes"] = json!(self.notes);
        }
        fields
    }
}

/// The result of a call that was refused before its task existed.
pub fn refused(failure: Failure) -> CallToolResult {
    let content = failure.to_string();
    let mut fields = json!({ "threadId": "", "content": content });
    merge(&mut fields, tool::refusal(failure));
    result(content, fields, true)
}

/// A failure as a protocol error, for methods without tool results.
pub fn error(failure: Failure) -> ErrorData {
    let data = json!({ "code": failure.code, "hint": failure.hint });
    ErrorData::new(ErrorCode(failure.code.mcp()), failure.message, Some(data))
}

fn result(text: String, fields: Value, is_error: bool) -> CallToolResult {
    let mut result =
        if is_error { CallToolResult::structured_error(fields) } else { CallToolResult::structured(fields) };
    result.content = vec![ContentBlock::text(text)];
    result
}

fn merge(into: &mut Value, more: Value) {
    if let (Some(into), Value::Object(more)) = (into.as_object_mut(), more) {
        into.extend(more);
    }
}
