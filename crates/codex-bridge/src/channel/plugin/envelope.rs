//! The messages between the bridge and a plugin. Pure. `docs/channels/plugins.md` documents the protocol.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codex_bridge_core::inbox::attachment::classify;
use codex_bridge_core::inbox::{Arrival, Attachment, Context, ConversationKey, Party, Room, Sender};
use codex_bridge_core::outbox::notice::TextFormat;
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Asked, Attempt, Content, Outcome};
use codex_bridge_core::request::{Button, RequestName};
use codex_session::Decision;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use super::process::CallError;
use crate::amount;
use crate::channel::text::{self, Limit, Mentions};
use crate::channel::{Progress, Tap, attachments};

/// The longest place: a target also has to hold the channel's name.
const PLACE_BYTES: usize = 200;
/// The longest id of a message or a conversation.
const NAME_BYTES: usize = 512;

/// The capabilities that a plugin reports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Sends messages.
    pub send: bool,
    /// Edits sent messages.
    pub edit: bool,
    /// Shows buttons and reports taps.
    pub approve: bool,
    /// Shows the progress of turns; needs `send` and `edit`.
    pub progress: bool,
    /// Shows that a turn is running.
    pub typing: bool,
    /// Deduplicates messages by `outbox_id`.
    pub idempotent_send: bool,
    /// The longest text.
    pub max_text: Option<usize>,
    /// The unit of `max_text`: `chars`, `utf16` or `bytes`.
    pub text_unit: Option<String>,
}

impl Capabilities {
    /// Whether progress is shown in a message.
    pub fn shows_turns(&self) -> bool {
        self.progress && self.send && self.edit
    }

    /// The longest text.
    pub fn limit(&self) -> Limit {
        let most = self.max_text.unwrap_or(4_096);
        match self.text_unit.as_deref() {
            Some("utf16") => Limit::Utf16(most),
            Some("bytes") => Limit::Bytes(most),
            _ => Limit::Chars(most),
        }
    }
}

/// An incoming message.
#[derive(Debug, Deserialize)]
pub struct Inbound {
    id: String,
    conversation: String,
    sender: PluginUser,
    text: Option<String>,
    #[serde(default)]
    attachments: Vec<InboundFile>,
    reply_to: Option<String>,
    ts: Option<Value>,
    /// Whether other people read the conversation too.
    #[serde(default)]
    shared: bool,
    /// The plugin's cursor behind this message.
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct InboundFile {
    kind: Option<String>,
    name: Option<String>,
    uri: Option<String>,
    /// The content, in base64.
    data: Option<String>,
}

impl InboundFile {
    /// The file. An address is only a name here: nothing is fetched from it.
    fn attachment(self) -> Attachment {
        let name = self.name.or(self.uri);
        let unreadable = |why| attachments::unreadable(self.kind.as_deref(), name.as_deref(), why);
        let Some(data) = &self.data else { return unreadable("its content did not come with it") };
        match STANDARD.decode(data) {
            Ok(bytes) => Attachment { content: classify(bytes), ..unreadable("") },
            Err(_) => unreadable("its content is not base64"),
        }
    }
}

#[derive(Debug, Deserialize)]
struct PluginUser {
    id: String,
    name: Option<String>,
    /// Whether the user is a program that writes by itself. Only the plugin can know.
    #[serde(default)]
    agent: bool,
}

impl PluginUser {
    fn party(&self) -> Party {
        if self.agent { Party::Agent } else { Party::Person }
    }
}

impl Inbound {
    /// The message for the inbox. A message without a valid place is refused, since it could never be answered. In a shared
    /// conversation any approver of the channel may decide, else only the sender, if they are an approver.
    pub fn arrival(self, channel: &str, now_ms: i64) -> Result<Arrival, String> {
        let place = self.reply_to.as_ref().unwrap_or(&self.conversation);
        check_place(place).map_err(|why| format!("{why}; name it in `reply_to`"))?;
        if [&self.id, &self.conversation].iter().any(|name| name.is_empty() || name.len() > NAME_BYTES) {
            return Err(format!("`id` and `conversation` must have 1 to {NAME_BYTES} bytes"));
        }
        if self.text.is_none() && self.attachments.is_empty() {
            return Err("the message has neither `text` nor `attachments`".to_owned());
        }
        let party = self.sender.party();
        let name = self.sender.name.unwrap_or_else(|| self.sender.id.clone());
        Ok(Arrival {
            external_id: self.id,
            reply_to: format!("{channel}:{place}"),
            conversation: ConversationKey(self.conversation),
            sender: Sender { id: self.sender.id, name, party },
            room: if self.shared { Room::Shared } else { Room::Direct },
            text: self.text.unwrap_or_default(),
            context: Context::default(),
            attachments: self.attachments.into_iter().map(InboundFile::attachment).collect(),
            position: None,
            sent_at: self.ts.as_ref().and_then(parse_time).unwrap_or(now_ms),
        })
    }
}

/// Checks that a place has the right form.
pub fn check_place(place: &str) -> Result<(), String> {
    if place.trim().is_empty() || place.len() > PLACE_BYTES || place.contains(char::is_control) {
        return Err(format!("a place must have 1 to {PLACE_BYTES} bytes without control characters"));
    }
    Ok(())
}

/// Parses seconds since 1970, or RFC 3339. In milliseconds.
fn parse_time(ts: &Value) -> Option<i64> {
    match ts {
        Value::String(text) => text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond),
        other => other.as_i64().map(|seconds| seconds.saturating_mul(1000)),
    }
}

/// A tap on a button.
#[derive(Debug, Deserialize)]
pub struct Action {
    #[serde(rename = "action_id")]
    id: String,
    user: PluginUser,
    message_id: Option<String>,
    conversation: Option<String>,
}

/// The actions: the beginning of the id, the decision, the label and the style.
const ACTIONS: [(&str, Decision, &str, &str); 2] =
    [("approve", Decision::Accept, "Approve", "primary"), ("deny", Decision::Decline, "Deny", "danger")];

impl Action {
    /// The decision of a tap, or why it is refused.
    pub fn tap(self, id: String) -> Result<Tap, &'static str> {
        if self.user.party() == Party::Agent {
            return Err("an agent may not decide");
        }
        let ActionId { decision, button, place } = ActionId::of(&self.id).ok_or("unknown action")?;
        Ok(Tap {
            id,
            conversation: ConversationKey(self.conversation.unwrap_or_else(|| place.to_owned())),
            sender_id: self.user.id,
            button,
            choice: decision.into(),
            message_id: self.message_id,
        })
    }
}

/// The parts of an action's id: the decision, the request, and the place in which it was shown.
struct ActionId<'a> {
    decision: Decision,
    button: Button,
    place: &'a str,
}

impl<'a> ActionId<'a> {
    /// Reads `approve/REQUEST.DIGEST/PLACE`.
    fn of(action: &'a str) -> Option<Self> {
        let mut words = action.splitn(3, '/');
        let (word, asked, place) = (words.next()?, words.next()?, words.next()?);
        let (_, decision, ..) = ACTIONS.into_iter().find(|(known, ..)| *known == word)?;
        Some(Self { decision, button: Button::named(asked), place })
    }
}

/// The request that an action is about.
pub fn request_of(action: &str) -> Option<RequestName> {
    ActionId::of(action).map(|parts| parts.button.request_id)
}

/// The parameters of `send`.
pub fn send(place: &str, attempt: &Attempt, capabilities: &Capabilities) -> Value {
    let notice = &attempt.notice;
    let kind = match &notice.content {
        Content::Asks(_) | Content::Reminder(_) => "approval",
        Content::Reply(_) => "reply",
        Content::Finished(_) | Content::Test => "notice",
    };
    let is_markdown =
        matches!(&notice.content, Content::Reply(reply) if reply.format == TextFormat::Markdown);
    let decidable = notice.requests().iter().filter(|asked| !asked.is_question());
    let actions = decidable.flat_map(|asked| actions(place, asked));
    // A request that is not shown completely has no button to approve it.
    let is_whole = text::is_whole(notice, capabilities.limit(), Mentions::Relayed);
    let actions = actions.filter(|action| is_whole || action["style"] != "primary");
    let expires_at = notice.requests().iter().filter_map(|asked| asked.expires_at).min().map(amount::rfc3339);
    json!({
        "outbox_id": attempt.key, "target": place, "kind": kind, "format": if is_markdown { "markdown" } else { "text" },
        "text": text::chat(notice, attempt.may_be_duplicate, capabilities.limit(), Mentions::Relayed), "in_reply_to": notice.in_reply_to(),
        "actions": if capabilities.approve { actions.collect::<Vec<_>>() } else { Vec::new() },
        "expires_at": expires_at, "attempt": attempt.number, "maybe_duplicate": attempt.may_be_duplicate,
    })
}

/// The parameters of the first `send` for the progress of a turn.
pub fn progress(progress: &Progress, text: &str) -> Value {
    json!({
        "outbox_id": format!("progress-{}", progress.message_id), "target": progress.place, "kind": "progress",
        "format": "text", "text": text, "in_reply_to": null, "actions": [], "expires_at": null, "attempt": 1,
        "maybe_duplicate": false,
    })
}

fn actions(place: &str, asked: &Asked) -> Vec<Value> {
    let name = asked.name();
    let action = |(word, _, label, style): &(&str, Decision, &str, &str)| json!({ "id": format!("{word}/{name}/{place}"), "label": label, "style": style });
    ACTIONS.iter().map(action).collect()
}

/// The meaning of an answer to `send`.
pub fn outcome(answer: Result<Value, CallError>) -> Outcome {
    let error = match answer {
        Ok(result) => {
            let message_id = result["message_id"].as_str().map(str::to_owned);
            return Outcome::delivered(message_id);
        }
        Err(CallError::Unsent(why)) => return Outcome::failed(Refusal::Later, why),
        Err(CallError::InDoubt(why)) => return Outcome::in_doubt(why),
        Err(CallError::Refused(error)) => error,
    };
    let code = error["code"].as_str().unwrap_or_default();
    let why = format!(
        "the plugin refused the message ({code}): {}",
        error["message"].as_str().unwrap_or("without a reason")
    );
    let refusal = match code {
        "dead_target" => Refusal::Gone,
        "invalid" => Refusal::Never,
        // Credentials may be corrected, and other faults pass.
        _ => retry_after(&error).map_or(Refusal::Later, Refusal::NotBefore),
    };
    Outcome::failed(refusal, why)
}

/// The pause that a plugin asks for with a refusal, if any.
pub fn retry_after(error: &Value) -> Option<Duration> {
    let seconds = error["data"]["retry_after"].as_f64()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use codex_session::Ask;

    use super::*;

    fn refused(error: Value) -> Refusal {
        match outcome(Err(CallError::Refused(error))) {
            Outcome::Failed { refusal, .. } => refusal,
            Outcome::Delivered { .. } => panic!("delivered"),
        }
    }

    #[test]
    fn what_a_refusal_means() {
        let wait = json!({"code": "rate_limited", "data": {"retry_after": 35}});
        assert_eq!(refused(wait), Refusal::NotBefore(Duration::from_secs(35)));
        let soon = json!({"code": "transient", "data": {"retry_after": 0.5}});
        assert_eq!(refused(soon), Refusal::NotBefore(Duration::from_millis(500)));
        for nonsense in [json!(-1), json!("soon"), json!(1e300)] {
            assert_eq!(refused(json!({"code": "auth", "data": {"retry_after": nonsense}})), Refusal::Later);
        }
        assert_eq!(refused(json!({"code": "dead_target"})), Refusal::Gone);
        assert_eq!(refused(json!({"code": "invalid"})), Refusal::Never);
        assert_eq!(refused(json!({"code": "auth"})), Refusal::Later);
        assert_eq!(refused(json!({"code": -32603})), Refusal::Later);
        assert_eq!(outcome(Ok(json!({"message_id": "m1"}))), Outcome::delivered(Some("m1".into())));
        assert!(matches!(
            outcome(Err(CallError::InDoubt("x".into()))),
            Outcome::Failed { in_doubt: true, .. }
        ));
    }

    #[test]
    fn an_action_comes_back_as_what_it_was_made_for() {
        let asked = Asked {
            request_id: "req-12ab34cd12ab34cd12ab34cd12ab34cd".into(),
            digest: "0123456789abcdef0123456789abcdef".to_owned(),
            ask: Ask::default(),
            is_long: false,
            was_shown: false,
            expires_at: None,
        };
        let made = &actions("room/7", &asked)[1];
        let action = json!({"action_id": made["id"], "user": {"id": "ada"}, "message_id": "m1"});
        let tap = serde_json::from_value::<Action>(action).unwrap().tap("t1".into()).unwrap();
        assert_eq!(
            (tap.button.request_id.as_str(), tap.conversation.as_str()),
            ("req-12ab34cd12ab34cd12ab34cd12ab34cd", "room/7")
        );
        assert_eq!(tap.button.digest, "0123456789abcdef");
        assert_eq!((tap.choice, tap.sender_id.as_str()), (Decision::Decline.into(), "ada"));
        let unknown = json!({"action_id": "launch/x/y", "user": {"id": "ada"}});
        assert!(serde_json::from_value::<Action>(unknown).unwrap().tap("t1".into()).is_err());
        let by_agent = json!({"action_id": made["id"], "user": {"id": "ada", "agent": true}});
        let refused = serde_json::from_value::<Action>(by_agent).unwrap().tap("t1".into());
        assert!(refused.unwrap_err().contains("agent"));
    }

    #[test]
    fn a_message_says_when_it_was_written() {
        let inbound = |ts: Value| {
            let text =
                json!({"id": "1", "conversation": "c", "sender": {"id": "ada"}, "text": "hi", "ts": ts});
            serde_json::from_value::<Inbound>(text).unwrap().arrival("echo", 5).unwrap()
        };
        assert_eq!(inbound(json!(1_700_000_000)).sent_at, 1_700_000_000_000);
        assert_eq!(inbound(json!("2023-11-14T22:13:20Z")).sent_at, 1_700_000_000_000);
        assert_eq!(inbound(Value::Null).sent_at, 5);
        assert_eq!(inbound(Value::Null).reply_to, "echo:c");
    }

    #[test]
    fn only_who_is_said_to_be_an_agent_is_one() {
        let party = |sender: Value| {
            let inbound = json!({"id": "1", "conversation": "c", "sender": sender, "text": "hi"});
            serde_json::from_value::<Inbound>(inbound).unwrap().arrival("echo", 5).unwrap().sender.party
        };
        assert_eq!(party(json!({"id": "ada"})), Party::Person);
        assert_eq!(party(json!({"id": "ada", "agent": false})), Party::Person);
        assert_eq!(party(json!({"id": "ada", "agent": true})), Party::Agent);
    }

    #[test]
    fn what_came_with_a_message_is_named() {
        let text = |text: Option<&str>| {
            let mut inbound = json!({"id": "1", "conversation": "c", "sender": {"id": "ada"}, "attachments": [
                {"kind": "image", "name": "a.png", "data": "aGk="}, {"uri": "mxc://b"}, {"data": "?"}]});
            if let Some(text) = text {
                inbound["text"] = text.into();
            }
            let arrival = serde_json::from_value::<Inbound>(inbound).unwrap().arrival("echo", 5).unwrap();
            let files: Vec<String> = arrival
                .attachments
                .iter()
                .map(|file| format!("{} {:?}", file.label(), file.content))
                .collect();
            (arrival.text, files)
        };
        let files = [
            "a.png Text(2 bytes)",
            "mxc://b Unreadable(\"its content did not come with it\")",
            "file Unreadable(\"its content is not base64\")",
        ]
        .map(str::to_owned);
        let bare = json!({"id": "1", "conversation": "c", "sender": {"id": "ada"}});
        assert!(serde_json::from_value::<Inbound>(bare).unwrap().arrival("echo", 5).is_err());
        assert_eq!(text(None), (String::new(), files.to_vec()));
        assert_eq!(text(Some("look")), ("look".to_owned(), files.to_vec()));
    }

    #[test]
    fn what_could_never_be_answered_is_not_taken() {
        let arrival = |conversation: &str, reply_to: Option<&str>| {
            let text = json!({"id": "1", "conversation": conversation, "sender": {"id": "ada"}, "text": "hi",
                "reply_to": reply_to, "shared": true});
            serde_json::from_value::<Inbound>(text).unwrap().arrival("echo", 5)
        };
        assert!(arrival(&"x".repeat(300), None).unwrap_err().contains("reply_to"));
        assert!(arrival("a\nb", None).is_err() && arrival(" ", None).is_err());
        let named = arrival(&"x".repeat(300), Some("!room:server.org")).unwrap();
        assert_eq!((named.reply_to.as_str(), named.room), ("echo:!room:server.org", Room::Shared));
        assert_eq!(arrival("großer Raum", None).unwrap().reply_to, "echo:großer Raum");
        assert!(arrival("", Some("x")).is_err());
    }
}
