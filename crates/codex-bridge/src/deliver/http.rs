//! One POST, on a thread of its own: what came back, or whether it may have arrived all the same.
//!
//! Nothing of the address is in what it says: for many services the address is the secret.

use std::io::ErrorKind;
use std::sync::LazyLock;
use std::time::Duration;

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use jiff::{Timestamp, fmt::rfc2822};
use serde_json::Value;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Error, Timeout};

/// How long an answer may take, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The most that is read of an answer.
const ANSWER_BYTES: u64 = 64 * 1024;
/// The most that is read of a list.
const LIST_BYTES: u64 = 32 * 1024 * 1024;

static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        // A redirect is a mistake in the configuration: what we send is not for somebody else.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // A connection that was kept may be closed under us, which could not be told from a lost answer.
        .max_idle_connections(0)
        .user_agent(concat!("codex-bridge/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
});

/// What is asked for.
#[derive(Debug)]
pub struct Get {
    /// Where.
    pub url: String,
    /// Headers.
    pub headers: Vec<(&'static str, String)>,
    /// How long an answer may take.
    pub timeout: Duration,
}

impl Get {
    /// Asks. What fails comes back as the outcome of an attempt.
    pub async fn send(self) -> Result<Reply, Outcome> {
        let asked = tokio::task::spawn_blocking(move || self.send_blocking()).await;
        asked.unwrap_or_else(|_| Err(Outcome::in_doubt("the attempt broke off")))
    }

    fn send_blocking(self) -> Result<Reply, Outcome> {
        let mut request = AGENT.get(&self.url).config().timeout_global(Some(self.timeout)).build();
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        Ok(Reply::read(request.call().map_err(|error| broken(&error))?, LIST_BYTES))
    }
}

/// What is sent.
#[derive(Debug)]
pub struct Post {
    /// Where to.
    pub url: String,
    /// Beside the content type.
    pub headers: Vec<(&'static str, String)>,
    /// JSON.
    pub body: String,
    /// How long an answer may take.
    pub timeout: Duration,
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// How long to wait, if it says so.
    pub retry_after: Option<Duration>,
    /// The body, if it is JSON; null if not.
    pub body: Value,
}

impl Post {
    /// A POST of JSON.
    pub fn json(url: impl Into<String>, body: &Value) -> Self {
        Self { url: url.into(), headers: Vec::new(), body: body.to_string(), timeout: PATIENCE }
    }

    /// Sends it. What fails comes back as the outcome of the attempt.
    pub async fn send(self) -> Result<Reply, Outcome> {
        let sent = tokio::task::spawn_blocking(move || self.send_blocking()).await;
        sent.unwrap_or_else(|_| Err(Outcome::in_doubt("the attempt broke off")))
    }

    fn send_blocking(self) -> Result<Reply, Outcome> {
        let mut request = AGENT
            .post(&self.url)
            .config()
            .timeout_global(Some(self.timeout))
            .build()
            .header("content-type", "application/json");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let response = request.send(self.body.as_str()).map_err(|error| broken(&error))?;
        Ok(Reply::read(response, ANSWER_BYTES))
    }
}

impl Reply {
    fn read(mut response: ureq::http::Response<ureq::Body>, limit: u64) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        // Feishu says it in a header of its own.
        let wait = header("retry-after").or_else(|| header("x-ogw-ratelimit-reset"));
        let retry_after = wait.and_then(wait_of);
        let status = response.status().as_u16();
        // The status counts; a body that breaks off says nothing more.
        let body = response.body_mut().with_config().limit(limit).read_to_string().unwrap_or_default();
        Self { status, retry_after, body: serde_json::from_str(&body).unwrap_or_default() }
    }

    /// What a status that is no success means, where the platform has nothing of its own to say.
    pub fn refusal(&self) -> Outcome {
        let error = format!("it answered {}", self.status);
        match (self.status, self.retry_after) {
            (410, _) => Outcome::failed(Refusal::Gone, "it answered 410: it is gone for good"),
            (429 | 503, Some(wait)) => Outcome::failed(Refusal::NotBefore(wait), error),
            // It may have failed after having taken it.
            (500.., _) => Outcome::in_doubt(error),
            _ => Outcome::failed(Refusal::Later, error),
        }
    }

    /// Whether it is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Seconds, or a date.
fn wait_of(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let until = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default())
}

/// What a failure of the connection means. The words are ours: theirs may hold the address.
fn broken(error: &Error) -> Outcome {
    let unsent = |error: &str| Outcome::failed(Refusal::Later, error);
    match error {
        Error::HostNotFound => unsent("its name is not known"),
        Error::ConnectionFailed => unsent("it could not be reached"),
        Error::Timeout(Timeout::Resolve | Timeout::Connect) => unsent("it could not be reached in time"),
        Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused => unsent("it refuses connections"),
        Error::BadUri(_) | Error::Http(_) | Error::InvalidProxyUrl => {
            Outcome::failed(Refusal::Never, "its address cannot be used")
        }
        Error::Timeout(_) => Outcome::in_doubt("it did not answer in time"),
        Error::Tls(_) => Outcome::in_doubt("no secure connection could be made"),
        Error::Io(io) => Outcome::in_doubt(format!("the connection broke off: {}", io.kind())),
        _ => Outcome::in_doubt("the connection failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, retry_after: Option<u64>) -> Outcome {
        Reply { status, retry_after: retry_after.map(Duration::from_secs), body: Value::Null }.refusal()
    }

    #[test]
    fn what_a_status_means() {
        let of = |outcome: Outcome| match outcome {
            Outcome::Failed { refusal, in_doubt, .. } => (refusal, in_doubt),
            Outcome::Delivered { .. } => panic!("delivered"),
        };
        let wait = Refusal::NotBefore(Duration::from_secs(7));
        assert_eq!(of(refusal(410, None)), (Refusal::Gone, false));
        assert_eq!(of(refusal(429, Some(7))), (wait, false));
        assert_eq!(of(refusal(503, Some(7))), (wait, false));
        assert_eq!(of(refusal(429, None)), (Refusal::Later, false));
        assert_eq!(of(refusal(302, None)), (Refusal::Later, false));
        assert_eq!(of(refusal(404, None)), (Refusal::Later, false));
        assert_eq!(of(refusal(500, None)), (Refusal::Later, true));
        assert_eq!(of(refusal(503, None)), (Refusal::Later, true));
    }

    #[test]
    fn a_wait_is_seconds_or_a_date() {
        assert_eq!(wait_of(" 120 "), Some(Duration::from_mins(2)));
        assert_eq!(wait_of("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "long past");
        let later = Timestamp::now() + Duration::from_secs(100);
        let text = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
        let wait = wait_of(&text).unwrap();
        assert!((95..=100).contains(&wait.as_secs()), "{wait:?}");
        assert_eq!(wait_of("soon"), None);
    }
}
