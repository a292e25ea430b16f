//! Turns rows of the activity log into messages. Pure.
//!
//! A row that cannot be read becomes a message without text: the inbox gives it up, where the operator can see it, and its
//! sender is notified.

use codex_bridge_core::inbox::{Arrival, Attachment, Context, ConversationKey, Party, Room, Sender};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

use super::non_empty_str;
use crate::channel::attachments;

/// The text of a message without text.
const EMPTY: &str = "(empty A2A message)";

/// The `source` of a message that a person wrote on the canvas. The platform itself sets it in `params.metadata`, over any
/// other value (EnterOS core of 2026-08, `injectCanvasUserIdentity`).
const CANVAS_SOURCE: &str = "canvas_user";
/// The `user_identity_status` of an unknown person.
const UNAUTHENTICATED: &str = "UNAUTHENTICATED";
/// The id of a source without a usable name.
const UNNAMED: &str = "unknown";
/// The longest usable name of a source.
const SOURCE_CHARS: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Writer {
    /// A person on the canvas, according to the platform.
    Canvas,
    /// Another agent.
    Peer(String),
    /// Somebody elsewhere. Only the relaying source is known: a chat bridge, a timer, a hook.
    PassedOn(String),
}

impl Writer {
    /// The id in `allow`.
    fn id(&self) -> String {
        match self {
            Self::PassedOn(source) => format!("channel:{source}"),
            other => other.place(),
        }
    }

    /// The place of a reply. A relayed message is answered on the canvas, since the platform has no way back to its source.
    fn place(&self) -> String {
        match self {
            Self::Peer(peer) => format!("peer:{peer}"),
            Self::Canvas | Self::PassedOn(_) => "canvas".to_owned(),
        }
    }

    /// Only a writer on the canvas is certainly a person of this workspace, and may be allowed to decide.
    fn party(&self) -> Party {
        match self {
            Self::Canvas => Party::Person,
            Self::Peer(_) | Self::PassedOn(_) => Party::Agent,
        }
    }
}

/// The fields of a row that are read.
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
    /// Attached files, which the platform lists for every form of message.
    pub attachments: Value,
    /// Whether some field could not be read.
    #[serde(skip)]
    is_unreadable: bool,
}

/// The rows of a reply, the oldest first; the platform may send the newest first. Rows without an id are left out.
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

    /// The time of the row, in milliseconds since 1970.
    pub fn at(&self) -> i64 {
        self.micros().div_euclid(1_000)
    }

    /// The time of the row plus `after_us` microseconds, in the platform's format.
    pub fn moment(&self, after_us: i64) -> Option<String> {
        Timestamp::from_microsecond(self.micros() + after_us).ok().map(|at| at.to_string())
    }

    /// Whether the row is a reply of ours on the canvas with this text.
    pub fn is_notice_of(&self, text: &str) -> bool {
        self.method.as_deref() == Some("notify")
            && self.source_id.is_none()
            && self.response_body["result"].as_str() == Some(text)
    }

    fn needs_no_reply(&self, request: &Value, workspace: &str) -> bool {
        let method = self.method.as_deref().unwrap_or_default();
        let source = self.source_id.as_deref().filter(|id| !id.is_empty());
        // Our own replies are in the log too. Two agents that answered each other's results would never stop.
        let is_ours = (method == "notify" && source.is_none()) || source == Some(workspace);
        // An upload has a row of its own, before the message that names the file.
        let is_bare = matches!(method, "delegate_result" | "chat_upload_receive");
        // Decisions on our requests are read from the requests themselves.
        let id = request["params"]["message"]["messageId"].as_str().unwrap_or_default();
        is_ours || is_bare || (source.is_none() && id.starts_with("request-responded:"))
    }

    /// The message of a row; none if it needs no answer.
    pub fn arrival(&self, channel: &str, workspace: &str) -> Option<Arrival> {
        let request = parse_nested(&self.request_body);
        if self.needs_no_reply(&request, workspace) {
            return None;
        }
        let writer = self.writer(&request);
        let context = non_empty_str(&request["params"]["message"]["contextId"]);
        let id = writer.id();
        Some(Arrival {
            external_id: self.id.clone(),
            conversation: ConversationKey(context.map_or(id.clone(), |context| format!("{id}/{context}"))),
            reply_to: format!("{channel}:{}", writer.place()),
            sender: Sender { name: self.name_of(&writer), party: writer.party(), id },
            room: Room::Direct,
            text: self.text(&request),
            context: Context::default(),
            attachments: self.attached(),
            position: self.seq,
            sent_at: self.at(),
        })
    }

    /// The writer of a row. A row without a source need not be from a person on the canvas: the platform's own callers (timers,
    /// hooks) have no source either, and its chat bridges relay what strangers write. Only a writer that the platform marks as
    /// a person counts as one.
    fn writer(&self, request: &Value) -> Writer {
        if let Some(peer) = self.source_id.as_deref().filter(|id| !id.is_empty()) {
            return Writer::Peer(peer.to_owned());
        }
        let params = &request["params"];
        let places =
            [&params["metadata"], &params["message"]["metadata"], &request["metadata"]].map(parse_nested);
        let metadata = |name: &'static str| {
            places.iter().map(move |place| &place[name]).filter(|metadata| !metadata.is_null())
        };
        if let Some(source) = metadata("source").find(|source| *source != CANVAS_SOURCE) {
            return Writer::PassedOn(source_id(source));
        }
        let is_unknown = metadata("user_identity_status")
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
        let text_parts = places.into_iter().map(parts_text).find(|text| !text.is_empty());
        let attached = self.attached();
        let summary = || self.summary.clone().filter(|text| !text.is_empty());
        let text_parts = text_parts.or_else(|| summary().filter(|_| attached.is_empty()));
        let text = text_parts.unwrap_or_default();
        if text.is_empty() && attached.is_empty() { EMPTY.to_owned() } else { text }
    }

    /// The attached files. Their content would have to be fetched and confirmed by calls of their own.
    fn attached(&self) -> Vec<Attachment> {
        let files = self.attachments.as_array().map(Vec::as_slice).unwrap_or_default();
        let attachment = |file: &Value| {
            attachments::unreadable(
                non_empty_str(&file["kind"]),
                non_empty_str(&file["name"]).or_else(|| non_empty_str(&file["uri"])),
                "files of the canvas are not fetched",
            )
        };
        files.iter().map(attachment).collect()
    }
}

/// Parses a body that is JSON in a string.
fn parse_nested(body: &Value) -> Value {
    match body.as_str() {
        Some(text) => serde_json::from_str(text).unwrap_or_default(),
        None => body.clone(),
    }
}

/// The name of a source for an id: `telegram` for both `telegram` and `channel:telegram`.
fn source_id(source: &Value) -> String {
    let name = source.as_str().unwrap_or_default();
    let name = name.strip_prefix("channel:").unwrap_or(name);
    let is_plain = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_' | '.' | ':');
    let is_usable = !name.is_empty() && name.len() <= SOURCE_CHARS && name.chars().all(is_plain);
    if is_usable { name.to_owned() } else { UNNAMED.to_owned() }
}

/// The joined texts of all text parts. A part is text by its `kind` or `type`, or if it has neither, as in A2A 1.0.
fn parts_text(parts: &Value) -> String {
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
        let answered = json!({"params": {"message": {"messageId": "request-responded:7-u", "parts": [{"text": "It was approved."}]}}});
        assert_eq!(arrival(&json!({"id": "8", "request_body": answered})), None, "what we read elsewhere");
        assert!(
            arrival(&json!({"id": "9", "source_id": "peer", "request_body": answered})).is_some(),
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
        let named = |arrival: &Arrival| -> Vec<String> {
            arrival.attachments.iter().map(|file| format!("{}: {}", file.kind, file.label())).collect()
        };
        let expected = ["image: a.png", "file: workspace:b"];
        assert_eq!((both.text.as_str(), named(&both)), ("see", expected.map(str::to_owned).to_vec()));
        let alone = arrival(&json!({"id": "r1", "summary": "a.png", "attachments": files})).unwrap();
        assert_eq!((alone.text.as_str(), named(&alone).len()), ("", 2));
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
        let cases = [
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
        for (request, id) in cases {
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
