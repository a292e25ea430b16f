//! Sends as a Feishu or Lark app, with `im/v1/messages`. The delivery's id is the `uuid`: Feishu accepts a message with the
//! same `uuid` once an hour.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::http::{Call, Reply};
use super::secret::{Env, Secret, reveal_all, reveal_optional};
use super::settings::{OpenedChannel, Opening};
use super::text::{self, Limit, Mentions};
use super::{Channel, Platform};

/// Feishu's own server.
const API: &str = "https://open.feishu.cn";
/// Feishu takes about 150 KB of text; nobody reads that in a chat.
const LIMIT: Limit = Limit::Bytes(20_000);
/// How long Feishu deduplicates a `uuid`: an hour, with a margin for different clocks.
const DEDUP_WINDOW: Duration = Duration::from_mins(55);
/// A token is renewed when it expires in less than this.
const RENEW_BEFORE: Duration = Duration::from_mins(5);

/// Rate limits: of the app, of one chat.
const THROTTLED: [i64; 2] = [99_991_400, 230_020];
/// The token is invalid or has expired.
const BAD_TOKEN: [i64; 3] = [99_991_661, 99_991_663, 99_991_668];
/// The bot is not in the chat, or cannot reach the user.
const UNREACHABLE: [i64; 2] = [230_002, 230_013];

/// The settings of a Feishu or Lark app.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The app's id.
    pub app_id: String,
    /// The app's secret.
    pub app_secret: Option<Secret>,
    /// The chat or user of a target without a place: `oc_…`, `ou_…` or `on_…`.
    pub chat: Option<String>,
    /// Other chats and users that callers may name.
    pub chats: Vec<String>,
    /// `https://open.larksuite.com` for Lark; Feishu's own by default.
    pub api_base: Option<String>,
}

impl Platform for Settings {
    fn open(&self, opening: &Opening<'_>) -> Result<OpenedChannel, String> {
        let secret = reveal_optional(self.app_secret.as_ref(), opening.context.env)?;
        if self.app_id.is_empty() {
            return Err("`app_id` is missing".to_owned());
        }
        let chats: Vec<String> = self.chat.iter().chain(&self.chats).cloned().collect();
        if let Some(chat) = chats.iter().find(|chat| id_type(chat).is_none()) {
            return Err(format!("{chat} is not a chat or user: the id must begin with oc_, ou_ or on_"));
        }
        Ok(OpenedChannel::Sends(Arc::new(Feishu {
            base: self.api_base.as_deref().unwrap_or(API).trim_end_matches('/').to_owned(),
            app_id: self.app_id.clone(),
            app_secret: secret.ok_or("`app_secret` is missing")?,
            default_chat: self.chat.clone(),
            chats,
            token: Mutex::new(None),
        })))
    }

    fn secrets(&self, env: Env<'_>) -> Vec<String> {
        reveal_all([&self.app_secret], env)
    }
}

#[derive(Debug)]
struct Feishu {
    base: String,
    app_id: String,
    app_secret: String,
    default_chat: Option<String>,
    chats: Vec<String>,
    token: Mutex<Option<Token>>,
}

#[derive(Debug)]
struct Token {
    text: String,
    expires_at: Instant,
}

struct Place {
    chat: String,
    /// The message whose thread gets the reply.
    thread: Option<String>,
}

impl Feishu {
    /// Parses an empty place, `CHAT` or `CHAT:MESSAGE`. Only chats of the configuration are accepted.
    fn place(&self, place: &str) -> Result<Place, String> {
        if place.is_empty() {
            let chat = self
                .default_chat
                .clone()
                .ok_or("the channel has no default chat: name one, or set `chat`")?;
            return Ok(Place { chat, thread: None });
        }
        let (chat, thread) =
            place.split_once(':').map_or((place, None), |(chat, thread)| (chat, Some(thread)));
        if !self.chats.iter().any(|known| known == chat) {
            return Err("that chat is not in `chat` or `chats` of the channel".to_owned());
        }
        let is_message = |thread: &str| {
            thread.starts_with("om_")
                && thread.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        if thread.is_some_and(|thread| !is_message(thread)) {
            return Err("a thread is named by the id of one of its messages, om_…".to_owned());
        }
        Ok(Place { chat: chat.to_owned(), thread: thread.map(str::to_owned) })
    }

    async fn try_send(&self, place: &str, attempt: &Attempt) -> Result<Outcome, Outcome> {
        let place = self.place(place).map_err(|why| Outcome::failed(Refusal::Never, why))?;
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT, Mentions::Feishu);
        let content = json!({ "text": text }).to_string();
        let mut body = json!({ "msg_type": "text", "content": content, "uuid": attempt.key });
        let url = if let Some(message) = &place.thread {
            body["reply_in_thread"] = true.into();
            format!("{}/open-apis/im/v1/messages/{message}/reply", self.base)
        } else {
            let id_type = id_type(&place.chat).unwrap_or("chat_id");
            body["receive_id"] = place.chat.as_str().into();
            format!("{}/open-apis/im/v1/messages?receive_id_type={id_type}", self.base)
        };
        let mut post = Call::post(url, &body);
        post.headers.push(("authorization", format!("Bearer {}", self.token().await?)));
        let reply = post.send().await.map_err(Outcome::from)?;
        if reply.body["code"].as_i64().is_some_and(|code| BAD_TOKEN.contains(&code)) {
            *self.token.lock().await = None;
        }
        Ok(outcome(&reply))
    }

    /// The app's token, renewed if it expires soon. Concurrent callers wait for the renewal.
    async fn token(&self) -> Result<String, Outcome> {
        let mut token = self.token.lock().await;
        if let Some(token) = token.as_ref().filter(|token| Instant::now() + RENEW_BEFORE < token.expires_at) {
            return Ok(token.text.clone());
        }
        let url = format!("{}/open-apis/auth/v3/tenant_access_token/internal", self.base);
        let body = json!({ "app_id": self.app_id, "app_secret": self.app_secret });
        // The notice itself is not sent yet, so a failure here is never in doubt.
        let reply = Call::post(url, &body).send().await.map_err(|error| token_failure(error.into()))?;
        let (text, seconds) = (&reply.body["tenant_access_token"], &reply.body["expire"]);
        let (Some(text), Some(seconds)) = (text.as_str(), seconds.as_u64()) else {
            return Err(token_failure(outcome(&reply)));
        };
        *token =
            Some(Token { text: text.to_owned(), expires_at: Instant::now() + Duration::from_secs(seconds) });
        Ok(text.to_owned())
    }
}

impl Channel for Feishu {
    fn places(&self) -> Vec<String> {
        self.default_chat.iter().map(|_| String::new()).chain(self.chats.iter().cloned()).collect()
    }

    fn check_place(&self, place: &str) -> Result<(), String> {
        self.place(place).map(drop)
    }

    fn repeats(&self, _place: &str) -> Repeats {
        Repeats::Idempotent { within: Some(DEDUP_WINDOW) }
    }

    fn send<'a>(&'a self, place: &'a str, attempt: &'a Attempt) -> BoxFuture<'a, Outcome> {
        self.try_send(place, attempt).map(|tried| tried.unwrap_or_else(|failed| failed)).boxed()
    }
}

fn token_failure(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed { refusal, error, .. } => {
            // A refused app is a configuration error; the chat itself still exists.
            let refusal = if matches!(refusal, Refusal::NotBefore(_)) { refusal } else { Refusal::Later };
            Outcome::failed(refusal, format!("no token: {error}"))
        }
        Outcome::Delivered { .. } => Outcome::failed(Refusal::Later, "no token came"),
    }
}

fn id_type(chat: &str) -> Option<&'static str> {
    let kinds = [("oc_", "chat_id"), ("ou_", "open_id"), ("on_", "union_id")];
    kinds.into_iter().find(|(prefix, _)| chat.starts_with(prefix)).map(|(_, kind)| kind)
}

fn outcome(reply: &Reply) -> Outcome {
    let Some(code) = reply.body["code"].as_i64() else { return reply.refusal() };
    if code == 0 {
        let id = reply.body["data"]["message_id"].as_str();
        return Outcome::delivered(id.map(str::to_owned));
    }
    let error = format!("Feishu answered {code}: {}", error_message(&reply.body));
    let refusal = match code {
        code if THROTTLED.contains(&code) => reply.retry_after.map_or(Refusal::Later, Refusal::NotBefore),
        code if BAD_TOKEN.contains(&code) => Refusal::Later,
        code if UNREACHABLE.contains(&code) => Refusal::Gone,
        _ if reply.status == 429 => reply.retry_after.map_or(Refusal::Later, Refusal::NotBefore),
        _ if reply.status >= 500 => return Outcome::in_doubt(error),
        _ => Refusal::Never,
    };
    Outcome::failed(refusal, error)
}

fn error_message(body: &Value) -> String {
    body["msg"].as_str().unwrap_or("without a reason").chars().take(200).collect()
}
