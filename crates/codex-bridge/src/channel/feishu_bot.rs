//! Sends as a custom bot of one Feishu or Lark group: a webhook address, and a signature if the group requires one.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit, Mac};
use serde::Deserialize;
use serde_json::json;
use sha2::Sha256;

use super::http::{Call, Reply};
use super::secret::{Env, Secret, reveal_all, reveal_optional, secrets_in_url};
use super::settings::{OpenedChannel, Opening};
use super::text::{self, Limit, Mentions};
use super::{Channel, Platform};

/// A request may have 20 KB, in which the text is JSON.
const LIMIT: Limit = Limit::JsonBytes(18_000);
const THROTTLED: i64 = 11_232;

/// The settings of a custom bot.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The address that Feishu gave. Anybody who knows it can write to the group.
    pub url: Option<Secret>,
    /// Signs each message, if the group requires it.
    pub secret: Option<Secret>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        let url = reveal_optional(self.url.as_ref(), opening.context.env)?.ok_or("`url` is missing")?;
        let secret = reveal_optional(self.secret.as_ref(), opening.context.env)?;
        Ok(OpenedChannel::Sends(Arc::new(FeishuBot { url, secret })))
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        let address = reveal_all([&self.url], env).into_iter().flat_map(|url| secrets_in_url(&url));
        address.chain(reveal_all([&self.secret], env)).collect()
    }
}

#[derive(Debug)]
struct FeishuBot {
    url: String,
    secret: Option<String>,
}

impl FeishuBot {
    async fn post(&self, attempt: &Attempt) -> Outcome {
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT, Mentions::Feishu);
        let mut body = json!({ "msg_type": "text", "content": { "text": text } });
        if let Some(secret) = &self.secret {
            let at = jiff::Timestamp::now().as_second().to_string();
            body["sign"] = signature(secret, &at).into();
            body["timestamp"] = at.into();
        }
        match Call::post(self.url.as_str(), &body).send().await {
            Ok(reply) => outcome(&reply),
            Err(error) => error.into(),
        }
    }
}

impl Channel for FeishuBot {
    fn send<'a>(&'a self, _place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.post(attempt).boxed()
    }
}

/// Feishu's scheme: the time and the secret are the HMAC key, and the signed text is empty.
fn signature(secret: &str, at: &str) -> String {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(format!("{at}\n{secret}").as_bytes()) else {
        return String::new();
    };
    STANDARD.encode(mac.finalize().into_bytes())
}

fn outcome(reply: &Reply) -> Outcome {
    // Older answers have `StatusCode` instead of `code`.
    let code = reply.body["code"].as_i64().or_else(|| reply.body["StatusCode"].as_i64());
    let Some(code) = code else { return reply.refusal() };
    if code == 0 {
        return Outcome::delivered(None);
    }
    let described = reply.body["msg"].as_str().unwrap_or("without a reason");
    let error = format!("Feishu answered {code}: {described}");
    match code {
        THROTTLED => Outcome::failed(reply.retry_after.map_or(Refusal::Later, Refusal::NotBefore), error),
        _ if reply.status >= 500 => Outcome::in_doubt(error),
        // A wrong signature, address or keyword: the operator has to correct it, then retry.
        _ => Outcome::failed(Refusal::Never, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_what_feishu_computes() {
        // base64(hmac.new(b"1599360473\ndemo", b"", sha256).digest()) of Python's hmac.
        assert_eq!(signature("demo", "1599360473"), "l1N0gAcBjdwBvGm1xMjOF0XSyaLRpR7tuO5dHfhAYc8=");
    }
}
