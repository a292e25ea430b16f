//! One call, on a thread of its own: what came back, or whether it may have arrived all the same.
//!
//! Nothing of the address is in what it says: for many services the address is the secret.

use std::io::ErrorKind;
use std::sync::LazyLock;
use std::time::Duration;

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use jiff::{Timestamp, fmt::rfc2822};
use serde_json::Value;
use ureq::http::Request;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Timeout};

/// How long an answer may take, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(20);
/// The longest time that can be asked for; an attempt has a limit of its own beyond it.
pub const MOST_PATIENCE_S: u64 = 50;
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

/// Why there is no answer: above all, whether what was sent may have arrived all the same.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was sent, nor ever will be.
    #[error("its address cannot be used")]
    Address,
    /// Nothing was sent.
    #[error("{0}")]
    Unsent(&'static str),
    /// It may have arrived.
    #[error("{0}")]
    InDoubt(String),
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Self {
        match error {
            Error::Address => Self::failed(Refusal::Never, error.to_string()),
            Error::Unsent(_) => Self::failed(Refusal::Later, error.to_string()),
            Error::InDoubt(why) => Self::in_doubt(why),
        }
    }
}

/// What is asked for, or sent.
#[derive(Debug)]
pub struct Call {
    /// Where.
    pub url: String,
    /// Beside the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The JSON of a POST; without it, it is a GET.
    pub body: Option<String>,
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

impl Call {
    /// Asks for something.
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new(), body: None, timeout: PATIENCE }
    }

    /// A POST of JSON.
    pub fn post(url: impl Into<String>, body: &Value) -> Self {
        Self { body: Some(body.to_string()), ..Self::get(url) }
    }

    /// Makes it.
    pub async fn send(self) -> Result<Reply, Error> {
        let sent = tokio::task::spawn_blocking(move || self.send_blocking()).await;
        sent.unwrap_or_else(|_| Err(Error::InDoubt("the attempt broke off".to_owned())))
    }

    fn send_blocking(self) -> Result<Reply, Error> {
        let mut request = Request::builder().uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let (timeout, wrong) = (Some(self.timeout), |_| Error::Address);
        let (called, limit) = if let Some(body) = self.body {
            let post = request.method("POST").header("content-type", "application/json").body(body);
            let post = AGENT.configure_request(post.map_err(wrong)?).timeout_global(timeout).build();
            (AGENT.run(post), ANSWER_BYTES)
        } else {
            let get = AGENT.configure_request(request.body(()).map_err(wrong)?).timeout_global(timeout);
            (AGENT.run(get.build()), LIST_BYTES)
        };
        Ok(Reply::read(called.map_err(|error| broken(&error))?, limit))
    }
}

impl Reply {
    fn read(mut response: ureq::http::Response<ureq::Body>, limit: u64) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        // Feishu says it in a header of its own.
        let wait = header("retry-after").or_else(|| header("x-ogw-ratelimit-reset"));
        let retry_after = wait.and_then(wait_of);
        let status = response.status().as_u16();
        // A body that breaks off says nothing: whoever needs more than the status takes it as [`Self::refusal`] does.
        let body = response.body_mut().with_config().limit(limit).read_to_string().unwrap_or_default();
        Self { status, retry_after, body: serde_json::from_str(&body).unwrap_or_default() }
    }

    /// What an answer means that is not the success which the platform promises, where it says nothing more.
    pub fn refusal(&self) -> Outcome {
        let error = format!("it answered {}", self.status);
        match (self.status, self.retry_after) {
            // A success whose words are missing, or are not the platform's own: it broke off, or a proxy spoke.
            (200..300, _) => Outcome::in_doubt(format!("{error}, without what it should say")),
            (410, _) => Outcome::failed(Refusal::Gone, "it answered 410: it is gone for good"),
            (429, Some(wait)) => Outcome::failed(Refusal::NotBefore(wait), error),
            // It may have failed after having taken it: a proxy says 503 of a server that broke off, too.
            (503, Some(wait)) => Outcome::Failed { refusal: Refusal::NotBefore(wait), in_doubt: true, error },
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
fn broken(error: &ureq::Error) -> Error {
    use ureq::Error as Broken;
    let in_doubt = |why: &str| Error::InDoubt(why.to_owned());
    match error {
        Broken::HostNotFound => Error::Unsent("its name is not known"),
        Broken::ConnectionFailed => Error::Unsent("it could not be reached"),
        Broken::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Error::Unsent("it could not be reached in time")
        }
        Broken::Io(io) if io.kind() == ErrorKind::ConnectionRefused => {
            Error::Unsent("it refuses connections")
        }
        Broken::BadUri(_) | Broken::Http(_) | Broken::InvalidProxyUrl => Error::Address,
        Broken::Timeout(_) => in_doubt("it did not answer in time"),
        // Nothing is sent before the other side has shown who it is.
        Broken::Io(io) if is_of_certificate(io) => Error::Unsent("its certificate is not trusted here"),
        Broken::Tls(_) => in_doubt("no secure connection could be made"),
        Broken::Io(io) => Error::InDoubt(format!("the connection broke off: {}", io.kind())),
        _ => in_doubt("the connection failed"),
    }
}

fn is_of_certificate(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string().starts_with("invalid peer certificate"))
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
        assert_eq!(of(refusal(503, Some(7))), (wait, true));
        assert_eq!(of(refusal(200, None)), (Refusal::Later, true), "an answer that broke off");
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
