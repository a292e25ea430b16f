//! A message by a Feishu or Lark app: `im/v1/messages`, with the delivery's id as `uuid`, under which Feishu takes a
//! message once an hour.

use std::time::{Duration, Instant};

use codex_bridge_core::outbox::sender::Refusal;
use codex_bridge_core::outbox::{Attempt, Outcome, Repeats};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::http::{Post, Reply};
use super::text::{self, Limit};
use super::{Env, found};
use crate::config::notify;

/// Feishu's own server.
pub const API: &str = "https://open.feishu.cn";
/// Feishu takes about 150 KB of text; nobody reads that in a chat.
const LIMIT: Limit = Limit::Bytes(20_000);
/// How long a `uuid` is remembered. A little less than the hour, since both clocks run.
const REMEMBERED: Duration = Duration::from_mins(55);
/// A token is renewed when it has less time left than this.
const RENEW_BEFORE: Duration = Duration::from_mins(5);

/// Too many messages, by the app or to one chat.
const THROTTLED: [i64; 2] = [99_991_400, 230_020];
/// The token is not valid (any more).
const BAD_TOKEN: [i64; 3] = [99_991_661, 99_991_663, 99_991_668];
/// The bot is not in the chat, or the user cannot be reached by it.
const NOBODY: [i64; 2] = [230_002, 230_013];

/// An app.
#[derive(Debug)]
pub struct Feishu {
    base: String,
    app_id: String,
    app_secret: String,
    home: Option<String>,
    chats: Vec<String>,
    token: Mutex<Option<Token>>,
}

#[derive(Debug)]
struct Token {
    text: String,
    until: Instant,
}

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    chat: String,
    /// The message that is replied to in its thread.
    thread: Option<String>,
}

impl Feishu {
    /// As configured, or why it cannot be used.
    pub fn new(settings: &notify::Feishu, env: Env<'_>) -> Result<Self, String> {
        let secret = found(settings.app_secret.as_ref(), settings.app_secret_env.as_deref(), env)?;
        if settings.app_id.is_empty() {
            return Err("it has no app_id".to_owned());
        }
        let chats: Vec<String> = settings.chat.iter().chain(&settings.chats).cloned().collect();
        if let Some(chat) = chats.iter().find(|chat| id_type(chat).is_none()) {
            return Err(format!("{chat} is no chat or user: it must begin with oc_, ou_ or on_"));
        }
        Ok(Self {
            base: settings.api_base.as_deref().unwrap_or(API).trim_end_matches('/').to_owned(),
            app_id: settings.app_id.clone(),
            app_secret: secret.ok_or("it has no app_secret")?,
            home: settings.chat.clone(),
            chats,
            token: Mutex::new(None),
        })
    }

    /// The targets that there are.
    pub fn targets(&self) -> Vec<String> {
        let home = self.home.is_some().then(|| "feishu".to_owned());
        home.into_iter().chain(self.chats.iter().map(|chat| format!("feishu:{chat}"))).collect()
    }

    /// What stands behind `feishu`: nothing, `:CHAT` or `:CHAT:MESSAGE`. Only the operator's chats are known.
    pub fn place(&self, rest: Option<&str>) -> Result<Place, String> {
        let Some(rest) = rest else {
            let chat = self.home.clone().ok_or("no chat is set for it; name one")?;
            return Ok(Place { chat, thread: None });
        };
        let (chat, thread) = rest.split_once(':').map_or((rest, None), |(chat, thread)| (chat, Some(thread)));
        if !self.chats.iter().any(|known| known == chat) {
            return Err("that chat is not one of the operator's".to_owned());
        }
        let is_message = |thread: &str| {
            thread.starts_with("om_")
                && thread.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        if thread.is_some_and(|thread| !is_message(thread)) {
            return Err("a thread is named by a message of it, om_…".to_owned());
        }
        Ok(Place { chat: chat.to_owned(), thread: thread.map(str::to_owned) })
    }

    pub fn repeats() -> Repeats {
        Repeats::Idempotent { within: Some(REMEMBERED) }
    }

    pub async fn send(&self, place: &Place, attempt: &Attempt) -> Outcome {
        match self.try_send(place, attempt).await {
            Ok(outcome) | Err(outcome) => outcome,
        }
    }

    async fn try_send(&self, place: &Place, attempt: &Attempt) -> Result<Outcome, Outcome> {
        let text = text::text(&attempt.notice, attempt.may_be_duplicate, LIMIT);
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
        let mut post = Post::json(url, &body);
        post.headers.push(("authorization", format!("Bearer {}", self.token().await?)));
        let reply = post.send().await.map_err(Outcome::from)?;
        if reply.body["code"].as_i64().is_some_and(|code| BAD_TOKEN.contains(&code)) {
            *self.token.lock().await = None;
        }
        Ok(outcome(&reply))
    }

    /// The app's token, from before if it still lives. One that renews it makes the others wait.
    async fn token(&self) -> Result<String, Outcome> {
        let mut token = self.token.lock().await;
        if let Some(token) = token.as_ref().filter(|token| Instant::now() + RENEW_BEFORE < token.until) {
            return Ok(token.text.clone());
        }
        let url = format!("{}/open-apis/auth/v3/tenant_access_token/internal", self.base);
        let body = json!({ "app_id": self.app_id, "app_secret": self.app_secret });
        // Nothing of the notice was sent: whatever happens here, nobody has it.
        let reply = Post::json(url, &body).send().await.map_err(|error| without_doubt(error.into()))?;
        let (text, seconds) = (&reply.body["tenant_access_token"], &reply.body["expire"]);
        let (Some(text), Some(seconds)) = (text.as_str(), seconds.as_u64()) else {
            return Err(without_doubt(outcome(&reply)));
        };
        *token = Some(Token { text: text.to_owned(), until: Instant::now() + Duration::from_secs(seconds) });
        Ok(text.to_owned())
    }
}

fn without_doubt(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed { refusal, error, .. } => {
            // An app that is refused is a mistake in the configuration, not the end of a chat.
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
    let error = format!("Feishu answered {code}: {}", said(&reply.body));
    let refusal = match code {
        code if THROTTLED.contains(&code) => reply.retry_after.map_or(Refusal::Later, Refusal::NotBefore),
        code if BAD_TOKEN.contains(&code) => Refusal::Later,
        code if NOBODY.contains(&code) => Refusal::Gone,
        _ if reply.status == 429 => reply.retry_after.map_or(Refusal::Later, Refusal::NotBefore),
        _ if reply.status >= 500 => return Outcome::in_doubt(error),
        _ => Refusal::Never,
    };
    Outcome::failed(refusal, error)
}

fn said(body: &Value) -> String {
    body["msg"].as_str().unwrap_or("without a reason").chars().take(200).collect()
}
