//! A custom bot of one Feishu or Lark group: an address, and a signature if the group asks for one.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;

use super::http::{Post, Reply};
use super::text::{self, Limit};
use super::{Env, found};
use crate::config::notify;

/// A request may have 20 KB, and the text is JSON in it.
const LIMIT: Limit = Limit::JsonBytes(18_000);
/// Too many messages.
const THROTTLED: i64 = 11_232;

/// A custom bot.
#[derive(Debug)]
pub struct FeishuBot {
    url: String,
    secret: Option<String>,
}

impl FeishuBot {
    /// As configured, or why it cannot be used.
    pub fn new(settings: &notify::FeishuBot, env: Env<'_>) -> Result<Self, String> {
        let url = found(settings.url.as_ref(), settings.url_env.as_deref(), env)?.ok_or("it has no url")?;
        let secret = found(settings.secret.as_ref(), settings.secret_env.as_deref(), env)?;
        Ok(Self { url, secret })
    }

    pub async fn send(&self, attempt: &Attempt) -> Outcome {
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT);
        let mut body = json!({ "msg_type": "text", "content": { "text": text } });
        if let Some(secret) = &self.secret {
            let at = jiff::Timestamp::now().as_second().to_string();
            body["sign"] = signature(secret, &at).into();
            body["timestamp"] = at.into();
        }
        match Post::json(self.url.as_str(), &body).send().await {
            Ok(reply) => outcome(&reply),
            Err(error) => error.into(),
        }
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
