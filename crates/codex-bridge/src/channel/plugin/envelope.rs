//! What is said between us and a plugin, read and written. Pure. The same for every platform; `docs/channels.md` has it in
//! words.

use codex_bridge_core::inbox::{Arrival, ConversationKey, Party, Room, Sender};
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Asked, Attempt, Content, Outcome};
use codex_bridge_core::request::Button;
use codex_bridge_core::request::RequestName;
use codex_session::Decision;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use super::process::Unanswered;
use crate::amount;
use crate::channel::text::{self, Limit};
use crate::channel::{Progress, Tap, attached};

/// The longest place: targets have room for the channel's name beside it.
const PLACE_BYTES: usize = 200;
/// The longest name of a message or a conversation.
const NAME_BYTES: usize = 512;

/// What a plugin says that it can do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Takes what is said.
    pub send: bool,
    /// Can change what it said.
    pub edit: bool,
    /// Shows buttons, and tells when one is tapped.
    pub approve: bool,
    /// Wants to show how a turn stands while it runs; with `edit`.
    pub progress: bool,
    /// Wants to know where a turn works, as long as it does.
    pub typing: bool,
    /// Knows what it has sent by its `outbox_id`.
    pub idempotent_send: bool,
    /// The longest text.
    pub max_text: Option<usize>,
    /// In which unit: `chars`, `utf16` or `bytes`.
    pub text_unit: Option<String>,
}

impl Capabilities {
    /// Whether how a turn stands is shown in a message.
    pub fn shows_turns(&self) -> bool {
        self.progress && self.send && self.edit
    }

    /// How long a text may be.
    pub fn limit(&self) -> Limit {
        let most = self.max_text.unwrap_or(4_096);
        match self.text_unit.as_deref() {
            Some("utf16") => Limit::Utf16(most),
            Some("bytes") => Limit::Bytes(most),
            _ => Limit::Chars(most),
        }
    }
}

/// A message that came in.
#[derive(Debug, Deserialize)]
pub struct Inbound {
    id: String,
    conversation: String,
    sender: From,
    #[serde(default)]
    text: Option<String>,
    /// What came with it.
    #[serde(default)]
    attachments: Vec<Attachment>,
    #[serde(default)]
    reply_to: Option<String>,
    #[serde(default)]
    ts: Option<Value>,
    /// Whether others than the sender read the conversation.
    #[serde(default)]
    shared: bool,
    /// How far the source is read with it.
    #[serde(default)]
    pub cursor: Option<String>,
}

/// Something that came with a message.
#[derive(Debug, Deserialize)]
struct Attachment {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    uri: Option<String>,
}

impl Attachment {
    fn line(&self) -> String {
        attached::line(self.kind.as_deref(), self.name.as_deref().or(self.uri.as_deref()))
    }
}

#[derive(Debug, Deserialize)]
struct From {
    id: String,
    #[serde(default)]
    name: Option<String>,
    /// Whether it is a program that writes by itself. Only the plugin can tell.
    #[serde(default)]
    agent: bool,
}

impl From {
    fn party(&self) -> Party {
        if self.agent { Party::Agent } else { Party::Person }
    }
}

impl Inbound {
    /// As the inbox takes it, or why it cannot be taken: what has no proper place could never be answered. Where others read
    /// along, any approver of the channel may decide; else only the sender, if they are one.
    pub fn arrival(self, channel: &str, now_ms: i64) -> Result<Arrival, String> {
        let place = self.reply_to.as_ref().unwrap_or(&self.conversation);
        check_place(place).map_err(|why| format!("{why}; name it in `reply_to`"))?;
        if [&self.id, &self.conversation].iter().any(|name| name.is_empty() || name.len() > NAME_BYTES) {
            return Err(format!("an id and a conversation have 1 to {NAME_BYTES} bytes"));
        }
        if self.text.is_none() && self.attachments.is_empty() {
            return Err("it has neither a text nor attachments".to_owned());
        }
        let text = self.text.unwrap_or_default();
        let party = self.sender.party();
        let name = self.sender.name.unwrap_or_else(|| self.sender.id.clone());
        Ok(Arrival {
            external_id: self.id,
            reply_to: format!("{channel}:{place}"),
            conversation: ConversationKey(self.conversation),
            sender: Sender { id: self.sender.id, name, party },
            room: if self.shared { Room::Shared } else { Room::Direct },
            text: attached::below(&text, self.attachments.iter().map(Attachment::line)),
            position: None,
            sent_at: self.ts.as_ref().and_then(time).unwrap_or(now_ms),
        })
    }
}

/// Whether something can be sent there.
pub fn check_place(place: &str) -> Result<(), String> {
    if place.trim().is_empty() || place.len() > PLACE_BYTES || place.contains(char::is_control) {
        return Err(format!("a place has 1 to {PLACE_BYTES} bytes, without control characters"));
    }
    Ok(())
}

/// Seconds since 1970, or RFC 3339.
fn time(ts: &Value) -> Option<i64> {
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
    user: From,
    #[serde(default)]
    message_id: Option<String>,
    #[serde(default)]
    conversation: Option<String>,
}

/// How the names of actions begin.
const ACTIONS: [(&str, Decision, &str, &str); 2] =
    [("approve", Decision::Accept, "Approve", "primary"), ("deny", Decision::Decline, "Deny", "danger")];

impl Action {
    /// What was decided, and where; or why it counts for nothing.
    pub fn tap(self, id: String) -> Result<Tap, &'static str> {
        if self.user.party() == Party::Agent {
            return Err("an agent never decides");
        }
        let Parts { decision, button, place } = Parts::of(&self.id).ok_or("there is no such action")?;
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

/// What the name of an action carries: a decision, on what, and where that was put before people.
struct Parts<'a> {
    decision: Decision,
    button: Button,
    place: &'a str,
}

impl<'a> Parts<'a> {
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
    Parts::of(action).map(|parts| parts.button.request_id)
}

/// What a plugin is asked to say.
pub fn send(place: &str, attempt: &Attempt, can: &Capabilities) -> Value {
    let notice = &attempt.notice;
    let kind = match &notice.content {
        Content::Asks(_) | Content::Reminder(_) => "approval",
        Content::Reply(_) => "reply",
        Content::Finished(_) | Content::Test => "notice",
    };
    let decidable = notice.requests().iter().filter(|asked| !asked.is_question());
    let actions = decidable.flat_map(|asked| actions(place, asked));
    // Nobody is offered to agree to what they are not shown.
    let is_whole = text::is_whole(notice, can.limit());
    let actions = actions.filter(|action| is_whole || action["style"] != "primary");
    let expires_at = notice.requests().iter().filter_map(|asked| asked.expires_at).min().map(amount::rfc3339);
    json!({
        "outbox_id": attempt.key, "target": place, "kind": kind, "format": "text",
        "text": text::chat(notice, attempt.may_be_duplicate, can.limit()), "in_reply_to": notice.in_reply_to(),
        "actions": if can.approve { actions.collect::<Vec<_>>() } else { Vec::new() },
        "expires_at": expires_at, "attempt": attempt.number, "maybe_duplicate": attempt.may_be_duplicate,
    })
}

/// How a turn stands, for the first time.
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

/// What an answer to `send` means.
pub fn outcome(answer: Result<Value, Unanswered>) -> Outcome {
    let error = match answer {
        Ok(result) => {
            let message_id = result["message_id"].as_str().map(str::to_owned);
            return Outcome::delivered(message_id);
        }
        Err(Unanswered::Unsent(why)) => return Outcome::failed(Refusal::Later, why),
        Err(Unanswered::InDoubt(why)) => return Outcome::in_doubt(why),
        Err(Unanswered::Refused(error)) => error,
    };
    let code = error["code"].as_str().unwrap_or_default();
    let why = format!(
        "the plugin refused it ({code}): {}",
        error["message"].as_str().unwrap_or("without a reason")
    );
    let refusal = match code {
        "dead_target" => Refusal::Gone,
        "invalid" => Refusal::Never,
        // Credentials may be put right, and the rest passes.
        _ => retry_after(&error).map_or(Refusal::Later, Refusal::NotBefore),
    };
    Outcome::failed(refusal, why)
}

/// How long a plugin wants to be left alone, if it says so with a refusal.
pub fn retry_after(error: &Value) -> Option<Duration> {
    let seconds = error["data"]["retry_after"].as_f64()?;
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use codex_session::Ask;

    use super::*;

    fn refused(error: Value) -> Refusal {
        match outcome(Err(Unanswered::Refused(error))) {
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
            outcome(Err(Unanswered::InDoubt("x".into()))),
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
                {"kind": "image", "name": "a.png"}, {"uri": "mxc://b"}, {}]});
            if let Some(text) = text {
                inbound["text"] = text.into();
            }
            serde_json::from_value::<Inbound>(inbound).unwrap().arrival("echo", 5).unwrap().text
        };
        let named = "[image attached: a.png; it cannot be read here]\n[file attached: mxc://b; it cannot be read here]\n\
            [file attached; it cannot be read here]";
        let bare = json!({"id": "1", "conversation": "c", "sender": {"id": "ada"}});
        assert!(serde_json::from_value::<Inbound>(bare).unwrap().arrival("echo", 5).is_err());
        assert_eq!((text(None), text(Some("look"))), (named.to_owned(), format!("look\n\n{named}")));
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
