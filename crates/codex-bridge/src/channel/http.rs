//! One HTTP call, on a blocking thread: the reply, or whether the call may have arrived although no reply came.
//!
//! Errors never contain the address: for many services the address is the secret.

use std::io::{ErrorKind, Read};
use std::sync::LazyLock;
use std::time::Duration;

use codex_bridge_core::outbox::Outcome;
use codex_bridge_core::outbox::sender::Refusal;
use jiff::{Timestamp, fmt::rfc2822};
use serde_json::Value;
use sha2::{Digest, Sha256};
use ureq::http::Request;
use ureq::tls::{RootCerts, TlsConfig};
use ureq::{Agent, Timeout};

use super::ChannelError;

/// The default timeout of a call.
pub const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest timeout that can be configured; the limit of a delivery attempt is longer.
pub const MAX_TIMEOUT_S: u64 = 50;
/// How much of the reply to a POST is read.
const ANSWER_BYTES: u64 = 64 * 1024;
/// How much of the reply to a GET, which may be a long list, is read.
const LIST_BYTES: u64 = 32 * 1024 * 1024;

static AGENT: LazyLock<Agent> = LazyLock::new(|| {
    let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
    let config = Agent::config_builder()
        .tls_config(tls)
        .http_status_as_error(false)
        // A redirect is a configuration error: the message is not meant for another server.
        .max_redirects(0)
        .max_redirects_will_error(false)
        // A reused connection may be closed by the server, which looks like a lost reply.
        .max_idle_connections(0)
        .user_agent(concat!("codex-bridge/", env!("CARGO_PKG_VERSION")))
        .build();
    config.into()
});

/// Why there is no reply, and whether the call may have arrived.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Nothing was sent, and a retry would fail too.
    #[error("the address is not valid")]
    Address,
    /// Nothing was sent.
    #[error("{0}")]
    Unsent(&'static str),
    /// The call may have arrived.
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

impl From<Error> for ChannelError {
    fn from(error: Error) -> Self {
        let why = format!("the platform cannot be reached: {error}");
        if error == Error::Address { Self::Fatal(why) } else { Self::retry(why) }
    }
}

/// Why a file was not downloaded, in words for people. They never contain the address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownloadError {
    /// The file is larger than the limit.
    #[error("it is too large")]
    TooLarge,
    /// The server refused.
    #[error("the server answered {0}")]
    Status(u16),
    /// The server cannot be reached.
    #[error("{0}")]
    Unreachable(Error),
    /// The file did not arrive whole.
    #[error("the connection broke off")]
    BrokenOff,
    /// The time was over.
    #[error("it took too long")]
    TooSlow,
    /// The platform gives no files, or not this one.
    #[error("{0}")]
    Refused(String),
}

impl DownloadError {
    /// Whether another attempt may succeed.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Status(status) => *status == 429 || *status >= 500,
            Self::Unreachable(error) => *error != Error::Address,
            Self::BrokenOff => true,
            Self::TooLarge | Self::TooSlow | Self::Refused(_) => false,
        }
    }
}

/// One call.
#[derive(Debug)]
pub struct Call {
    /// The method, if it is neither the GET of a call without a body nor the POST of one with a body.
    pub method: Option<&'static str>,
    /// The address.
    pub url: String,
    /// The headers, without the content type.
    pub headers: Vec<(&'static str, String)>,
    /// The body, if any.
    pub body: Option<Payload>,
    /// The timeout of the whole call.
    pub timeout: Duration,
}

/// The body of a POST.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    content_type: String,
    content: String,
}

impl Payload {
    /// JSON.
    pub fn json(text: impl Into<String>) -> Self {
        Self { content_type: "application/json".to_owned(), content: text.into() }
    }

    /// Plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content_type: "text/plain; charset=utf-8".to_owned(), content: text.into() }
    }

    /// The bytes that are sent.
    pub fn content(&self) -> &str {
        &self.content
    }

    /// A form with a text file, named `file_field`.
    fn form(fields: &[(&str, String)], file_field: &str, file_name: &str, text: &str) -> Self {
        let mut content = String::new();
        // A boundary must not stand in what it separates, and no text has its own digest in it.
        let digest =
            Sha256::digest(fields.iter().map(|(_, value)| value.as_str()).chain([text]).collect::<String>());
        let boundary = format!(
            "codex-bridge-{:032x}",
            u128::from_be_bytes(digest.as_slice().first_chunk().copied().unwrap_or_default())
        );
        for (name, value) in fields {
            let header = format!("Content-Disposition: form-data; name=\"{name}\"");
            content.extend(["--", &boundary, "\r\n", &header, "\r\n\r\n", value, "\r\n"]);
        }
        let header = format!(
            "Content-Disposition: form-data; name=\"{file_field}\"; filename=\"{file_name}\"\r\nContent-Type: text/plain; charset=utf-8"
        );
        content.extend(["--", &boundary, "\r\n", &header, "\r\n\r\n", text, "\r\n--", &boundary, "--\r\n"]);
        Self { content_type: format!("multipart/form-data; boundary={boundary}"), content }
    }
}

/// A reply.
#[derive(Debug, Clone)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The pause that the server asked for, if any.
    pub retry_after: Option<Duration>,
    /// The pause before the next call of the same kind, if the server says that this was the last one for now.
    pub exhausted_for: Option<Duration>,
    /// The body, or null if it is not JSON.
    pub body: Value,
}

impl Call {
    /// A GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self { method: None, url: url.into(), headers: Vec::new(), body: None, timeout: TIMEOUT }
    }

    /// A POST of JSON.
    pub fn post(url: impl Into<String>, body: &Value) -> Self {
        Self { body: Some(Payload::json(body.to_string())), ..Self::get(url) }
    }

    /// A POST of a form with a text file.
    pub fn post_file(
        url: impl Into<String>,
        fields: &[(&str, String)],
        (file_field, file_name): (&str, &str),
        text: &str,
    ) -> Self {
        Self { body: Some(Payload::form(fields, file_field, file_name, text)), ..Self::get(url) }
    }

    /// Downloads a file of at most `limit` bytes by this GET. The limit holds for what the server announces and for what it
    /// sends.
    pub async fn download(self, limit: u64) -> Result<Vec<u8>, DownloadError> {
        let loaded = tokio::task::spawn_blocking(move || self.download_blocking(limit)).await;
        loaded.unwrap_or(Err(DownloadError::BrokenOff))
    }

    fn download_blocking(self, limit: u64) -> Result<Vec<u8>, DownloadError> {
        let mut request = Request::builder().uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let request = request.body(()).map_err(|_| DownloadError::Unreachable(Error::Address))?;
        let get = AGENT.configure_request(request).timeout_global(Some(self.timeout)).build();
        let mut response =
            AGENT.run(get).map_err(|error| DownloadError::Unreachable(connection_error(&error)))?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            return Err(DownloadError::Status(status));
        }
        let announced = response.headers().get("content-length").and_then(|length| length.to_str().ok());
        let announced = announced.and_then(|length| length.parse::<u64>().ok());
        if announced.is_some_and(|length| length > limit) {
            return Err(DownloadError::TooLarge);
        }
        let mut bytes = Vec::new();
        let read = response.body_mut().as_reader().take(limit + 1).read_to_end(&mut bytes);
        match read {
            Ok(_) if bytes.len() as u64 > limit => Err(DownloadError::TooLarge),
            Ok(_) if announced.is_none_or(|length| length == bytes.len() as u64) => Ok(bytes),
            Ok(_) | Err(_) => Err(DownloadError::BrokenOff),
        }
    }

    /// Makes the call.
    pub async fn send(self) -> Result<Reply, Error> {
        let sent = tokio::task::spawn_blocking(move || self.send_blocking()).await;
        sent.unwrap_or_else(|_| Err(Error::InDoubt("the attempt was aborted".to_owned())))
    }

    fn send_blocking(self) -> Result<Reply, Error> {
        let mut request = Request::builder().uri(&self.url);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let (timeout, wrong) = (Some(self.timeout), |_| Error::Address);
        let (called, limit) = if self.body.is_some() || self.method.is_some() {
            let method = request.method(self.method.unwrap_or("POST"));
            let post = match self.body {
                Some(body) => method.header("content-type", body.content_type).body(body.content),
                None => method.body(String::new()),
            };
            let post = AGENT.configure_request(post.map_err(wrong)?).timeout_global(timeout).build();
            (AGENT.run(post), ANSWER_BYTES)
        } else {
            let get = AGENT.configure_request(request.body(()).map_err(wrong)?).timeout_global(timeout);
            (AGENT.run(get.build()), LIST_BYTES)
        };
        Ok(Reply::read(called.map_err(|error| connection_error(&error))?, limit))
    }
}

impl Reply {
    fn read(mut response: ureq::http::Response<ureq::Body>, limit: u64) -> Self {
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        // Feishu has a header of its own for this.
        let wait = header("retry-after").or_else(|| header("x-ogw-ratelimit-reset"));
        let retry_after = wait.and_then(parse_retry_after);
        let is_last = header("x-ratelimit-remaining") == Some("0");
        let exhausted_for = header("x-ratelimit-reset-after").filter(|_| is_last).and_then(parse_seconds);
        let status = response.status().as_u16();
        // An incomplete body counts as none; see [`Self::refusal`].
        let body = response.body_mut().with_config().limit(limit).read_to_string().unwrap_or_default();
        Self { status, retry_after, exhausted_for, body: serde_json::from_str(&body).unwrap_or_default() }
    }

    /// What a status means, when the body does not say what happened.
    pub fn refusal(&self) -> Outcome {
        let error = format!("the server answered {}", self.status);
        match (self.status, self.retry_after) {
            // A success without the platform's own body: the connection broke off, or a proxy answered.
            (200..300, _) => {
                Outcome::in_doubt(format!("{error}, but the body is not what the platform sends"))
            }
            (410, _) => {
                Outcome::failed(Refusal::Gone, "the server answered 410: the receiver is gone for good")
            }
            (429, Some(wait)) => Outcome::failed(Refusal::NotBefore(wait), error),
            // The server may have failed after accepting the message: a proxy also answers 503 when the server breaks off.
            (503, Some(wait)) => Outcome::Failed { refusal: Refusal::NotBefore(wait), in_doubt: true, error },
            (500.., _) => Outcome::in_doubt(error),
            _ => Outcome::failed(Refusal::Later, error),
        }
    }

    /// Whether the status is a success.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// Parses seconds with a fraction.
fn parse_seconds(text: &str) -> Option<Duration> {
    text.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

/// Parses `Retry-After`: seconds, or a date.
fn parse_retry_after(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(Duration::from_secs(seconds));
    }
    let until = rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::try_from(until.duration_since(Timestamp::now())).unwrap_or_default())
}

/// What a failed connection means. The words are our own, since those of the library may contain the address.
fn connection_error(error: &ureq::Error) -> Error {
    use ureq::Error as UreqError;
    let in_doubt = |why: &str| Error::InDoubt(why.to_owned());
    match error {
        UreqError::HostNotFound => Error::Unsent("the host name cannot be resolved"),
        UreqError::ConnectionFailed => Error::Unsent("the server cannot be reached"),
        UreqError::Timeout(Timeout::Resolve | Timeout::Connect) => {
            Error::Unsent("the server cannot be reached in time")
        }
        UreqError::Io(io) if io.kind() == ErrorKind::ConnectionRefused => {
            Error::Unsent("the server refuses connections")
        }
        UreqError::BadUri(_) | UreqError::Http(_) | UreqError::InvalidProxyUrl => Error::Address,
        UreqError::Timeout(_) => in_doubt("the server did not answer in time"),
        // Nothing is sent before the server's certificate is verified.
        UreqError::Io(io) if is_certificate_error(io) => {
            Error::Unsent("the server's certificate is not trusted here")
        }
        UreqError::Tls(_) => in_doubt("no secure connection could be made"),
        UreqError::Io(io) => Error::InDoubt(format!("the connection broke off: {}", io.kind())),
        _ => in_doubt("the connection failed"),
    }
}

fn is_certificate_error(error: &std::io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.to_string().starts_with("invalid peer certificate"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(status: u16, retry_after: Option<u64>) -> Outcome {
        let retry_after = retry_after.map(Duration::from_secs);
        Reply { status, retry_after, exhausted_for: None, body: Value::Null }.refusal()
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
        assert_eq!(parse_retry_after(" 120 "), Some(Duration::from_mins(2)));
        assert_eq!(parse_retry_after("Wed, 21 Oct 2015 07:28:00 GMT"), Some(Duration::ZERO), "long past");
        let later = Timestamp::now() + Duration::from_secs(100);
        let text = rfc2822::DateTimePrinter::new().timestamp_to_rfc9110_string(&later).unwrap();
        let wait = parse_retry_after(&text).unwrap();
        assert!((95..=100).contains(&wait.as_secs()), "{wait:?}");
        assert_eq!(parse_retry_after("soon"), None);
    }
}
