//! A POST to the operator's own address: Standard Webhooks 1.0.0, signed, or a body that another service wants.

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

use super::http::{Call, MOST_PATIENCE_S, PATIENCE};
use super::secret::{Env, Secret, all_found, found, of_address, told_by_name};
use super::settings::{Opening, Way};
use super::text::{self, Limit};
use super::{Channel, Platform};

/// How a secret is written.
const PREFIX: &str = "whsec_";
/// The shortest and the longest key, in bytes.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// The text beside the JSON: enough to read, and the body stays small.
const TEXT_CHARS: usize = 4_000;

/// An address that gets a POST for every notice.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Where to. For many services whoever knows it may write there, so it counts as a secret.
    pub url: Option<Secret>,
    /// Signs each notice, as Standard Webhooks have it: `whsec_…`.
    pub secret: Option<Secret>,
    /// Sent as a bearer token.
    pub token: Option<Secret>,
    /// What is sent instead of our own JSON: `{text}`, `{title}`, `{event}`, `{task_id}` and `{id}` are filled in.
    pub body: Option<toml::Table>,
    /// The longest `{text}`, in characters.
    pub limit: Option<usize>,
    /// How long an answer may take.
    pub timeout_s: Option<u64>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String> {
        let url = found(self.url.as_ref(), opening.around.env)?.ok_or("it has no url")?;
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err("its url must begin with http:// or https://".to_owned());
        }
        if self.timeout_s.is_some_and(|seconds| !(1..=MOST_PATIENCE_S).contains(&seconds)) {
            return Err(format!("its timeout_s can be 1 to {MOST_PATIENCE_S}"));
        }
        let secret = found(self.secret.as_ref(), opening.around.env)?;
        Ok(Way::Sends(Arc::new(Webhook {
            url,
            key: secret.map(|secret| key(&secret)).transpose()?,
            token: found(self.token.as_ref(), opening.around.env)?,
            body: self.body.clone(),
            limit: Limit::Chars(self.limit.unwrap_or(TEXT_CHARS)),
            timeout: self.timeout_s.map_or(PATIENCE, Duration::from_secs),
        })))
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        let address = all_found([&self.url], env).into_iter().flat_map(|url| of_address(&url));
        let others = all_found([&self.secret, &self.token], env);
        let of_body = self.body.iter().flat_map(|body| told_by_name(&json!(body)));
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
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, self.limit);
        let body = match &self.body {
            Some(template) => filled(&toml::Value::Table(template.clone()), attempt, &text),
            None => standard(attempt, &text),
        };
        let mut post = Call { timeout: self.timeout, ..Call::post(self.url.as_str(), &body) };
        post.headers = self.headers(attempt.key.as_str(), now_s(), post.body.as_deref().unwrap_or_default());
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
    /// A receiver of Standard Webhooks knows the id of what it has; one that wants a body of its own does not.
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

/// A notice as programs read it: its JSON, with times as everywhere.
pub fn data(attempt: &Attempt) -> Value {
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

/// The task that a notice is about, as programs read it.
pub fn task_id(notice: &Notice) -> &str {
    notice.task().map_or(NO_TASK, |task| task.id.as_str())
}

/// Our own body.
fn standard(attempt: &Attempt, text: &str) -> Value {
    let notice = &attempt.notice;
    let mut data = data(attempt);
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
