//! A row of the activity log, and the message that it is. Pure.
//!
//! What the platform calls a row and we cannot read is kept as a message without words: the inbox gives it up, where an
//! operator sees it, and its sender is told.

use codex_bridge_core::inbox::{Arrival, ConversationKey, Party, Room, Sender};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::text_of;
use crate::channel::attached;

/// What is said of a message without text.
const EMPTY: &str = "(empty A2A message)";

/// What the platform says of a message that a person wrote on the canvas. It writes so into `params.metadata` itself, over
/// whatever stood there (EnterOS core of 2026-08, `injectCanvasUserIdentity`).
const CANVAS_SOURCE: &str = "canvas_user";
/// What it says of somebody whom it does not know.
const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
/// The name of what passed a message on and has none that can be used.
const UNNAMED: &str = "unknown";
/// The longest name that is used.
const SOURCE_CHARS: usize = 64;

/// Who wrote a message.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Writer {
    /// A person on the canvas, as the platform itself says.
    Canvas,
    /// Another agent.
    Peer(String),
    /// Somebody elsewhere, of whom we know only what of the platform's passed it on: a chat bridge, a timer, a hook.
    PassedOn(String),
}

impl Writer {
    /// As they are allowed.
    fn id(&self) -> String {
        match self {
            Self::PassedOn(source) => format!("channel:{source}"),
            other => other.place(),
        }
    }

    /// Where a reply goes. What was passed on is answered on the canvas: the platform has no way back.
    fn place(&self) -> String {
        match self {
            Self::Peer(peer) => format!("peer:{peer}"),
            Self::Canvas | Self::PassedOn(_) => "canvas".to_owned(),
        }
    }

    /// Only who writes on the canvas is surely a person of this workspace's, and may ever decide.
    fn party(&self) -> Party {
        match self {
            Self::Canvas => Party::Person,
            Self::Peer(_) | Self::PassedOn(_) => Party::Agent,
        }
    }
}

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
    pub seq: Option<i64>,
    pub peer_name: Option<String>,
    /// Files, which the platform lists whatever the message looks like.
    pub attachments: Value,
    /// Whether there is more in it than we could read.
    #[serde(skip)]
    is_unreadable: bool,
}

/// The rows of an answer, the oldest first: without a place in the log the platform gives the newest first. What has no
/// name is no row, and left out.
pub fn in_order(body: &Value) -> Vec<Row> {
    let rows = body.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut rows: Vec<Row> = rows.iter().map(Row::read).filter(|row| !row.id.is_empty()).collect();
    rows.sort_by_key(|row| (row.micros(), row.seq));
    rows
}

impl Row {
    fn read(row: &Value) -> Self {
        Self::deserialize(row).unwrap_or_else(|_| {
            let text = |name: &str| row[name].as_str().map(str::to_owned);
            Self {
                id: text("id").unwrap_or_default(),
                source_id: text("source_id"),
                request_body: row["request_body"].clone(),
                created_at: text("created_at").unwrap_or_default(),
                seq: row["seq"].as_i64(),
                is_unreadable: true,
                ..Self::default()
            }
        })
    }

    fn micros(&self) -> i64 {
        self.created_at.parse::<Timestamp>().map_or(0, Timestamp::as_microsecond)
    }

    /// When it was written, in milliseconds since 1970.
    pub fn at(&self) -> i64 {
        self.micros().div_euclid(1_000)
    }

    /// When it was written, and so many microseconds, as the platform writes it.
    pub fn moment(&self, after_us: i64) -> Option<String> {
        Timestamp::from_microsecond(self.micros() + after_us).ok().map(|at| at.to_string())
    }

    /// Whether it is a reply of ours on the canvas, with this text.
    pub fn is_notice_of(&self, text: &str) -> bool {
        self.method.as_deref() == Some("notify")
            && self.source_id.is_none()
            && self.response_body["result"].as_str() == Some(text)
    }

    /// Whether it says something that nobody has to answer.
    fn is_by_the_way(&self, request: &Value, workspace: &str) -> bool {
        let method = self.method.as_deref().unwrap_or_default();
        let source = self.source_id.as_deref().filter(|id| !id.is_empty());
        // Our own replies come back, and two agents that answer each other's results never end.
        let is_ours = (method == "notify" && source.is_none()) || source == Some(workspace);
        // A file comes by itself first; the message that it belongs to names it.
        let is_bare = matches!(method, "delegate_result" | "chat_upload_receive");
        // What people decide on our requests we read where it stands.
        let id = request["params"]["message"]["messageId"].as_str().unwrap_or_default();
        is_ours || is_bare || (source.is_none() && id.starts_with("request-responded:"))
    }

    /// The message that it is; none for what nobody has to answer.
    pub fn arrival(&self, channel: &str, workspace: &str) -> Option<Arrival> {
        let request = opened(&self.request_body);
        if self.is_by_the_way(&request, workspace) {
            return None;
        }
        let writer = self.writer(&request);
        let context = text_of(&request["params"]["message"]["contextId"]);
        let id = writer.id();
        Some(Arrival {
            external_id: self.id.clone(),
            conversation: ConversationKey(context.map_or(id.clone(), |context| format!("{id}/{context}"))),
            reply_to: format!("{channel}:{}", writer.place()),
            sender: Sender { name: self.name_of(&writer), party: writer.party(), id },
            room: Room::Direct,
            text: self.text(&request),
            position: self.seq,
            sent_at: self.at(),
        })
    }

    /// Who wrote it. Without a source it is not only a person on the canvas: the platform writes none for its own
    /// callers either (timers, hooks), and its chat bridges hand over what any stranger wrote to them. A person is only who
    /// the platform says is one.
    fn writer(&self, request: &Value) -> Writer {
        if let Some(peer) = self.source_id.as_deref().filter(|id| !id.is_empty()) {
            return Writer::Peer(peer.to_owned());
        }
        let params = &request["params"];
        let places = [&params["metadata"], &params["message"]["metadata"], &request["metadata"]].map(opened);
        let told =
            |name: &'static str| places.iter().map(move |place| &place[name]).filter(|told| !told.is_null());
        if let Some(source) = told("source").find(|source| *source != CANVAS_SOURCE) {
            return Writer::PassedOn(as_id(source));
        }
        let is_unknown = told("user_identity_status")
            .any(|status| status.as_str().is_some_and(|status| status.eq_ignore_ascii_case(UNAUTHENTICATED)));
        let ids = [&params["message"]["messageId"], &params["messageId"], &request["messageId"]];
        let is_bridged = ids.into_iter().filter_map(Value::as_str).any(|id| id.starts_with("channel-"));
        let is_persons = places[0]["source"] == CANVAS_SOURCE && !is_unknown && !is_bridged;
        if is_persons { Writer::Canvas } else { Writer::PassedOn(UNNAMED.to_owned()) }
    }

    fn name_of(&self, writer: &Writer) -> String {
        match writer {
            Writer::Peer(peer) => self.peer_name.clone().unwrap_or_else(|| peer.clone()),
            other => other.id(),
        }
    }

    fn text(&self, request: &Value) -> String {
        if self.is_unreadable {
            return String::new();
        }
        let params = &request["params"];
        let places = [&params["message"]["parts"], &params["parts"], &request["parts"]];
        let said = places.into_iter().map(text_of_parts).find(|text| !text.is_empty());
        let attached = self.attached();
        let summary = || self.summary.clone().filter(|text| !text.is_empty());
        let said = said.or_else(|| summary().filter(|_| attached.is_empty()));
        let text = attached::below(&said.unwrap_or_default(), attached);
        if text.is_empty() { EMPTY.to_owned() } else { text }
    }

    /// The files that came with it, one a line: they are named to Codex, and not read.
    fn attached(&self) -> Vec<String> {
        let files = self.attachments.as_array().map(Vec::as_slice).unwrap_or_default();
        let line = |file: &Value| {
            attached::line(text_of(&file["kind"]), text_of(&file["name"]).or_else(|| text_of(&file["uri"])))
        };
        files.iter().map(line).collect()
    }
}

/// A body may be JSON in a string.
fn opened(body: &Value) -> Value {
    match body.as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => body.clone(),
    }
}

/// What passed a message on, as part of an id: `telegram` of `telegram` and of `channel:telegram`.
fn as_id(source: &Value) -> String {
    let name = source.as_str().unwrap_or_default();
    let name = name.strip_prefix("channel:").unwrap_or(name);
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.' | ':');
    let is_usable = !name.is_empty() && name.len() <= SOURCE_CHARS && name.chars().all(is_plain);
    if is_usable { name.to_owned() } else { UNNAMED.to_owned() }
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
        let upload = json!({"id": "7", "method": "chat_upload_receive", "summary": "Canvas upload: a.png",
            "request_body": {"uri": "platform-pending:w/f", "name": "a.png"}});
        assert_eq!(arrival(&upload), None, "a file that is on its way to a message");
        let told = json!({"params": {"message": {"messageId": "request-responded:7-u", "parts": [{"text": "It was approved."}]}}});
        assert_eq!(arrival(&json!({"id": "8", "request_body": told})), None, "what we read elsewhere");
        assert!(
            arrival(&json!({"id": "9", "source_id": "peer", "request_body": told})).is_some(),
            "a peer claims it"
        );
    }

    #[test]
    fn a_row_that_cannot_be_read_is_a_message_without_words_of_the_right_sender() {
        let odd =
            arrival(&json!({"id": "r1", "seq": "many", "source_id": "p-1", "summary": "do it"})).unwrap();
        assert_eq!((odd.text.as_str(), odd.sender.id.as_str(), odd.position), ("", "peer:p-1", None));
        let odd =
            arrival(&json!({"id": "r2", "seq": 4, "method": 7, "request_body": {"parts": [{"text": "x"}]}}));
        assert_eq!(odd.map(|odd| (odd.text, odd.position)), Some((String::new(), Some(4))));
        let whole = arrival(&json!({"id": "r3", "seq": null, "summary": "do it"})).unwrap();
        assert_eq!(
            (whole.text.as_str(), whole.position),
            ("do it", None),
            "a place in the order is not needed"
        );
    }

    #[test]
    fn files_are_named() {
        let files =
            json!([{"kind": "image", "uri": "workspace:a.png", "name": "a.png"}, {"uri": "workspace:b"}]);
        let parts = json!({"parts": [{"kind": "text", "text": "see"}]});
        let both = arrival(&json!({"id": "r1", "request_body": parts, "attachments": files})).unwrap();
        let named = "[image attached: a.png; it cannot be read here]\n[file attached: workspace:b; it cannot be read here]";
        assert_eq!(both.text, format!("see\n\n{named}"));
        let alone = arrival(&json!({"id": "r1", "summary": "a.png", "attachments": files})).unwrap();
        assert_eq!(alone.text, named);
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
    fn what_the_platform_passes_on_is_not_taken_for_a_person_on_the_canvas() {
        let writer = |request: &Value| {
            let arrival = arrival(&json!({"id": "r", "source_id": null, "request_body": request})).unwrap();
            assert_eq!(arrival.reply_to, "molecule:canvas");
            assert_eq!(arrival.conversation.0, arrival.sender.id);
            (arrival.sender.id, arrival.sender.party)
        };
        let on_canvas = ("canvas".to_owned(), Party::Person);
        assert_eq!(writer(&json!({"params": {"metadata": {"source": "canvas_user"}}})), on_canvas);
        let known = json!({"source": "canvas_user", "user_identity_status": "AUTHENTICATED"});
        assert_eq!(writer(&json!({"params": {"metadata": known}})), on_canvas);
        let said = [
            (json!({}), "channel:unknown"),
            (json!(null), "channel:unknown"),
            (json!({"params": {"message": {"parts": [{"text": "a timer"}]}}}), "channel:unknown"),
            (json!({"params": {"metadata": {"source": null}}}), "channel:unknown"),
            (json!({"params": {"metadata": {"user_identity_status": "AUTHENTICATED"}}}), "channel:unknown"),
            (json!({"params": {"message": {"metadata": {"source": "canvas_user"}}}}), "channel:unknown"),
            (json!({"metadata": {"source": "canvas_user"}}), "channel:unknown"),
            (
                json!({"params": {"metadata": {"source": "canvas_user", "user_identity_status": "UNAUTHENTICATED"}}}),
                "channel:unknown",
            ),
            (json!({"params": {"metadata": {"source": "telegram", "chat_id": "7"}}}), "channel:telegram"),
            (json!({"params": {"metadata": json!({"source": "slack"}).to_string()}}), "channel:slack"),
            (json!({"params": {"message": {"metadata": {"source": "channel:lark"}}}}), "channel:lark"),
            (json!({"metadata": {"source": "webhook:ci"}}), "channel:webhook:ci"),
            (json!({"params": {"metadata": {"source": 7}}}), "channel:unknown"),
            (json!({"params": {"metadata": {"source": "a b"}}}), "channel:unknown"),
            (json!({"params": {"metadata": {"user_identity_status": "UNAUTHENTICATED"}}}), "channel:unknown"),
            (json!({"params": {"message": {"messageId": "channel-telegram-7"}}}), "channel:unknown"),
            (json!("{\"params\": {\"metadata\": {\"source\": \"tele"), "channel:unknown"),
        ];
        for (request, id) in said {
            assert_eq!(writer(&request), (id.to_owned(), Party::Agent), "{request}");
        }
        let both = json!({"params": {"metadata": {"source": "canvas_user"},
            "message": {"metadata": {"source": "telegram"}}}});
        assert_eq!(writer(&both).0, "channel:telegram", "one place that says so is enough");
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
