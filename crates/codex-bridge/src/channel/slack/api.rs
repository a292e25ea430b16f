//! Slack's Web API: its methods, the meaning of its errors, and places.

use std::fmt;
use std::time::Duration;

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use serde_json::Value;

use crate::channel::ChannelError;
use crate::channel::http::{self, Call, Payload, Reply};

/// Slack's own server.
pub const API: &str = "https://slack.com/api";
/// Errors that end with another token or another setting of the app.
const REFUSED_TOKENS: &str = "invalid_auth not_authed account_inactive token_revoked token_expired not_allowed_token_type \
    missing_scope no_permission access_denied";
/// Errors of places in which the bot cannot write any more.
const GONE: &str = "channel_not_found is_archived not_in_channel";
/// Errors after which the call may have been carried out.
const UNCLEAR: &str = "internal_error fatal_error service_unavailable request_timeout";

/// A client for an app's methods.
pub struct Client {
    base: String,
    token: String,
    app_token: String,
}

/// Why a method gave no result.
#[derive(Debug)]
pub enum Error {
    /// There was no reply.
    Unanswered(http::Error),
    /// Too many calls; to be called again after this time.
    Limited(Duration),
    /// Slack's word for what is wrong.
    Refused(String),
    /// A reply that is not Slack's.
    Unclear(Reply),
}

impl Client {
    /// The client of these tokens, at Slack's own server or another.
    pub fn new(token: &str, app_token: &str, base: Option<&str>) -> Self {
        let base = base.unwrap_or(API).trim_end_matches('/').to_owned();
        Self { base, token: token.to_owned(), app_token: app_token.to_owned() }
    }

    /// Calls a method.
    pub async fn call(&self, method: &str, body: &Value) -> Result<Value, Error> {
        self.send(&self.token, Call::post(format!("{}/{method}", self.base), body)).await
    }

    /// Calls a method that only reads. What it is given is plain ASCII.
    pub async fn read(&self, method: &str, query: &[(&str, &str)]) -> Result<Value, Error> {
        let query: Vec<String> = query.iter().map(|(name, value)| format!("{name}={value}")).collect();
        self.send(&self.token, Call::get(format!("{}/{method}?{}", self.base, query.join("&")))).await
    }

    /// An address for a WebSocket, which is good for one connection.
    pub async fn socket_address(&self) -> Result<String, ChannelError> {
        let call = Call::post(format!("{}/apps.connections.open", self.base), &Value::Null);
        let opened = self.send(&self.app_token, call).await?;
        Ok(opened["url"].as_str().unwrap_or_default().to_owned())
    }

    /// Uploads the content of a file to an address that Slack gave. The address takes no token.
    pub async fn upload(&self, url: &str, text: &str) -> Result<(), Error> {
        let call = Call { body: Some(Payload::text(text)), ..Call::get(url) };
        let reply = call.send().await.map_err(Error::Unanswered)?;
        if reply.is_success() { Ok(()) } else { Err(Error::Unclear(reply)) }
    }

    async fn send(&self, token: &str, mut call: Call) -> Result<Value, Error> {
        call.headers.push(("authorization", format!("Bearer {token}")));
        let reply = call.send().await.map_err(Error::Unanswered)?;
        let code = reply.body["error"].as_str().unwrap_or_default();
        if reply.status == 429 || code == "ratelimited" {
            return Err(Error::Limited(reply.retry_after.unwrap_or(Duration::from_secs(1))));
        }
        match reply.body["ok"].as_bool() {
            Some(true) => Ok(reply.body),
            Some(false) => Err(Error::Refused(code.to_owned())),
            None => Err(Error::Unclear(reply)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered(error) => write!(f, "Slack: {error}"),
            Self::Limited(wait) => write!(f, "Slack takes no more calls for {} s", wait.as_secs()),
            Self::Refused(code) => write!(f, "Slack answered {code}"),
            Self::Unclear(reply) => write!(f, "Slack's server answered {}", reply.status),
        }
    }
}

impl Error {
    /// Whether Slack answered with one of these words.
    pub fn is(&self, words: &str) -> bool {
        matches!(self, Self::Refused(code) if words.split(' ').any(|word| word == code))
    }
}

impl From<Error> for ChannelError {
    fn from(error: Error) -> Self {
        let reason = error.to_string();
        match error {
            Error::Limited(wait) => Self::Retry { after: Some(wait), reason },
            error if error.is(REFUSED_TOKENS) => Self::Fatal(format!(
                "{reason}. Install the app in the workspace again, and take its tokens from api.slack.com/apps"
            )),
            _ => Self::retry(reason),
        }
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        let why = error.to_string();
        match error {
            Error::Unanswered(error) => error.into(),
            Error::Limited(wait) => Self::failed(Refusal::NotBefore(wait), why),
            Error::Unclear(reply) => reply.refusal(),
            error if error.is(GONE) => Self::failed(Refusal::Gone, why),
            error if error.is(UNCLEAR) => Self::in_doubt(why),
            // Whatever is wrong with the tokens may be corrected meanwhile.
            error if error.is(REFUSED_TOKENS) => Self::failed(Refusal::Later, why),
            Error::Refused(_) => Self::failed(Refusal::Never, why),
        }
    }
}

/// A channel, a private chat or a person; or a thread in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Slack's id of the channel (`C…`, `G…`), of the private chat (`D…`), or of the person (`U…`).
    pub channel: String,
    /// The first message of the thread.
    pub thread: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.thread {
            Some(thread) => write!(f, "{}/{thread}", self.channel),
            None => f.write_str(&self.channel),
        }
    }
}

impl Place {
    /// Parses `CHANNEL` or `CHANNEL/THREAD`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (channel, thread) =
            text.split_once('/').map_or((text, None), |(channel, ts)| (channel, Some(ts)));
        if !is_id(channel, "CDGUW") {
            return Err(format!("{channel:?} is not a place of Slack's: it looks like C0123ABCD"));
        }
        if thread.is_some_and(|ts| !is_ts(ts)) {
            return Err("a thread is the time of its first message, such as 1712345678.000100".to_owned());
        }
        Ok(Self { channel: channel.to_owned(), thread: thread.map(str::to_owned) })
    }

    /// The body of a method for this place.
    pub fn addressed(&self, mut body: Value) -> Value {
        body["channel"] = self.channel.as_str().into();
        if let Some(thread) = &self.thread {
            body["thread_ts"] = thread.as_str().into();
        }
        body
    }
}

/// Whether this is an id that begins with one of these letters.
pub fn is_id(text: &str, kinds: &str) -> bool {
    text.len() > 1
        && text.starts_with(|first| kinds.contains(first))
        && text.chars().all(|char| char.is_ascii_uppercase() || char.is_ascii_digit())
}

/// Whether this is the time of a message, which is its id in its channel.
pub fn is_ts(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|char| char.is_ascii_digit());
    text.split_once('.').is_some_and(|(seconds, rest)| is_number(seconds) && is_number(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_channel_or_a_thread_in_one() {
        for text in ["C0123", "D0123/1712345678.000100", "U9"] {
            assert_eq!(Place::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "general", "#general", "C", "C01/x", "C01/1.", "c01"] {
            assert!(Place::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_error_says_whether_to_try_again() {
        let of = |code: &str| match Outcome::from(Error::Refused(code.to_owned())) {
            Outcome::Failed { refusal, in_doubt, .. } => (refusal, in_doubt),
            Outcome::Delivered { .. } => panic!("delivered"),
        };
        assert_eq!(of("channel_not_found"), (Refusal::Gone, false));
        assert_eq!(of("invalid_blocks"), (Refusal::Never, false));
        assert_eq!(of("invalid_auth"), (Refusal::Later, false));
        assert_eq!(of("internal_error"), (Refusal::Later, true));
        let fatal = ChannelError::from(Error::Refused("token_revoked".to_owned()));
        assert!(matches!(fatal, ChannelError::Fatal(why) if why.contains("take its tokens")));
    }
}
