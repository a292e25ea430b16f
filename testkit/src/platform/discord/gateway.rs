//! The gateway: sessions with numbered events, which are resumed or begin anew, and heartbeats.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::server::{Desk, Frame, GUILD};

/// Messages without this intent have no content.
const MESSAGE_CONTENT: u64 = 1 << 15;
/// How many messages a connection may send in a minute.
const MOST_SENT: usize = 120;

/// Takes over a connection that is to become a WebSocket.
pub fn upgrade(desk: Arc<Desk>, mut request: Request) -> Response {
    let Some(key) = request.headers().get("sec-websocket-key").cloned() else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let query = request.uri().query().unwrap_or_default();
    if !query.contains("v=10") || !query.contains("encoding=json") {
        return StatusCode::BAD_REQUEST.into_response();
    }
    let upgraded = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let Ok(upgraded) = upgraded.await else { return };
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
        serve(desk, socket).await;
    });
    let accepted = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
    let accepted = accepted.header("connection", "upgrade").header("upgrade", "websocket");
    let accepted = accepted.header("sec-websocket-accept", derive_accept_key(key.as_bytes()));
    accepted.body(Body::empty()).expect("a response")
}

type Socket = WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>;

/// A connection from its greeting to its end.
async fn serve(desk: Arc<Desk>, mut socket: Socket) {
    let interval = desk.books().heartbeat;
    let (sender, mut frames) = unbounded_channel();
    let number = desk.books().connect(sender);
    let hello =
        json!({ "op": 10, "s": null, "t": null, "d": { "heartbeat_interval": interval.as_millis() } });
    let mut is_open = say(&mut socket, &hello).await;
    let mut sent: Vec<Instant> = Vec::new();
    let mut last_heartbeat = Instant::now();
    while is_open {
        let patience = (interval * 2 + Duration::from_secs(1)).saturating_sub(last_heartbeat.elapsed());
        is_open = tokio::select! {
            frame = frames.recv() => match frame {
                Some(frame) => pass_on(&mut socket, frame).await,
                None => false,
            },
            heard = socket.next() => match heard {
                Some(Ok(Message::Text(text))) => {
                    sent.retain(|at| at.elapsed() < Duration::from_mins(1));
                    sent.push(Instant::now());
                    let message: Value = serde_json::from_str(&text).unwrap_or_default();
                    if message["op"] == 1 {
                        last_heartbeat = Instant::now();
                    }
                    if sent.len() > MOST_SENT {
                        close(&mut socket, 4008).await
                    } else {
                        hear(&desk, number, &mut socket, &mut frames, &message).await
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => false,
                Some(Ok(_)) => true,
            },
            () = tokio::time::sleep(patience) => close(&mut socket, 4009).await,
        };
    }
    desk.books().disconnect(number);
}

async fn say(socket: &mut Socket, message: &Value) -> bool {
    socket.send(Message::text(message.to_string())).await.is_ok()
}

async fn close(socket: &mut Socket, code: u16) -> bool {
    let frame = CloseFrame { code: CloseCode::from(code), reason: "closed".into() };
    socket.send(Message::Close(Some(frame))).await.ok();
    false
}

async fn pass_on(socket: &mut Socket, frame: Frame) -> bool {
    match frame {
        Frame::Message(message) => say(socket, &message).await,
        Frame::Close(code) => close(socket, code).await,
        Frame::Drop => false,
    }
}

/// What the gateway makes of a message of the bot's.
async fn hear(
    desk: &Desk,
    number: usize,
    socket: &mut Socket,
    frames: &mut UnboundedReceiver<Frame>,
    message: &Value,
) -> bool {
    let body = &message["d"];
    let is_token = body["token"].as_str().map(|token| token.trim_start_matches("Bot ")) == Some(&desk.token);
    match message["op"].as_u64() {
        Some(1) => {
            let is_mute = {
                let mut books = desk.books();
                books.heartbeats.push(body.as_u64());
                books.is_mute
            };
            is_mute || say(socket, &json!({ "op": 11, "s": null, "t": null, "d": null })).await
        }
        Some(2 | 6) if !is_token => close(socket, 4004).await,
        Some(2) => {
            let intents = body["intents"].as_u64().unwrap_or_default();
            if !body["properties"]["os"].is_string() {
                return close(socket, 4002).await;
            }
            if intents & MESSAGE_CONTENT != 0 && desk.books().refuses_intents {
                return close(socket, 4014).await;
            }
            if !desk.books().identify(number, intents) {
                return close(socket, 4005).await;
            }
            true
        }
        Some(6) => {
            let (session, last) = (body["session_id"].as_str().unwrap_or_default(), body["seq"].as_u64());
            let Some(last) = last else { return close(socket, 4002).await };
            // What was sent to the old connection is not sent to this one twice.
            while frames.try_recv().is_ok() {}
            let resumed = desk.books().resume(number, session, last);
            match resumed {
                Resumed::Yes => true,
                Resumed::Over => say(socket, &json!({ "op": 9, "s": null, "t": null, "d": false })).await,
                Resumed::WrongNumber => close(socket, 4007).await,
            }
        }
        Some(3 | 4 | 8) => true,
        _ => close(socket, 4001).await,
    }
}

/// What becomes of a session that is to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// It goes on.
    Yes,
    /// There is no such session any more.
    Over,
    /// It has no event of this number.
    WrongNumber,
}

/// The server in which the bot is, as a session describes it.
pub fn guild(channels: &[Value], threads: &[Value], role: &Value) -> Value {
    json!({
        "id": GUILD.to_string(), "name": "A server", "unavailable": false, "large": false, "member_count": 5,
        "joined_at": "2026-01-01T00:00:00.000000+00:00", "owner_id": "42", "roles": [role], "emojis": [], "stickers": [],
        "features": [], "members": [], "presences": [], "voice_states": [], "stage_instances": [],
        "guild_scheduled_events": [], "soundboard_sounds": [], "channels": channels, "threads": threads, "afk_timeout": 300,
        "verification_level": 0, "default_message_notifications": 0, "explicit_content_filter": 0, "mfa_level": 0,
        "nsfw_level": 0, "premium_tier": 0, "system_channel_flags": 0, "preferred_locale": "en-US", "premium_progress_bar_enabled": false,
        "icon": null, "splash": null, "discovery_splash": null, "afk_channel_id": null, "application_id": null,
        "system_channel_id": null, "rules_channel_id": null, "vanity_url_code": null, "description": null, "banner": null,
        "public_updates_channel_id": null, "safety_alerts_channel_id": null,
    })
}
