//! What the model was asked: a request as it came, and what can be read from its body.
//!
//! Knows how Codex fills the `input` array; keeps no state, so a repeated request reads the same.

use std::collections::BTreeMap;

use serde_json::Value;

/// User messages by which Codex tells the model about its surroundings. They are no prompts.
///
/// codex 0.166: `environment_context` precedes the prompt of a turn, `turn_aborted` follows an interrupt, the
/// words about another model introduce the summary that a compaction left.
const CONTEXT_OPENINGS: [&str; 7] = [
    "<environment_context>",
    "<turn_aborted>",
    "<user_instructions>",
    "<user_shell_command>",
    "<subagent_notification>",
    "# AGENTS.md instructions",
    "Another language model started to solve this problem",
];

/// codex 0.166 puts these around an image of the prompt, as text parts of their own.
const IMAGE_TAGS: [&str; 2] = ["<image ", "</image>"];

/// Before the round in the ids that the model gives to its calls.
const ROUND_MARK: &str = "_r";

/// A request that reached the scripted model.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    /// The index of the request, from 0.
    pub index: usize,
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// Header names are in lower case.
    pub headers: BTreeMap<String, String>,
    /// The JSON body; null if there was none.
    pub body: Value,
}

impl ReceivedRequest {
    /// The text of the last message of the user: what the turn, or the latest steer, asks for.
    pub fn prompt(&self) -> Option<String> {
        let (_, prompt) = self.last_prompt()?;
        Some(prompt)
    }

    /// The outputs that tools gave since the prompt: call id and output, as they stand in the body.
    pub fn tool_outputs(&self) -> Vec<(&str, &Value)> {
        self.items_after_prompt().filter_map(tool_output).collect()
    }

    /// The output of the one tool that the last response called, as text. `None` if there is none.
    pub fn last_tool_output(&self) -> Option<String> {
        self.tool_outputs().last().map(|(_, output)| output_text(output))
    }

    /// The names of the tools that Codex offers; those of a namespace as `namespace/name`.
    pub fn tool_names(&self) -> Vec<String> {
        self.body["tools"].as_array().into_iter().flatten().flat_map(tool_names).collect()
    }

    /// The id of the turn that the request belongs to.
    pub fn turn_id(&self) -> Option<&str> {
        self.body["client_metadata"]["turn_id"].as_str()
    }

    /// The id of the thread that the request belongs to.
    pub fn thread_id(&self) -> Option<&str> {
        self.body["client_metadata"]["thread_id"].as_str()
    }

    /// How many rounds of tool calls were answered since the prompt: the index of the response that is due.
    pub fn round(&self) -> usize {
        self.tool_outputs().iter().filter_map(|(id, _)| round_of_call(id)).max().map_or(0, |round| round + 1)
    }

    fn items_after_prompt(&self) -> impl Iterator<Item = &Value> {
        let start = self.last_prompt().map_or(0, |(position, _)| position);
        self.input().iter().skip(start)
    }

    fn last_prompt(&self) -> Option<(usize, String)> {
        let texts =
            self.input().iter().enumerate().rev().filter_map(|(at, item)| Some((at, user_text(item)?)));
        texts.into_iter().find(|(_, text)| !CONTEXT_OPENINGS.iter().any(|opening| text.starts_with(opening)))
    }

    fn input(&self) -> &[Value] {
        self.body["input"].as_array().map_or(&[], Vec::as_slice)
    }
}

/// The id of a call. It carries its round, so that the next request tells which response it waits for.
pub(crate) fn call_id(serial: u64, round: usize) -> String {
    format!("call_{serial:06}{ROUND_MARK}{round}")
}

fn round_of_call(call_id: &str) -> Option<usize> {
    call_id.rsplit_once(ROUND_MARK)?.1.parse().ok()
}

fn user_text(item: &Value) -> Option<String> {
    if item["type"] != "message" || item["role"] != "user" {
        return None;
    }
    let parts = item["content"].as_array()?.iter().filter_map(|part| part["text"].as_str());
    let text: Vec<&str> = parts.filter(|text| !IMAGE_TAGS.iter().any(|tag| text.starts_with(tag))).collect();
    (!text.is_empty()).then(|| text.join("\n"))
}

fn tool_output(item: &Value) -> Option<(&str, &Value)> {
    let kind = item["type"].as_str()?;
    if !kind.ends_with("_output") {
        return None;
    }
    Some((item["call_id"].as_str()?, &item["output"]))
}

fn output_text(output: &Value) -> String {
    match output {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        other => other.to_string(),
    }
}

fn tool_names(tool: &Value) -> Vec<String> {
    let own = tool["name"].as_str().or_else(|| tool["type"].as_str()).unwrap_or_default();
    match tool["tools"].as_array() {
        Some(inner) => inner.iter().flat_map(tool_names).map(|name| format!("{own}/{name}")).collect(),
        None => vec![own.to_owned()],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{ReceivedRequest, call_id};

    fn request(input: &Value) -> ReceivedRequest {
        ReceivedRequest {
            index: 0,
            method: "POST".to_owned(),
            path: "/v1/responses".to_owned(),
            headers: std::collections::BTreeMap::new(),
            body: json!({"input": input}),
        }
    }

    fn user(text: &str) -> Value {
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]})
    }

    fn output(serial: u64, round: usize, text: &str) -> Value {
        json!({"type": "function_call_output", "call_id": call_id(serial, round), "output": text})
    }

    #[test]
    fn the_prompt_is_the_last_user_message_that_is_not_context() {
        let found =
            request(&json!([user("one"), user("two"), user("<environment_context>x</environment_context>")]));
        assert_eq!(found.prompt().as_deref(), Some("two"));
        assert_eq!(request(&json!([])).prompt(), None);
    }

    #[test]
    fn an_image_leaves_no_words_in_the_prompt() {
        let part = |text: &str| json!({"type": "input_text", "text": text});
        let content =
            [part("look"), part("<image name=[Image #1] path=\"/a.png\">"), part("</image>"), part("here")];
        let message = json!({"type": "message", "role": "user", "content": content});
        assert_eq!(request(&json!([message])).prompt().as_deref(), Some("look\nhere"));
    }

    #[test]
    fn parallel_calls_are_one_round_and_older_turns_do_not_count() {
        let input = json!([
            user("old"),
            output(1, 0, "a"),
            output(2, 1, "b"),
            output(3, 2, "c"),
            user("new"),
            output(4, 0, "d"),
            output(5, 0, "e"),
        ]);
        let found = request(&input);
        assert_eq!(found.round(), 1);
        assert_eq!(found.tool_outputs().len(), 2);
        assert_eq!(found.last_tool_output().as_deref(), Some("e"));
    }
}
