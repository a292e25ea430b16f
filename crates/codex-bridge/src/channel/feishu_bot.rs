//! A custom bot of one Feishu or Lark group: an address, and a signature if the group asks for one.

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
use super::secret::{Env, Secret, all_found, found, of_address};
use super::settings::{Opening, Way};
use super::text::{self, Limit};
use super::{Channel, Platform};

/// A request may have 20 KB, and the text is JSON in it.
const LIMIT: Limit = Limit::JsonBytes(18_000);
/// Too many messages.
const THROTTLED: i64 = 11_232;

/// A custom bot of one Feishu or Lark group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The address that Feishu gave. Whoever knows it may write to the group.
    pub url: Option<Secret>,
    /// Signs each message, if the group asks for that.
    pub secret: Option<Secret>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<Way, String> {
        let url = found(self.url.as_ref(), opening.around.env)?.ok_or("it has no url")?;
        let secret = found(self.secret.as_ref(), opening.around.env)?;
        Ok(Way::Sends(Arc::new(FeishuBot { url, secret })))
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        let address = all_found([&self.url], env).into_iter().flat_map(|url| of_address(&url));
        address.chain(all_found([&self.secret], env)).collect()
    }
}

/// A custom bot.
#[derive(Debug)]
struct FeishuBot {
    url: String,
    secret: Option<String>,
}

impl FeishuBot {
    async fn post(&self, attempt: &Attempt) -> Outcome {
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT);
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

/// Time and secret are the key, and nothing is signed: so Feishu has it.
fn signature(secret: &str, at: &str) -> String {
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(format!("{at}\n{secret}").as_bytes()) else {
        return String::new();
    };
    STANDARD.encode(mac.finalize().into_bytes())
}

fn outcome(reply: &Reply) -> Outcome {
    // Older answers say StatusCode.
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
        // A wrong signature, address or keyword: the operator's to put right, and then to retry.
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
