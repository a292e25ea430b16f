//! A POST to the operator's own address: Standard Webhooks 1.0.0, signed, or a body that another service wants.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::http::{MOST_PATIENCE_S, PATIENCE, Post};
use super::text::{self, Limit};
use super::{Env, found};
use crate::config::notify;

/// How a secret is written.
const PREFIX: &str = "whsec_";
/// The shortest and the longest key, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The text beside the JSON: enough to read, and the body stays small.
const TEXT_CHARS: usize = 4_000;

/// An address that gets a POST for every notice.
#[derive(Debug)]
pub struct Webhook {
    url: String,
    key: Option<Vec<u8>>,
    token: Option<String>,
    body: Option<toml::Table>,
    limit: Limit,
    timeout: Duration,
}

impl Webhook {
    /// As configured, or why it cannot be used.
    pub fn new(settings: &notify::Webhook, env: Env<'_>) -> Result<Self, String> {
        let url = found(settings.url.as_ref(), settings.url_env.as_deref(), env)?.ok_or("it has no url")?;
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("its url must begin with http:// or https://".to_owned());
        }
        if settings.timeout_s.is_some_and(|seconds| !(1..=MOST_PATIENCE_S).contains(&seconds)) {
            return Err(format!("its timeout_s can be 1 to {MOST_PATIENCE_S}"));
        }
        let secret = found(settings.secret.as_ref(), settings.secret_env.as_deref(), env)?;
        Ok(Self {
            url,
            key: secret.map(|secret| key(&secret)).transpose()?,
            token: found(settings.token.as_ref(), settings.token_env.as_deref(), env)?,
            body: settings.body.clone(),
            limit: Limit::Chars(settings.limit.unwrap_or(TEXT_CHARS)),
            timeout: settings.timeout_s.map_or(PATIENCE, Duration::from_secs),
        })
    }

    /// A receiver of Standard Webhooks knows the id of what it has; one that wants a body of its own does not.
    pub fn repeats(&self) -> Repeats {
        if self.body.is_some() { Repeats::MayDouble } else { Repeats::Idempotent { within: None } }
    }

    pub async fn send(&self, attempt: &Attempt) -> Outcome {
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, self.limit);
        let body = match &self.body {
            Some(template) => filled(&toml::Value::Table(template.clone()), attempt, &text),
            None => standard(attempt, &text),
        };
        let mut post = Post { timeout: self.timeout, ..Post::json(self.url.as_str(), &body) };
        post.headers = self.headers(attempt.key.as_str(), now_s(), &post.body);
        match post.send().await {
            Ok(reply) if reply.is_success() => Outcome::delivered(None),
            Ok(reply) => reply.refusal(),
            Err(error) => error.into(),
        }
    }

    fn headers(&self, id: &str, at: i64, body: &str) -> Vec<(&'static str, String)> {
        let mut headers = vec![("webhook-id", id.to_owned()), ("webhook-timestamp", at.to_string())];
        if let Some(key) = &self.key {
            headers.push(("webhook-signature", signature(key, id, at, body)));
        }
        if let Some(token) = &self.token {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        headers
    }
}

fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The key that a secret stands for.
pub fn key(secret: &str) -> Result<Vec<u8>, String> {
    let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret);
    let key = STANDARD.decode(encoded).ok().filter(|key| KEY_BYTES.contains(&key.len()));
    key.ok_or_else(|| format!("its secret must be {PREFIX} and 24 to 64 bytes as base64"))
}

/// What proves that a body comes from us: the spec's `v1`.
fn signature(key: &[u8], id: &str, at: i64, body: &str) -> String {
    let Some(mac) = mac(key, id, at, body.as_bytes()) else { return String::new() };
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Whether one of these signatures is that of the key. Takes as long whichever byte is wrong.
pub fn genuine(key: &[u8], id: &str, at: i64, body: &[u8], signatures: &str) -> bool {
    let ours = signatures.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    { ours }.any(|given| mac(key, id, at, body).is_some_and(|mac| mac.verify_slice(&given).is_ok()))
}

fn mac(key: &[u8], id: &str, at: i64, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(body);
    Some(mac)
}

/// Our own body.
fn standard(attempt: &Attempt, text: &str) -> Value {
    let notice = &attempt.notice;
    let mut data = super::data(attempt);
    data["text"] = text.into();
    json!({
        "type": format!("task.{}", notice.occasion().as_str()),
        "timestamp": crate::amount::rfc3339(notice.at),
        "data": data,
    })
}

/// A body of the operator's, its texts filled in. What is filled in cannot change its shape.
fn filled(template: &toml::Value, attempt: &Attempt, text: &str) -> Value {
    let inner = |value: &toml::Value| filled(value, attempt, text);
    match template {
        toml::Value::String(words) => fill(words, attempt, text).into(),
        toml::Value::Array(values) => values.iter().map(inner).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.iter().map(|(name, value)| (name.clone(), inner(value))).collect())
        }
        toml::Value::Integer(number) => (*number).into(),
        toml::Value::Float(number) => (*number).into(),
        toml::Value::Boolean(flag) => (*flag).into(),
        toml::Value::Datetime(time) => time.to_string().into(),
    }
}

/// In one pass: what is filled in is not looked at again.
fn fill(words: &str, attempt: &Attempt, text: &str) -> String {
    let value = |name: &str| match name {
        "text" => Some(text.to_owned()),
        "title" => Some(text::title(&attempt.notice)),
        "event" => Some(attempt.notice.occasion().as_str().to_owned()),
        "task_id" => Some(super::task_id(&attempt.notice).to_owned()),
        "id" => Some(attempt.key.0.clone()),
        _ => None,
    };
    let mut out = String::new();
    let mut rest = words;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let filled = after.split_once('}').and_then(|(name, after)| Some((value(name)?, after)));
        let (piece, after) = filled.unwrap_or_else(|| ("{".to_owned(), after));
        out.push_str(&piece);
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // The example of the Standard Webhooks reference libraries.
        let key = key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_is_none_is_refused() {
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "whsec_???", "not base64 at all"] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }
}
