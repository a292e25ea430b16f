//! WebSocket over a unix socket: how codex listens with `--listen unix://PATH`. One message per text frame.

use std::io::ErrorKind;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt, future};
use tokio::net::UnixStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};

use super::{Error, Transport};
use crate::reason;

/// Upgrades a connected stream. The caller has checked the process at the other end.
pub async fn connect(stream: UnixStream, message_limit: usize) -> Result<Transport, Error> {
    let config =
        WebSocketConfig::default().max_message_size(Some(message_limit)).max_frame_size(Some(message_limit));
    // The address is a formality: the socket is already connected.
    let (socket, _response) =
        tokio_tungstenite::client_async_with_config("ws://localhost/", stream, Some(config))
            .await
            .map_err(|error| Error::Read(format!("the WebSocket handshake failed: {}", in_words(&error))))?;
    let (sink, stream) = socket.split();
    let incoming = stream
        .take_while(|message| future::ready(!is_end(message)))
        .filter_map(move |message| future::ready(received(message, message_limit)));
    let outgoing = sink
        .sink_map_err(|error| Error::Write(in_words(&error)))
        .with(|message: Bytes| future::ready(text_frame(message)));
    Ok(Transport { incoming: Box::pin(incoming), outgoing: Box::pin(outgoing) })
}

/// Whether the server closed the connection, with or without a close frame. Both are a normal end, not an error.
fn is_end(message: &Result<Message, tungstenite::Error>) -> bool {
    match message {
        Ok(message) => matches!(message, Message::Close(_)),
        Err(tungstenite::Error::ConnectionClosed | tungstenite::Error::AlreadyClosed) => true,
        Err(tungstenite::Error::Protocol(error)) => *error == ProtocolError::ResetWithoutClosingHandshake,
        Err(tungstenite::Error::Io(error)) => {
            matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::UnexpectedEof)
        }
        Err(_) => false,
    }
}

fn received(message: Result<Message, tungstenite::Error>, limit: usize) -> Option<Result<Bytes, Error>> {
    match message {
        Ok(Message::Text(text)) => Some(Ok(text.into())),
        Ok(Message::Binary(bytes)) => Some(Ok(bytes)),
        Ok(_) => None,
        Err(tungstenite::Error::Capacity(_)) => Some(Err(Error::MessageTooLong { limit })),
        Err(error) => Some(Err(Error::Read(in_words(&error)))),
    }
}

fn in_words(error: &tungstenite::Error) -> String {
    match error {
        tungstenite::Error::Io(error) => reason(error),
        other => other.to_string(),
    }
}

fn text_frame(message: Bytes) -> Result<Message, Error> {
    let text = message.try_into().map_err(|_| Error::Write("a message was not UTF-8".to_owned()))?;
    Ok(Message::Text(text))
}
