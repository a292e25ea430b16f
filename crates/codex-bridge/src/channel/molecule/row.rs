//! A row of the activity log, and the message that it is. Pure.

use codex_bridge_core::inbox::{Arrival, Party, Room, Sender};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::text_of;

/// What is said of a message without text.
const EMPTY: &str = "(empty A2A message)";

/// A row, as far as we read it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Row {
    pub id: String,
    pub source_id: Option<String>,
    pub method: Option<String>,
    pub summary: Option<String>,
    pub request_body: Value,
    pub response_body: Value,
    pub created_at: String,
    pub seq: i64,
    pub peer_name: Option<String>,
}

/// The rows of an answer, the oldest first: without a place in the log the platform gives the newest first. What is no
/// row is left out.
pub fn in_order(body: &Value) -> Vec<Row> {
    let rows = body.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<Row> = rows.iter().filter_map(|row| Row::deserialize(row).ok()).collect();
    rows.retain(|row| !row.id.is_empty());
    rows.sort_by_key(|row| (row.at(), row.seq));
    rows
}

impl Row {
    fn at(&self) -> i64 {
        self.created_at.parse::<Timestamp>().map_or(0, Timestamp::as_millisecond)
    }

    /// Whether it is a reply of ours on the canvas, with this text.
    pub fn is_notice_of(&self, text: &str) -> bool {
        self.method.as_deref() == Some("notify")
            && self.source_id.is_none()
            && self.response_body["result"].as_str() == Some(text)
    }

    /// The message that it is; none for what is our own, or an answer to what we asked.
    pub fn arrival(&self, channel: &str, workspace: &str) -> Option<Arrival> {
        let method = self.method.as_deref().unwrap_or_default();
        let source = self.source_id.as_deref().filter(|id| !id.is_empty());
        // Our own replies come back, and two agents that answer each other's results never end.
        let is_ours = (method == "notify" && source.is_none()) || source == Some(workspace);
        if is_ours || method == "delegate_result" {
            return None;
        }
        let request = opened(&self.request_body);
        let context = text_of(&request["params"]["message"]["contextId"]);
        let place = source.map_or("canvas".to_owned(), |peer| format!("peer:{peer}"));
        let name = match source {
            Some(peer) => self.peer_name.clone().unwrap_or_else(|| peer.to_owned()),
            None => "canvas".to_owned(),
        };
        Some(Arrival {
            external_id: self.id.clone(),
            conversation: context.map_or(place.clone(), |context| format!("{place}/{context}")),
            sender: Sender {
                id: place.clone(),
                name,
                party: if source.is_some() { Party::Agent } else { Party::Person },
            },
            room: Room::Direct,
            text: self.text(&request),
            reply_to: format!("{channel}:{place}"),
            position: Some(self.seq),
            sent_at: self.at(),
        })
    }

    fn text(&self, request: &Value) -> String {
        let params = &request["params"];
        let places = [&params["message"]["parts"], &params["parts"], &request["parts"]];
        let said = places.into_iter().map(text_of_parts).find(|text| !text.is_empty());
        let summary = || self.summary.clone().filter(|text| !text.is_empty());
        said.or_else(summary).unwrap_or_else(|| EMPTY.to_owned())
    }
}

/// A body may be JSON in a string.
fn opened(body: &Value) -> Value {
    match body.as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => body.clone(),
    }
}

/// The texts of all parts that are text, one after the other: `kind` or `type` says so, or neither, as in A2A 1.0.
fn text_of_parts(parts: &Value) -> String {
    let parts = parts.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_text = |part: &&Value| match part.get("kind").or_else(|| part.get("type")) {
        Some(kind) => kind == "text",
        None => true,
    };
    parts.iter().filter(is_text).filter_map(|part| part["text"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arrival(row: &Value) -> Option<Arrival> {
        in_order(&json!([row])).remove(0).arrival("molecule", "own")
    }

    fn text(request_body: &Value) -> String {
        arrival(&json!({ "id": "r1", "request_body": request_body })).unwrap().text
    }

    // peer: CH8
    #[test]
    fn the_text_parts_of_a_message_are_one_text_and_the_others_are_left_out() {
        let parts = json!([{"kind": "text", "text": "one "}, {"kind": "file", "file": {"uri": "x"}}, {"type": "text", "text": "two"}]);
        assert_eq!(text(&json!({"params": {"message": {"parts": parts}}})), "one two");
        assert_eq!(text(&json!({"params": {"parts": parts}})), "one two");
        assert_eq!(text(&json!({"parts": [{"text": "of A2A 1.0"}]})), "of A2A 1.0");
        let as_string = json!({"params": {"message": {"parts": parts}}}).to_string();
        assert_eq!(text(&json!(as_string)), "one two", "JSON in a string");
        assert_eq!(text(&json!({})), EMPTY);
        let summary = arrival(&json!({"id": "r", "summary": "in short", "request_body": null})).unwrap();
        assert_eq!(summary.text, "in short");
    }

    // peer: CH9
    #[test]
    fn our_own_words_and_the_results_of_others_are_no_messages() {
        assert_eq!(arrival(&json!({"id": "1", "method": "notify", "source_id": null})), None);
        assert_eq!(arrival(&json!({"id": "2", "method": "message/send", "source_id": "own"})), None);
        assert_eq!(arrival(&json!({"id": "3", "method": "delegate_result", "source_id": "peer"})), None);
        assert_eq!(arrival(&json!({"id": "4", "method": "delegate_result", "source_id": "own"})), None);
        assert!(arrival(&json!({"id": "5", "method": "message/send", "source_id": "peer"})).is_some());
        assert!(arrival(&json!({"id": "6", "method": "message/send"})).is_some());
    }

    #[test]
    fn a_row_says_who_wrote_and_where_the_reply_goes() {
        let row = json!({"id": "r7", "seq": 12, "source_id": "p-1", "peer_name": "Builder",
            "created_at": "2026-01-31T12:00:00Z",
            "request_body": {"params": {"message": {"contextId": "c9", "parts": [{"kind": "text", "text": "hi"}]}}}});
        let arrival = arrival(&row).unwrap();
        assert_eq!(
            (arrival.conversation.as_str(), arrival.reply_to.as_str()),
            ("peer:p-1/c9", "molecule:peer:p-1")
        );
        assert_eq!((arrival.sender.id.as_str(), arrival.sender.party), ("peer:p-1", Party::Agent));
        assert_eq!((arrival.position, arrival.sent_at), (Some(12), 1_769_860_800_000));
    }

    #[test]
    fn rows_come_in_order_whichever_way_they_are_given() {
        let rows = json!([
            {"id": "c", "seq": 3, "created_at": "2026-01-01T00:00:02Z"}, {"no": "row"},
            {"id": "b", "seq": 2, "created_at": "2026-01-01T00:00:01Z"},
            {"id": "a", "seq": 1, "created_at": "2026-01-01T00:00:01Z"},
        ]);
        let ids: Vec<String> = in_order(&rows).into_iter().map(|row| row.id).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }
}
