//! The WebSockets of an app: envelopes, acknowledgements, and what comes again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

use super::{APP, Books, Desk};

/// How long an app has to acknowledge an envelope.
const PATIENCE: Duration = Duration::from_secs(3);
/// How often an envelope comes again.
const MOST_RETRIES: u64 = 3;

/// What a connection is told to do.
pub enum Order {
    /// Say this.
    Say(Value),
    /// End in an orderly way, so much later.
    EndAfter(Duration),
    /// Break off.
    Cut,
}

/// An envelope that is not acknowledged.
pub struct Sent {
    frame: Value,
    at: Instant,
}

impl Books {
    /// Sends an envelope to one of the connections, in turn. Without any, it is lost.
    pub fn envelope(&mut self, kind: &str, payload: &Value) {
        self.last_envelope += 1;
        let mut frame = json!({
            "envelope_id": format!("envelope-{}", self.last_envelope), "type": kind, "payload": payload,
            "accepts_response_payload": kind != "events_api",
        });
        if kind == "events_api" {
            (frame["retry_attempt"], frame["retry_reason"]) = (0.into(), "".into());
        }
        self.post(frame);
    }

    fn post(&mut self, frame: Value) {
        self.turn += 1;
        self.sockets.retain(|_, socket| !socket.is_closed());
        let chosen = self.sockets.values().nth(self.turn % self.sockets.len().max(1));
        if chosen.is_some_and(|socket| socket.send(Order::Say(frame.clone())).is_ok()) {
            self.envelopes.push(Sent { frame, at: Instant::now() });
        }
    }

    fn acknowledge(&mut self, id: &str) {
        if self.ignores_acks {
            return;
        }
        let at = self.envelopes.iter().position(|sent| sent.frame["envelope_id"] == id);
        if let Some(sent) = at.map(|at| self.envelopes.remove(at)) {
            self.late_acks += usize::from(sent.at.elapsed() > PATIENCE);
        }
    }

    fn send_again(&mut self) {
        let (late, rest): (Vec<Sent>, Vec<Sent>) =
            std::mem::take(&mut self.envelopes).into_iter().partition(|sent| sent.at.elapsed() > PATIENCE);
        self.envelopes = rest;
        self.late_acks += late.len();
        for Sent { mut frame, .. } in late {
            let attempt = frame["retry_attempt"].as_u64().unwrap_or_default() + 1;
            if attempt <= MOST_RETRIES {
                (frame["retry_attempt"], frame["retry_reason"]) = (attempt.into(), "timeout".into());
                self.post(frame);
            }
        }
    }
}

/// Sends envelopes again that are not acknowledged in time.
pub async fn send_again(desk: Arc<Desk>) {
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        desk.books().send_again();
    }
}

/// Takes connections: those of WebSockets are served here, the others by whoever asks for them.
pub struct Listener {
    tcp: TcpListener,
    desk: Option<Arc<Desk>>,
}

impl Listener {
    pub async fn bind() -> Self {
        Self { tcp: TcpListener::bind("127.0.0.1:0").await.expect("a port on loopback"), desk: None }
    }

    pub fn address(&self) -> SocketAddr {
        self.tcp.local_addr().expect("its address")
    }

    pub fn with(self, desk: Arc<Desk>) -> Self {
        Self { desk: Some(desk), ..self }
    }
}

impl axum::serve::Listener for Listener {
    type Io = TcpStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (TcpStream, SocketAddr) {
        loop {
            let Ok((stream, address)) = self.tcp.accept().await else { continue };
            let mut head = [0; 256];
            let length = stream.peek(&mut head).await.unwrap_or_default();
            let head = String::from_utf8_lossy(&head[..length]).into_owned();
            let Some(ticket) = head.strip_prefix("GET /link/?ticket=") else { return (stream, address) };
            let ticket =
                ticket.split([' ', '&']).next().and_then(|ticket| ticket.parse().ok()).unwrap_or_default();
            tokio::spawn(serve(Arc::clone(self.desk.as_ref().expect("a desk")), stream, ticket));
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

async fn serve(desk: Arc<Desk>, stream: TcpStream, ticket: u64) {
    let is_valid = {
        let mut books = desk.books();
        let before = books.tickets.len();
        books.tickets.retain(|one| *one != ticket);
        books.tickets.len() < before
    };
    // An address that was used, or that nobody was given.
    if !is_valid {
        return;
    }
    let Ok(mut socket) = accept_async(stream).await else { return };
    let (orders, mut ordered) = mpsc::unbounded_channel();
    let count = {
        let mut books = desk.books();
        books.sockets.retain(|_, socket| !socket.is_closed());
        books.connected += 1;
        books.sockets.len() + 1
    };
    let hello = json!({
        "type": "hello", "num_connections": count, "connection_info": {"app_id": APP},
        "debug_info": {"host": "stand-in", "build_number": 1, "approximate_connection_time": 18_060},
    });
    if socket.send(Message::text(hello.to_string())).await.is_err() {
        return;
    }
    desk.books().sockets.insert(ticket, orders);
    let mut end: Option<tokio::time::Instant> = None;
    let far = || tokio::time::Instant::now() + Duration::from_hours(1);
    loop {
        tokio::select! {
            order = ordered.recv() => match order {
                Some(Order::Say(frame)) => {
                    if socket.send(Message::text(frame.to_string())).await.is_err() {
                        break;
                    }
                }
                Some(Order::EndAfter(grace)) => end = Some(tokio::time::Instant::now() + grace),
                Some(Order::Cut) | None => return drop(desk.books().sockets.remove(&ticket)),
            },
            received = socket.next() => match received {
                Some(Ok(Message::Text(text))) => {
                    let ack: Value = serde_json::from_str(&text).unwrap_or_default();
                    desk.books().acknowledge(ack["envelope_id"].as_str().unwrap_or_default());
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                _ => break,
            },
            () = tokio::time::sleep_until(end.unwrap_or_else(far)) => {
                desk.books().sockets.remove(&ticket);
                socket.close(None).await.ok();
                return;
            }
        }
    }
    desk.books().sockets.remove(&ticket);
}
