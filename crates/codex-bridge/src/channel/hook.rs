//! Receives work by a POST to `/hooks/NAME`, signed as in Standard Webhooks 1.0.0. The signature is the only authentication:
//! a sender with the secret may hand over work, and can never decide requests.
//!
//! A hook is not polled. A reply goes to a target of the outbox, or is only stored with the task.

use std::sync::Arc;

use codex_bridge_core::inbox::{Arrival, Context, ConversationKey, Party, Room, Sender, WhenFull};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::secret::{Env, Secret, reveal_all, reveal_optional};
use super::settings::{OpenedChannel, Opening};
use super::webhook::{decode_key, is_genuine};
use super::{Batch, Channel, ChannelError, Platform, Receiving, Stored};
use crate::failure::{Code, Failure, parser_message};

/// The senders of a hook: `hook`, or `agent` for messages that say so. Messages of agents have limits of their own.
const ALLOWED: [&str; 2] = ["hook", "agent"];
/// The largest difference between the timestamp of a message and our clock.
const TOLERANCE_S: u64 = 5 * 60;
/// The longest id of a message or a conversation.
const ID_BYTES: usize = 256;
/// The place of replies that are stored and not sent.
const KEPT: &str = "kept";

/// The settings of a hook.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The secret that signs each message: `whsec_…`.
    pub secret: Option<Secret>,
    /// The target of replies, unless a message names another.
    pub reply_to: Option<String>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        if !opening.common.allow.is_empty() {
            return Err("a hook takes no `allow`: every sender with its secret may write".to_owned());
        }
        opening.receives(Arc::new(Hook::new(opening.name, self, opening.context.env)?), &ALLOWED)
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        reveal_all([&self.secret], env)
    }
}

#[derive(Debug, Deserialize)]
struct Body {
    text: String,
    /// Messages with the same value are one conversation; a message without it is a conversation of its own.
    conversation: Option<String>,
    /// The target of the reply.
    reply_to: Option<String>,
    /// Whether an agent wrote the message, not a person or a program that a person set up.
    #[serde(default)]
    agent: bool,
}

impl Body {
    fn sender(&self, hook: &str) -> Sender {
        let [somebody, agent] = ALLOWED;
        let (id, party) = if self.agent { (agent, Party::Agent) } else { (somebody, Party::Person) };
        Sender { id: id.to_owned(), name: hook.to_owned(), party }
    }
}

/// A POST to a hook, not yet verified.
#[derive(Debug, Clone, Copy)]
pub struct SignedPost<'a> {
    /// The sender's id of the message.
    pub id: Option<&'a str>,
    /// The time of sending, in seconds since 1970.
    pub timestamp: Option<&'a str>,
    /// The signature over id, timestamp and body.
    pub signature: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// A hook.
pub struct Hook {
    name: String,
    key: Vec<u8>,
    reply_to: String,
}

impl Hook {
    fn new(name: &str, settings: &Settings, env: Env<'_>) -> Result<Self, String> {
        let secret = reveal_optional(settings.secret.as_ref(), env)?;
        let secret = secret.ok_or("the secret is missing: set `secret_env` or `secret`")?;
        let reply_to = settings.reply_to.clone().unwrap_or_else(|| format!("{name}:{KEPT}"));
        Ok(Self { name: name.to_owned(), key: decode_key(&secret)?, reply_to })
    }

    /// The message of a POST to `/hooks/NAME`, if its signature is valid and it is recent.
    pub fn post(&self, post: &SignedPost<'_>) -> Result<Arrival, Failure> {
        self.read(post, Timestamp::now().as_second())
    }

    fn read(&self, post: &SignedPost<'_>, now_s: i64) -> Result<Arrival, Failure> {
        let unauthorized = |why: &str| Failure::new(Code::Unauthorized, why);
        let (Some(id), Some(at)) = (post.id, post.timestamp.and_then(|at| at.parse::<i64>().ok())) else {
            return Err(unauthorized("webhook-id, webhook-timestamp and webhook-signature are needed"));
        };
        if id.is_empty() || id.len() > ID_BYTES || now_s.abs_diff(at) > TOLERANCE_S {
            return Err(unauthorized("the message is too old, or from the future, or has no proper id"));
        }
        if !is_genuine(&self.key, id, at, post.body, post.signature.unwrap_or_default()) {
            return Err(unauthorized("the signature does not match this hook's secret"));
        }
        let body: Body = serde_json::from_slice(post.body).map_err(|error| {
            let error = parser_message(&error.to_string());
            let message = format!(
                "the body is not a message for a hook: {error}; docs/channels/webhook.md has an example"
            );
            Failure::new(Code::BadCall, message)
        })?;
        if body.text.trim().is_empty() {
            return Err(Failure::new(Code::BadCall, "the text is empty"));
        }
        if body.conversation.as_ref().is_some_and(|name| name.is_empty() || name.len() > ID_BYTES) {
            return Err(Failure::new(Code::BadCall, format!("a conversation has 1 to {ID_BYTES} bytes")));
        }
        Ok(Arrival {
            external_id: id.to_owned(),
            sender: body.sender(&self.name),
            conversation: ConversationKey(body.conversation.unwrap_or_else(|| id.to_owned())),
            room: Room::Direct,
            text: body.text,
            reply_to: body.reply_to.unwrap_or_else(|| self.reply_to.clone()),
            context: Context::default(),
            attachments: Vec::new(),
            position: None,
            sent_at: at.saturating_mul(1000),
        })
    }
}

impl Channel for Hook {
    fn places(&self) -> Vec<String> {
        Vec::new()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        if place == KEPT { Ok(()) } else { Err("nothing can be sent to a hook: it only receives".to_owned()) }
    }

    fn repeats(&self, _place: &str) -> Repeats {
        Repeats::Idempotent { within: None }
    }

    /// Stored with the task, which callers can read; nothing is sent.
    fn send<'a>(&'a self, _place: &'a str, _attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        std::future::ready(Outcome::delivered(None)).boxed()
    }
}

impl Receiving for Hook {
    fn hook(&self) -> Option<&Hook> {
        Some(self)
    }

    fn when_full(&self) -> WhenFull {
        WhenFull::PutOff
    }

    fn identity(&self) -> String {
        // Two daemons may each have a hook of this name, with different secrets.
        let digest = Sha256::digest(&self.key);
        let mark = u32::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
        format!("hook {} with the key {mark:08x}…", self.name)
    }

    fn start(&self, _stored: Stored) -> BoxFuture<'_, Result<String, ChannelError>> {
        self.probe()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, ChannelError>> {
        let sentence = format!("POST /hooks/{} is answered wherever the daemon listens", self.name);
        std::future::ready(Ok(sentence)).boxed()
    }

    fn receive(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<Batch, ChannelError>> {
        // Messages arrive by POST, not by polling.
        std::future::pending().boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn read(signature: &str, now_s: i64, body: &[u8]) -> String {
        read_at("1614265330", signature, now_s, body)
    }

    fn read_at(at: &str, signature: &str, now_s: i64, body: &[u8]) -> String {
        let settings: Settings = toml::from_str(&format!("secret = \"{SECRET}\"")).unwrap();
        let hook = Hook::new("ci", &settings, &|_| None).unwrap();
        let post = SignedPost {
            id: Some("msg_p5jXN8AQM9LWM0D4loKWxJek"),
            timestamp: Some(at),
            signature: Some(signature),
            body,
        };
        hook.read(&post, now_s).unwrap_err().code.to_string()
    }

    #[test]
    fn what_an_agent_hands_over_is_an_agents() {
        let sender = |body: &str| serde_json::from_str::<Body>(body).unwrap().sender("ci");
        let by_agent = sender(r#"{"text": "look", "agent": true}"#);
        assert_eq!((by_agent.id.as_str(), by_agent.party), ("agent", Party::Agent));
        for other in [r#"{"text": "look"}"#, r#"{"text": "look", "agent": false}"#] {
            assert_eq!((sender(other).id.as_str(), sender(other).party), ("hook", Party::Person));
        }
        assert!(serde_json::from_str::<Body>(r#"{"text": "look", "agent": "yes"}"#).is_err());
    }

    #[test]
    fn only_what_is_signed_and_fresh_is_read() {
        let at = 1_614_265_330;
        // The example of the Standard Webhooks reference libraries is genuine; its body is not for us.
        assert_eq!(read(SIGNATURE, at, BODY), "bad_call");
        assert_eq!(read(&format!("v1a,zzz v1,AAAA {SIGNATURE}"), at + 299, BODY), "bad_call");
        assert_eq!(read(SIGNATURE, at + 301, BODY), "unauthorized");
        assert_eq!(read(SIGNATURE, at - 301, BODY), "unauthorized");
        assert_eq!(read(SIGNATURE, at, b"{}"), "unauthorized");
        assert_eq!(read("", at, BODY), "unauthorized");
        assert_eq!(read("v1,", at, BODY), "unauthorized");
        for extreme in [i64::MIN, i64::MAX] {
            assert_eq!(read_at(&extreme.to_string(), SIGNATURE, at, BODY), "unauthorized", "{extreme}");
        }
    }
}
