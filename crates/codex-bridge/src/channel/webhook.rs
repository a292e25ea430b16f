//! Sends a POST to an address of the operator's: a signed notice as in Standard Webhooks 1.0.0, or a body for another service.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codex_bridge_core::outbox::notice::NO_TASK;
use codex_bridge_core::outbox::{Attempt, Notice, Outcome, Repeats};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::Sha256;

use super::http::{Call, MAX_TIMEOUT_S, Payload, TIMEOUT};
use super::secret::{Env, Secret, reveal_all, reveal_optional, secrets_in_json, secrets_in_url};
use super::settings::{OpenedChannel, Opening};
use super::text::{self, Limit, Mentions};
use super::{Channel, Platform};

const PREFIX: &str = "whsec_";
/// The shortest and the longest key, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The default limit of the text in the JSON: enough to read, and the body stays small.
const TEXT_CHARS: usize = 4_000;

/// The settings of a webhook.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The address. It counts as a secret: for many services anybody who knows it can write.
    pub url: Option<Secret>,
    /// Signs each notice, as in Standard Webhooks: `whsec_…`.
    pub secret: Option<Secret>,
    /// Sent as a bearer token.
    pub token: Option<Secret>,
    /// Sent instead of our own JSON, with `{text}`, `{title}`, `{event}`, `{task_id}` and `{id}` filled in.
    pub body: Option<toml::Table>,
    /// The longest `{text}`, in characters.
    pub limit: Option<usize>,
    /// The timeout of a call.
    pub timeout_s: Option<u64>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        let url = reveal_optional(self.url.as_ref(), opening.context.env)?.ok_or("`url` is missing")?;
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("`url` must begin with http:// or https://".to_owned());
        }
        if self.timeout_s.is_some_and(|seconds| !(1..=MAX_TIMEOUT_S).contains(&seconds)) {
            return Err(format!("`timeout_s` can be 1 to {MAX_TIMEOUT_S}"));
        }
        let secret = reveal_optional(self.secret.as_ref(), opening.context.env)?;
        Ok(OpenedChannel::Sends(Arc::new(Webhook {
            url,
            key: secret.map(|secret| decode_key(&secret)).transpose()?,
            token: reveal_optional(self.token.as_ref(), opening.context.env)?,
            body: self.body.clone(),
            limit: Limit::Chars(self.limit.unwrap_or(TEXT_CHARS)),
            timeout: self.timeout_s.map_or(TIMEOUT, Duration::from_secs),
        })))
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        let address = reveal_all([&self.url], env).into_iter().flat_map(|url| secrets_in_url(&url));
        let others = reveal_all([&self.secret, &self.token], env);
        let of_body = self.body.iter().flat_map(|body| secrets_in_json(&json!(body)));
        address.chain(others).chain(of_body).collect()
    }
}

/// An address that gets a POST for every notice.
#[derive(Debug)]
struct Webhook {
    url: String,
    key: Option<Vec<u8>>,
    token: Option<String>,
    body: Option<toml::Table>,
    limit: Limit,
    timeout: Duration,
}

impl Webhook {
    async fn post(&self, attempt: &Attempt) -> Outcome {
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, self.limit, Mentions::Relayed);
        let body = match &self.body {
            Some(template) => fill_template(&toml::Value::Table(template.clone()), attempt, &text),
            None => standard_body(attempt, &text),
        };
        let mut post = Call { timeout: self.timeout, ..Call::post(self.url.as_str(), &body) };
        post.headers = self.headers(
            attempt.key.as_str(),
            now_s(),
            post.body.as_ref().map(Payload::content).unwrap_or_default(),
        );
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

impl Channel for Webhook {
    /// A receiver of Standard Webhooks recognises a repeated id. A body of the operator's need not contain the id.
    fn repeats(&self, _place: &str) -> Repeats {
        if self.body.is_some() { Repeats::MayDouble } else { Repeats::Idempotent { within: None } }
    }

    fn send<'a>(&'a self, _place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.post(attempt).boxed()
    }
}

fn now_s() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The key of a secret.
pub fn decode_key(secret: &str) -> Result<Vec<u8>, String> {
    let encoded = secret.strip_prefix(PREFIX).unwrap_or(secret);
    let key = STANDARD.decode(encoded).ok().filter(|key| KEY_BYTES.contains(&key.len()));
    key.ok_or_else(|| format!("`secret` must be {PREFIX} and 24 to 64 bytes in base64"))
}

/// The signature of a body, version `v1` of the specification.
fn signature(key: &[u8], id: &str, at: i64, body: &str) -> String {
    let Some(mac) = mac(key, id, at, body.as_bytes()) else { return String::new() };
    format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()))
}

/// Whether one of the signatures is valid. Compares in constant time.
pub fn is_genuine(key: &[u8], id: &str, at: i64, body: &[u8], signatures: &str) -> bool {
    let ours = signatures.split(' ').filter_map(|one| STANDARD.decode(one.strip_prefix("v1,")?).ok());
    { ours }.any(|given| mac(key, id, at, body).is_some_and(|mac| mac.verify_slice(&given).is_ok()))
}

fn mac(key: &[u8], id: &str, at: i64, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("{id}.{at}.").as_bytes());
    mac.update(body);
    Some(mac)
}

/// A notice as JSON for programs, with times in RFC 3339.
pub fn notice_json(attempt: &Attempt) -> Value {
    let mut data = serde_json::to_value(&attempt.notice).unwrap_or_default();
    data["delivery_id"] = attempt.key.as_str().into();
    data["title"] = text::title(&attempt.notice).into();
    data["at"] = crate::amount::rfc3339(attempt.notice.at).into();
    for (shown, asked) in data["requests"].as_array_mut().into_iter().flatten().zip(attempt.notice.requests())
    {
        shown["expires_at"] = asked.expires_at.map(crate::amount::rfc3339).into();
    }
    data
}

/// The id of the task that a notice is about.
pub fn task_id(notice: &Notice) -> &str {
    notice.task().map_or(NO_TASK, |task| task.id.as_str())
}

fn standard_body(attempt: &Attempt, text: &str) -> Value {
    let notice = &attempt.notice;
    let mut data = notice_json(attempt);
    data["text"] = text.into();
    json!({
        "type": format!("task.{}", notice.occasion().as_str()),
        "timestamp": crate::amount::rfc3339(notice.at),
        "data": data,
    })
}

/// The operator's body with its texts filled in. A value cannot change the structure of the JSON.
fn fill_template(template: &toml::Value, attempt: &Attempt, text: &str) -> Value {
    let inner = |value: &toml::Value| fill_template(value, attempt, text);
    match template {
        toml::Value::String(words) => fill_text(words, attempt, text).into(),
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

/// Fills in one text, in one pass: a filled-in value is not searched for placeholders.
fn fill_text(words: &str, attempt: &Attempt, text: &str) -> String {
    let value = |name: &str| match name {
        "text" => Some(text.to_owned()),
        "title" => Some(text::title(&attempt.notice)),
        "event" => Some(attempt.notice.occasion().as_str().to_owned()),
        "task_id" => Some(task_id(&attempt.notice).to_owned()),
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
        let key = decode_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, "{\"test\": 2432232314}");
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_secret_that_is_none_is_refused() {
        for bad in ["", "whsec_", "whsec_c2hvcnQ=", "whsec_???", "not base64 at all"] {
            assert!(decode_key(bad).is_err(), "{bad:?}");
        }
    }
}
