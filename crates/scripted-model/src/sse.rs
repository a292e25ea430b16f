//! The events of the Responses API, written as server-sent events.
//!
//! Knows the shapes only: what is said, and when, is decided elsewhere. The sequence follows the real API,
//! including events that Codex 0.166 skips, so that a change in what it reads does not break scripts.

use serde_json::{Value, json};

use crate::scenario::{Phase, ToolCall, Usage};

/// Writes the events of one response and keeps its counters.
pub(crate) struct EventWriter {
    response_id: String,
    sequence: u64,
    output_index: u64,
}

/// A message or reasoning item between its beginning and its end.
pub(crate) struct OpenMessage {
    id: String,
    phase: Option<Phase>,
    text: String,
}

impl EventWriter {
    pub(crate) fn new(response_id: String) -> Self {
        Self { response_id, sequence: 0, output_index: 0 }
    }

    pub(crate) fn created(&mut self) -> String {
        let response = self.response("in_progress");
        let created = self.event("response.created", json!({"response": response.clone()}));
        created + &self.event("response.in_progress", json!({"response": response}))
    }

    pub(crate) fn completed(&mut self, usage: Usage) -> String {
        let mut response = self.response("completed");
        response["usage"] = json!({
            "input_tokens": usage.input,
            "input_tokens_details": {"cached_tokens": usage.cached},
            "output_tokens": usage.output,
            "output_tokens_details": {"reasoning_tokens": usage.reasoning},
            "total_tokens": usage.input + usage.output,
        });
        self.event("response.completed", json!({"response": response}))
    }

    pub(crate) fn failed(&mut self, code: &str, message: &str) -> String {
        let mut response = self.response("failed");
        response["error"] = json!({"code": code, "message": message});
        self.event("response.failed", json!({"response": response}))
    }

    pub(crate) fn incomplete(&mut self, reason: &str) -> String {
        let mut response = self.response("incomplete");
        response["incomplete_details"] = json!({"reason": reason});
        self.event("response.incomplete", json!({"response": response}))
    }

    pub(crate) fn message_begins(&mut self, id: String, phase: Option<Phase>) -> (OpenMessage, String) {
        let message = OpenMessage { id, phase, text: String::new() };
        let added = self.item_added(&message.item("in_progress"));
        let part = json!({
            "item_id": message.id, "output_index": self.output_index, "content_index": 0,
            "part": text_part(""),
        });
        let begun = added + &self.event("response.content_part.added", part);
        (message, begun)
    }

    pub(crate) fn message_delta(&mut self, message: &mut OpenMessage, text: &str) -> String {
        message.text.push_str(text);
        let delta = json!({
            "item_id": message.id, "output_index": self.output_index, "content_index": 0, "delta": text,
        });
        self.event("response.output_text.delta", delta)
    }

    pub(crate) fn message_ends(&mut self, message: &OpenMessage) -> String {
        let place = |mut fields: Value, index: u64| {
            fields["item_id"] = json!(message.id);
            fields["output_index"] = json!(index);
            fields["content_index"] = json!(0);
            fields
        };
        let index = self.output_index;
        let text = self.event("response.output_text.done", place(json!({"text": message.text}), index));
        let part = place(json!({"part": text_part(&message.text)}), index);
        let part = self.event("response.content_part.done", part);
        text + &part + &self.item_done(&message.item("completed"))
    }

    pub(crate) fn reasoning(&mut self, id: &str, summary: &[String]) -> String {
        let item = |parts: Vec<Value>| json!({"type": "reasoning", "id": id, "summary": parts, "encrypted_content": "scripted"});
        let mut events = self.item_added(&item(Vec::new()));
        for (index, text) in summary.iter().enumerate() {
            events += &self.summary_part(id, index, text);
        }
        let parts = summary.iter().map(|text| summary_part(text)).collect();
        events + &self.item_done(&item(parts))
    }

    pub(crate) fn call(&mut self, item_id: &str, call_id: &str, call: &ToolCall) -> String {
        let (item, input_events, input) = call_item(item_id, call_id, call);
        let mut begun = item.clone();
        begun[input_events.field] = json!("");
        let mut events = self.item_added(&begun);
        let place = json!({"item_id": item_id, "output_index": self.output_index});
        let mut delta = place.clone();
        delta["delta"] = json!(input);
        events += &self.event(input_events.delta, delta);
        let mut done = place;
        done[input_events.field] = json!(input);
        events += &self.event(input_events.done, done);
        events + &self.item_done(&item)
    }

    /// Any event; `fields` must be an object.
    pub(crate) fn event(&mut self, kind: &str, mut fields: Value) -> String {
        fields["type"] = json!(kind);
        fields["sequence_number"] = json!(self.sequence);
        self.sequence += 1;
        format!("event: {kind}\ndata: {fields}\n\n")
    }

    fn summary_part(&mut self, id: &str, index: usize, text: &str) -> String {
        let place = |mut fields: Value| {
            fields["item_id"] = json!(id);
            fields["summary_index"] = json!(index);
            fields
        };
        [
            ("response.reasoning_summary_part.added", json!({"part": summary_part("")})),
            ("response.reasoning_summary_text.delta", json!({"delta": text})),
            ("response.reasoning_summary_text.done", json!({"text": text})),
            ("response.reasoning_summary_part.done", json!({"part": summary_part(text)})),
        ]
        .into_iter()
        .map(|(kind, fields)| self.event(kind, place(fields)))
        .collect()
    }

    fn item_added(&mut self, item: &Value) -> String {
        let index = self.output_index;
        self.event("response.output_item.added", json!({"output_index": index, "item": item}))
    }

    fn item_done(&mut self, item: &Value) -> String {
        let index = self.output_index;
        self.output_index += 1;
        self.event("response.output_item.done", json!({"output_index": index, "item": item}))
    }

    fn response(&self, status: &str) -> Value {
        json!({"id": self.response_id, "object": "response", "status": status, "output": [], "error": null})
    }
}

impl OpenMessage {
    pub(crate) fn phase(&self) -> Option<Phase> {
        self.phase
    }

    fn item(&self, status: &str) -> Value {
        let content = if status == "completed" { vec![text_part(&self.text)] } else { Vec::new() };
        let mut item = json!({
            "type": "message", "id": self.id, "role": "assistant", "status": status, "content": content,
        });
        if let Some(phase) = self.phase {
            item["phase"] = json!(phase);
        }
        item
    }
}

/// The names that differ between function calls and free-form calls.
struct InputEvents {
    field: &'static str,
    delta: &'static str,
    done: &'static str,
}

fn call_item(item_id: &str, call_id: &str, call: &ToolCall) -> (Value, InputEvents, String) {
    match call {
        ToolCall::Function { name, namespace, arguments } => {
            let input = arguments.to_string();
            let mut item = json!({
                "type": "function_call", "id": item_id, "call_id": call_id, "name": name, "arguments": input,
            });
            if let Some(namespace) = namespace {
                item["namespace"] = json!(namespace);
            }
            let events = InputEvents {
                field: "arguments",
                delta: "response.function_call_arguments.delta",
                done: "response.function_call_arguments.done",
            };
            (item, events, input)
        }
        ToolCall::Custom { name, input } => {
            let item = json!({
                "type": "custom_tool_call", "id": item_id, "call_id": call_id, "name": name, "input": input,
            });
            let events = InputEvents {
                field: "input",
                delta: "response.custom_tool_call_input.delta",
                done: "response.custom_tool_call_input.done",
            };
            (item, events, input.clone())
        }
    }
}

fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": []})
}

fn summary_part(text: &str) -> Value {
    json!({"type": "summary_text", "text": text})
}
