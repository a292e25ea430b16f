//! Work that arrives by a POST to `/hooks/NAME`, signed as Standard Webhooks 1.0.0 have it. The signature is all that a
//! sender has and needs: whoever has the secret may hand over work, and never decides on anything.
//!
//! There is nothing to poll. A reply goes to a target of the outbox, or is only kept.

use std::sync::Arc;

use codex_bridge_core::inbox::{Arrival, ConversationKey, Party, Room, Sender, WhenFull};
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::secret::{Env, Secret, all_found, found};
use super::settings::{Opening, Way};
use super::webhook::{genuine, key};
use super::{Batch, Channel, Platform, Receiving, Trouble};
use crate::failure::{Code, Failure};

/// Who writes, as far as we can tell: somebody, or what says that it is an agent, whose messages are counted apart.
const ALLOWED: [&str; 2] = ["hook", "agent"];
/// How far a sender's clock may be off, and how old a message may be.
const TOLERANCE_S: u64 = 5 * 60;
/// The longest name of a message, and of a conversation.
const ID_BYTES: usize = 256;
/// The place of replies that nobody wants to be sent.
const KEPT: &str = "kept";

/// What arrives by POST.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Signs each message: `whsec_…`.
    pub secret: Option<Secret>,
    /// Where replies go, unless a message says otherwise.
    pub reply_to: Option<String>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String> {
        if !opening.common.allow.is_empty() {
            return Err("whoever has its secret may write, so it takes no `allow`".to_owned());
        }
        opening.receives(Arc::new(Hook::new(opening.name, self, opening.around.env)?), &ALLOWED)
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        all_found([&self.secret], env)
    }
}

/// What a message says.
#[derive(Debug, Deserialize)]
struct Body {
    text: String,
    /// What belongs together; a message without it stands for itself.
    #[serde(default)]
    conversation: Option<String>,
    /// Where the reply goes.
    #[serde(default)]
    reply_to: Option<String>,
    /// Whether another agent wrote it, and not a person or what a person set up.
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

/// What somebody posted, as it came.
#[derive(Debug, Clone, Copy)]
pub struct Posted<'a> {
    /// The sender's own name for it.
    pub id: Option<&'a str>,
    /// When it was sent, in seconds since 1970.
    pub timestamp: Option<&'a str>,
    /// What proves who sent it.
    pub signature: Option<&'a str>,
    /// The rest.
    pub body: &'a [u8],
}

/// A way in for whoever has its secret.
pub struct Hook {
    name: String,
    key: Vec<u8>,
    reply_to: String,
}

impl Hook {
    fn new(name: &str, settings: &Settings, env: Env<'_>) -> Result<Self, String> {
        let secret = found(settings.secret.as_ref(), env)?;
        let secret = secret.ok_or("it has no secret: set `secret_env`, or `secret`")?;
        let reply_to = settings.reply_to.clone().unwrap_or_else(|| format!("{name}:{KEPT}"));
        Ok(Self { name: name.to_owned(), key: key(&secret)?, reply_to })
    }

    /// What somebody posted to `/hooks/NAME`, if it comes from whoever has the secret.
    pub fn posted(&self, posted: &Posted<'_>) -> Result<Arrival, Failure> {
        self.read(posted, Timestamp::now().as_second())
    }

    fn read(&self, posted: &Posted<'_>, now_s: i64) -> Result<Arrival, Failure> {
        let unauthorized = |why: &str| Failure::new(Code::Unauthorized, why);
        let (Some(id), Some(at)) = (posted.id, posted.timestamp.and_then(|at| at.parse::<i64>().ok())) else {
            return Err(unauthorized("webhook-id, webhook-timestamp and webhook-signature are needed"));
        };
        if id.is_empty() || id.len() > ID_BYTES || now_s.abs_diff(at) > TOLERANCE_S {
            return Err(unauthorized("the message is too old, or from the future, or has no proper id"));
        }
        if !genuine(&self.key, id, at, posted.body, posted.signature.unwrap_or_default()) {
            return Err(unauthorized("the signature is not that of this hook's secret"));
        }
        let body: Body = serde_json::from_slice(posted.body).map_err(|error| {
            Failure::new(Code::BadCall, format!("the body is not what a hook takes: {error}"))
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
        if place == KEPT { Ok(()) } else { Err("nothing can be sent to a hook: it only takes".to_owned()) }
    }

    fn repeats(&self, _place: &str) -> Repeats {
        Repeats::Idempotent { within: None }
    }

    /// Nobody waits for it: whoever wants to know reads the task.
    fn send<'a>(&'a self, _place: &'a str, _attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        std::future::ready(Outcome::delivered(None)).boxed()
    }
}

impl Receiving for Hook {
    fn when_full(&self) -> WhenFull {
        WhenFull::PutOff
    }

    fn identity(&self) -> String {
        // Others may have a hook of the same name with a secret of their own.
        let digest = Sha256::digest(&self.key);
        let mark = u32::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default());
        format!("hook {} with the key {mark:08x}…", self.name)
    }

    fn start(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<String, Trouble>> {
        self.probe()
    }

    fn probe(&self) -> BoxFuture<'_, Result<String, Trouble>> {
        let sentence = format!("POST /hooks/{} is answered wherever the daemon listens", self.name);
        std::future::ready(Ok(sentence)).boxed()
    }

    fn receive(&self, _cursor: Option<String>) -> BoxFuture<'_, Result<Batch, Trouble>> {
        // What comes, comes by itself.
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
        let posted = Posted {
            id: Some("msg_p5jXN8AQM9LWM0D4loKWxJek"),
            timestamp: Some(at),
            signature: Some(signature),
            body,
        };
        hook.read(&posted, now_s).unwrap_err().code.to_string()
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
