//! A client of Discord's HTTP API (v10). Keeps Discord's rate limits, which it learns from the headers of replies: a call
//! that would exceed one waits, or is answered here as Discord would. Ten thousand refused calls in ten minutes would ban the
//! address.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::channel::ChannelError;
use crate::channel::http::{self, Call, Reply};

/// Discord's own server.
pub const API: &str = "https://discord.com/api/v10";
/// The longest wait of a call for its turn.
const MOST_WAIT: Duration = Duration::from_secs(3);
/// The pause of calls that only show something, after Discord has forbidden one.
const FORBIDDEN_PAUSE: Duration = Duration::from_mins(10);
/// The most routes that are known to be exhausted.
const MOST_ROUTES: usize = 1_000;

/// A client for one bot.
pub struct Rest {
    base: String,
    token: String,
    pauses: Mutex<Pauses>,
}

/// Until when which calls have to wait.
#[derive(Default)]
struct Pauses {
    all: Option<Instant>,
    routes: HashMap<String, Instant>,
}

impl fmt::Debug for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rest").field("base", &self.base).finish_non_exhaustive()
    }
}

impl Rest {
    /// A client with a token, at Discord's own server or another.
    pub fn new(token: &str, api_base: Option<&str>) -> Self {
        let base = api_base.unwrap_or(API).trim_end_matches('/').to_owned();
        Self { base, token: token.to_owned(), pauses: Mutex::default() }
    }

    /// The bot's token.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// A GET.
    pub async fn get(&self, path: &str) -> Result<Reply, http::Error> {
        self.send("GET", path, Call::get(self.url(path))).await
    }

    /// The body of a successful reply to a GET, or the error for the channel.
    pub async fn list(&self, path: &str) -> Result<Value, ChannelError> {
        let reply = self.get(path).await?;
        if reply.is_success() { Ok(reply.body) } else { Err(error(&reply)) }
    }

    /// A call with JSON.
    pub async fn call(&self, method: &'static str, path: &str, body: &Value) -> Result<Reply, http::Error> {
        let call = Call { method: Some(method), ..Call::post(self.url(path), body) };
        self.send(method, path, call).await
    }

    /// A PUT without a body.
    pub async fn put(&self, path: &str) -> Result<Reply, http::Error> {
        self.send("PUT", path, Call { method: Some("PUT"), ..Call::get(self.url(path)) }).await
    }

    /// A message with a text file.
    pub async fn send_file(
        &self,
        path: &str,
        message: &Value,
        name: &str,
        text: &str,
    ) -> Result<Reply, http::Error> {
        let fields = [("payload_json", message.to_string())];
        self.send("POST", path, Call::post_file(self.url(path), &fields, ("files[0]", name), text)).await
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.base)
    }

    async fn send(&self, method: &str, path: &str, mut call: Call) -> Result<Reply, http::Error> {
        let route = route(method, path);
        match self.pause(&route) {
            Some(pause) if pause > MOST_WAIT => return Ok(refused_here(pause)),
            Some(pause) => tokio::time::sleep(pause).await,
            None => {}
        }
        call.headers.push(("authorization", format!("Bot {}", self.token)));
        let reply = call.send().await?;
        self.note(route, &reply);
        Ok(reply)
    }

    fn pauses(&self) -> MutexGuard<'_, Pauses> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a call has to wait.
    fn pause(&self, route: &str) -> Option<Duration> {
        let (now, mut pauses) = (Instant::now(), self.pauses());
        pauses.routes.retain(|_, until| *until > now);
        let until = pauses.all.max(pauses.routes.get(route).copied())?;
        Some(until.saturating_duration_since(now)).filter(|pause| !pause.is_zero())
    }

    fn note(&self, route: String, reply: &Reply) {
        let only_shows = route.starts_with("PUT") || route.ends_with("typing");
        let pause = match reply.status {
            429 => retry_after(reply).or(Some(Duration::from_secs(1))),
            403 if only_shows => Some(FORBIDDEN_PAUSE),
            _ => reply.exhausted_for,
        };
        let Some(until) = pause.and_then(|pause| Instant::now().checked_add(pause)) else { return };
        let mut pauses = self.pauses();
        if reply.status == 429 && reply.body["global"] == true {
            pauses.all = Some(until);
        } else if pauses.routes.len() < MOST_ROUTES {
            pauses.routes.insert(route, until);
        }
    }
}

/// What shares a rate limit: the method, the channel, and the words of the path.
fn route(method: &str, path: &str) -> String {
    let path = path.split('?').next().unwrap_or_default();
    let mut parts = path.split('/');
    let (kind, id) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    // Each interaction has a limit of its own, which nobody reaches.
    let id = if kind == "channels" { id } else { "" };
    let words = parts.filter(|part| part.chars().all(|char| char.is_ascii_alphabetic()));
    [method, kind, id].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

fn refused_here(pause: Duration) -> Reply {
    let body = json!({ "message": "this has to wait for a rate limit", "retry_after": pause.as_secs_f64() });
    Reply { status: 429, retry_after: Some(pause), exhausted_for: None, body }
}

/// The pause that Discord asks for, if any.
pub fn retry_after(reply: &Reply) -> Option<Duration> {
    let pause = reply.body["retry_after"].as_f64().and_then(|pause| Duration::try_from_secs_f64(pause).ok());
    pause.or(reply.retry_after)
}

/// What a refusal says.
pub fn why(reply: &Reply) -> String {
    let described = reply.body["message"].as_str().unwrap_or("without a reason");
    format!("Discord answered {}: {described}", reply.status)
}

/// The error for a channel whose call was refused.
pub fn error(reply: &Reply) -> ChannelError {
    let why = why(reply);
    match reply.status {
        401 => ChannelError::Fatal(format!(
            "{why}. The token is not valid: make a new one in the Developer Portal, under Bot > Reset Token"
        )),
        429 => ChannelError::Retry { after: retry_after(reply), reason: why },
        _ => ChannelError::retry(why),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_kind_in_one_channel_share_a_limit() {
        assert_eq!(route("PATCH", "channels/12/messages/34"), "PATCH channels 12 messages");
        assert_eq!(route("GET", "channels/12/messages?after=3&limit=100"), "GET channels 12 messages");
        assert_eq!(route("POST", "interactions/12/aW50/callback"), "POST interactions  callback");
    }

    #[test]
    fn a_call_that_would_exceed_a_limit_waits_for_its_turn() {
        let rest = Rest::new("token", None);
        let reply = |status, exhausted_for, body| Reply { status, retry_after: None, exhausted_for, body };
        rest.note("POST a".to_owned(), &reply(200, Some(Duration::from_secs(9)), Value::Null));
        assert!(rest.pause("POST a").is_some_and(|pause| pause > Duration::from_secs(8)));
        assert_eq!(rest.pause("POST b"), None);
        rest.note("POST b".to_owned(), &reply(429, None, json!({ "retry_after": 7.5, "global": true })));
        assert!(rest.pause("POST c").is_some_and(|pause| pause > Duration::from_secs(7)), "that is for all");
        rest.note("PUT a".to_owned(), &reply(403, None, Value::Null));
        assert!(rest.pause("PUT a").is_some_and(|pause| pause > Duration::from_secs(500)));
    }
}
