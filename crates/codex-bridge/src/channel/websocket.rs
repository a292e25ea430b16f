//! A WebSocket to a platform, one JSON value per text message. `wss://` trusts the system's certificates; `ws://` is for servers on
//! this machine. Pings are answered while somebody receives. Addresses never stand in errors: they contain tickets.

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use codex_wire::reason;
use futures_util::{SinkExt, StreamExt};
use rustls_platform_verifier::BuilderVerifierExt;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConfig, crypto};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};
use ureq::http::Uri;

use super::ChannelError;

/// How long connecting, or sending one message, may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The longest message. A platform describes a whole server of people in one.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

static TLS: LazyLock<Result<Arc<ClientConfig>, rustls::Error>> = LazyLock::new(|| {
    let builder = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?;
    Ok(Arc::new(builder.with_no_client_auth()))
});

/// TCP, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A connected WebSocket.
pub struct Socket {
    stream: WebSocketStream<Box<dyn Stream>>,
    heard_at: Instant,
}

/// What a socket received.
#[derive(Debug, Clone, PartialEq)]
pub enum Received {
    /// A message; null if it was not JSON.
    Json(Value),
    /// The platform closed the connection.
    Closed {
        /// The platform's code, if it sent one.
        code: Option<u16>,
        /// The platform's words.
        reason: String,
    },
}

impl Socket {
    /// Connects to an address of the platform.
    pub async fn connect(url: &str) -> Result<Self, ChannelError> {
        let connected = timeout(TIMEOUT, open(url)).await;
        connected
            .unwrap_or_else(|_| Err(ChannelError::retry("the platform's WebSocket did not answer in time")))
    }

    /// The next message. Nothing is lost if the call is dropped.
    pub async fn receive(&mut self) -> Result<Received, ChannelError> {
        loop {
            let next = self.stream.next().await;
            self.heard_at = Instant::now();
            match next {
                Some(Ok(Message::Text(text))) => {
                    return Ok(Received::Json(serde_json::from_str(&text).unwrap_or_default()));
                }
                Some(Ok(Message::Close(frame))) => {
                    let (code, reason) =
                        frame.map(|frame| (u16::from(frame.code), frame.reason.to_string())).unzip();
                    return Ok(Received::Closed { code, reason: reason.unwrap_or_default() });
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(broken(&error)),
                None => return Ok(Received::Closed { code: None, reason: String::new() }),
            }
        }
    }

    /// How long the platform has sent nothing at all, not even a ping or the answer to one.
    pub fn silence(&self) -> Duration {
        self.heard_at.elapsed()
    }

    /// Sends a message.
    pub async fn send(&mut self, message: &Value) -> Result<(), ChannelError> {
        self.write(Message::text(message.to_string())).await
    }

    /// Sends a ping, which the platform answers while somebody receives here.
    pub async fn ping(&mut self) -> Result<(), ChannelError> {
        self.write(Message::Ping(Vec::new().into())).await
    }

    async fn write(&mut self, message: Message) -> Result<(), ChannelError> {
        let sent = timeout(TIMEOUT, self.stream.send(message)).await;
        match sent {
            Ok(sent) => sent.map_err(|error| broken(&error)),
            Err(_) => Err(ChannelError::retry("the platform's WebSocket takes no more messages")),
        }
    }
}

async fn open(url: &str) -> Result<Socket, ChannelError> {
    let wrong = || ChannelError::retry("the platform named no WebSocket address that can be used");
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
    let is_plain = match uri.scheme_str() {
        Some("wss") => false,
        Some("ws") if is_local(&host) => true,
        _ => return Err(wrong()),
    };
    let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    let tcp = TcpStream::connect((host.as_str(), port)).await.map_err(|error| unreachable(&error))?;
    let stream: Box<dyn Stream> =
        if is_plain { Box::new(tcp) } else { Box::new(encrypted(host, tcp).await?) };
    let config =
        WebSocketConfig::default().max_message_size(Some(MESSAGE_BYTES)).max_frame_size(Some(MESSAGE_BYTES));
    let opened = client_async_with_config(url, stream, Some(config)).await;
    opened.map(|(stream, _)| Socket { stream, heard_at: Instant::now() }).map_err(|error| broken(&error))
}

async fn encrypted(host: String, tcp: TcpStream) -> Result<impl Stream, ChannelError> {
    let config = TLS.as_ref().map_err(|error| ChannelError::retry(format!("TLS cannot be used: {error}")))?;
    let name = ServerName::try_from(host)
        .map_err(|_| ChannelError::retry("the platform named a host that is none"))?;
    let connecting = TlsConnector::from(Arc::clone(config)).connect(name, tcp);
    connecting.await.map_err(|error| unreachable(&error))
}

fn is_local(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn unreachable(error: &io::Error) -> ChannelError {
    ChannelError::retry(format!("the platform's WebSocket cannot be reached: {}", reason(error)))
}

fn broken(error: &tungstenite::Error) -> ChannelError {
    let why = match error {
        tungstenite::Error::Io(error) => reason(error),
        tungstenite::Error::Http(response) => format!("the platform answered {}", response.status()),
        other => other.to_string(),
    };
    ChannelError::retry(format!("the connection to the platform broke: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_unencrypted_address_is_only_for_this_machine() {
        for url in ["ws://203.0.113.7/x", "http://localhost/x", "wss:///x", "nonsense"] {
            let error = Socket::connect(url).await.err().unwrap();
            assert!(error.reason().contains("address that can be used"), "{url}: {error:?}");
        }
        assert!(is_local("127.0.0.1") && is_local("::1") && !is_local("localhost.example.org"));
    }
}
