//! What is said between us and a plugin, read and written. Pure. The same for every platform; `docs/channels.md` has it in
//! words.

use codex_bridge_core::inbox::{Arrival, Party, Room, Sender};
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Occasion, Outcome};
use codex_session::Decision;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

use super::process::Unanswered;
use crate::channel::{Tap, speech};
use crate::deliver::text::Limit;
use crate::view;

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
    /// Knows what it has sent by its `outbox_id`.
    pub idempotent_send: bool,
    /// The longest text.
    pub max_text: Option<usize>,
    /// In which unit: `chars`, `utf16` or `bytes`.
    pub text_unit: Option<String>,
}

impl Capabilities {
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
    text: String,
    #[serde(default)]
    reply_to: Option<String>,
    #[serde(default)]
    ts: Option<Value>,
    /// How far the source is read with it.
    #[serde(default)]
    pub cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
struct From {
    id: String,
    #[serde(default)]
    name: Option<String>,
}

impl Inbound {
    /// As the inbox takes it. Nobody else may read along: where a stranger writes, nobody decides.
    pub fn arrival(self, channel: &str, now_ms: i64) -> Arrival {
        let place = self.reply_to.as_ref().unwrap_or(&self.conversation);
        let name = self.sender.name.unwrap_or_else(|| self.sender.id.clone());
        Arrival {
            external_id: self.id,
            reply_to: format!("{channel}:{place}"),
            conversation: self.conversation,
            sender: Sender { id: self.sender.id, name, party: Party::Person },
            room: Room::Direct,
            text: self.text,
            position: None,
            sent_at: self.ts.as_ref().and_then(time).unwrap_or(now_ms),
        }
    }
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
    /// What was decided, and where: the name of an action carries it.
    pub fn tap(self, id: String) -> Option<Tap> {
        let mut words = self.id.splitn(3, '/');
        let (word, request_id, place) = (words.next()?, words.next()?, words.next()?);
        let (_, decision, ..) = ACTIONS.into_iter().find(|(known, ..)| *known == word)?;
        Some(Tap {
            id,
            conversation: self.conversation.unwrap_or_else(|| place.to_owned()),
            sender_id: self.user.id,
            request_id: request_id.to_owned(),
            decision,
            message_id: self.message_id,
        })
    }
}

/// What a plugin is asked to say.
pub fn send(place: &str, attempt: &Attempt, can: &Capabilities) -> Value {
    let notice = &attempt.notice;
    let asks = !notice.requests.is_empty();
    let kind = match notice.occasion {
        _ if asks => "approval",
        Occasion::Reply => "reply",
        _ => "notice",
    };
    let decidable = notice
        .requests
        .iter()
        .filter(|asked| !matches!(asked.ask["kind"].as_str(), Some("questions" | "form")));
    let actions = decidable.flat_map(|asked| actions(place, &asked.request_id));
    let expires_at = notice.requests.iter().filter_map(|asked| asked.expires_at).min().map(view::time);
    json!({
        "outbox_id": attempt.key, "target": place, "kind": kind, "format": "text",
        "text": speech::text(attempt, can.limit()), "in_reply_to": notice.in_reply_to,
        "actions": if can.approve { actions.collect::<Vec<_>>() } else { Vec::new() },
        "expires_at": expires_at, "attempt": attempt.number, "maybe_duplicate": attempt.may_be_duplicate,
    })
}

fn actions(place: &str, request_id: &str) -> Vec<Value> {
    let action = |(word, _, label, style): &(&str, Decision, &str, &str)| json!({ "id": format!("{word}/{request_id}/{place}"), "label": label, "style": style });
    ACTIONS.iter().map(action).collect()
}

/// What an answer to `send` means.
pub fn outcome(answer: Result<Value, Unanswered>) -> Outcome {
    let error = match answer {
        Ok(result) => {
            let message_id = result["message_id"].as_str().map(str::to_owned);
            return Outcome::Delivered { message_id };
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
    let wait = error["data"]["retry_after"].as_u64().map(Duration::from_secs);
    let refusal = match code {
        "rate_limited" => wait.map_or(Refusal::Later, Refusal::NotBefore),
        "dead_target" => Refusal::Gone,
        "invalid" => Refusal::Never,
        // Credentials may be put right, and the rest passes.
        _ => Refusal::Later,
    };
    Outcome::failed(refusal, why)
}

#[cfg(test)]
mod tests {
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
        assert_eq!(refused(json!({"code": "dead_target"})), Refusal::Gone);
        assert_eq!(refused(json!({"code": "invalid"})), Refusal::Never);
        assert_eq!(refused(json!({"code": "auth"})), Refusal::Later);
        assert_eq!(refused(json!({"code": -32603})), Refusal::Later);
        assert_eq!(
            outcome(Ok(json!({"message_id": "m1"}))),
            Outcome::Delivered { message_id: Some("m1".into()) }
        );
        assert!(matches!(
            outcome(Err(Unanswered::InDoubt("x".into()))),
            Outcome::Failed { in_doubt: true, .. }
        ));
    }

    #[test]
    fn an_action_comes_back_as_what_it_was_made_for() {
        let made = &actions("room/7", "req-12ab34cd")[1];
        let action = json!({"action_id": made["id"], "user": {"id": "ada"}, "message_id": "m1"});
        let tap = serde_json::from_value::<Action>(action).unwrap().tap("t1".into()).unwrap();
        assert_eq!((tap.request_id.as_str(), tap.conversation.as_str()), ("req-12ab34cd", "room/7"));
        assert_eq!((tap.decision, tap.sender_id.as_str()), (Decision::Decline, "ada"));
        let unknown = json!({"action_id": "launch/x/y", "user": {"id": "ada"}});
        assert_eq!(serde_json::from_value::<Action>(unknown).unwrap().tap("t1".into()), None);
    }

    #[test]
    fn a_message_says_when_it_was_written() {
        let inbound = |ts: Value| {
            let text =
                json!({"id": "1", "conversation": "c", "sender": {"id": "ada"}, "text": "hi", "ts": ts});
            serde_json::from_value::<Inbound>(text).unwrap().arrival("echo", 5)
        };
        assert_eq!(inbound(json!(1_700_000_000)).sent_at, 1_700_000_000_000);
        assert_eq!(inbound(json!("2023-11-14T22:13:20Z")).sent_at, 1_700_000_000_000);
        assert_eq!(inbound(Value::Null).sent_at, 5);
        assert_eq!(inbound(Value::Null).reply_to, "echo:c");
    }
}
