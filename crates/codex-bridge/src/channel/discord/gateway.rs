//! A connection to Discord's gateway (v10): the WebSocket that events come by. Knows the protocol, and no event.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};

use crate::channel::ChannelError;
use crate::channel::websocket::{Received, Socket};

/// The events that are asked for: GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES and MESSAGE_CONTENT.
const INTENTS: u64 = 1 | 1 << 9 | 1 << 12 | 1 << 15;
/// How long the gateway may take to say hello.
const HELLO: Duration = Duration::from_secs(20);
/// The pauses between heartbeats that are believed.
const HEARTBEATS_MS: std::ops::RangeInclusive<u64> = 10..=600_000;

/// A connection.
pub struct Gateway {
    socket: Socket,
    /// The pause between two heartbeats.
    interval: Duration,
    next_heartbeat: Instant,
    /// Whether the last heartbeat was answered. A connection on which one was not is dead.
    is_alive: bool,
}

/// What the gateway sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Signal {
    /// An event.
    Event(Event),
    /// The connection is to be made again, and the session resumed.
    Reconnect,
    /// The session is over, or cannot be resumed.
    SessionOver,
    /// The gateway closed the connection with this code.
    Closed(Option<u16>),
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Its number in the session.
    pub number: u64,
    /// Its name.
    pub kind: String,
    /// What it says.
    pub body: Value,
}

impl Gateway {
    /// Connects, and waits for the greeting.
    pub async fn connect(address: &str) -> Result<Self, ChannelError> {
        let address = format!("{}/?v=10&encoding=json", address.trim_end_matches('/'));
        let mut socket = Socket::connect(&address).await?;
        let silent = || ChannelError::retry("Discord's gateway did not say hello");
        let Ok(Received::Json(hello)) = timeout(HELLO, socket.receive()).await.map_err(|_| silent())? else {
            return Err(silent());
        };
        let interval = hello["d"]["heartbeat_interval"].as_u64().filter(|ms| HEARTBEATS_MS.contains(ms));
        let interval = Duration::from_millis(interval.ok_or_else(silent)?);
        // All who were disconnected at once must not send their heartbeats at once.
        let next_heartbeat = Instant::now() + interval.mul_f64(rand::random::<f64>());
        Ok(Self { socket, interval, next_heartbeat, is_alive: true })
    }

    /// Begins a session.
    pub async fn identify(&mut self, token: &str) -> Result<(), ChannelError> {
        let properties = json!({ "os": "linux", "browser": "codex-bridge", "device": "codex-bridge" });
        let identity = json!({ "token": token, "intents": INTENTS, "properties": properties });
        self.socket.send(&json!({ "op": 2, "d": identity })).await
    }

    /// Goes on with a session behind the event of this number.
    pub async fn resume(&mut self, token: &str, session: &str, number: u64) -> Result<(), ChannelError> {
        let resumed = json!({ "token": token, "session_id": session, "seq": number });
        self.socket.send(&json!({ "op": 6, "d": resumed })).await
    }

    /// The next signal; none if there is none until then. Heartbeats name the last event that is stored.
    pub async fn next(
        &mut self,
        until: Instant,
        stored: Option<u64>,
    ) -> Result<Option<Signal>, ChannelError> {
        loop {
            if self.next_heartbeat <= Instant::now() {
                if !self.is_alive {
                    return Ok(Some(Signal::Closed(None)));
                }
                self.is_alive = false;
                self.next_heartbeat = Instant::now() + self.interval;
                self.socket.send(&json!({ "op": 1, "d": stored })).await?;
            }
            let received = timeout_at(until.min(self.next_heartbeat), self.socket.receive()).await;
            let message = match received {
                Err(_) if Instant::now() >= until => return Ok(None),
                Err(_) => continue,
                Ok(Ok(Received::Json(message))) => message,
                Ok(Ok(Received::Closed { code, .. })) => return Ok(Some(Signal::Closed(code))),
                // A broken connection is made again as a closed one is.
                Ok(Err(_)) => return Ok(Some(Signal::Closed(None))),
            };
            match message["op"].as_u64() {
                Some(0) => {
                    let kind = message["t"].as_str().unwrap_or_default().to_owned();
                    let (number, mut message) = (message["s"].as_u64().unwrap_or_default(), message);
                    return Ok(Some(Signal::Event(Event { number, kind, body: message["d"].take() })));
                }
                Some(1) => self.socket.send(&json!({ "op": 1, "d": stored })).await?,
                Some(7) => return Ok(Some(Signal::Reconnect)),
                Some(9) if message["d"] == true => return Ok(Some(Signal::Reconnect)),
                Some(9) => return Ok(Some(Signal::SessionOver)),
                Some(11) => self.is_alive = true,
                _ => {}
            }
        }
    }
}

/// What a code of the gateway's means for a bot that cannot go on.
pub fn fatal(code: u16) -> Option<&'static str> {
    Some(match code {
        4004 => "the token is not valid: make a new one in the Developer Portal, under Bot > Reset Token",
        4010..=4012 => "the gateway takes this version of codex-bridge no more: update it",
        4013 | 4014 => {
            "the bot may not read messages: switch on Message Content Intent in the Developer Portal, under Bot"
        }
        _ => return None,
    })
}

/// Whether a session is over when the gateway closes the connection with this code.
pub fn ends_session(code: u16) -> bool {
    matches!(code, 4003 | 4007 | 4009)
}
