//! The server on a unix socket: WebSocket, one message per text frame, any number of clients.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::Frame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};

use crate::Failure;
use crate::server::Server;
use crate::state::Output;

type Sink = SplitSink<WebSocketStream<UnixStream>, Message>;

/// Serves clients for ever.
pub async fn serve(server: Arc<Server>, path: &Path) -> Result<(), Failure> {
    let listener = bind(path)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let server = Arc::clone(&server);
        tokio::spawn(async move {
            if let Ok(socket) = tokio_tungstenite::accept_async(stream).await {
                serve_client(server, socket).await;
            }
        });
    }
}

/// Takes the place of a socket that nobody listens on; codex 0.166 too refuses one that is in use.
fn bind(path: &Path) -> Result<UnixListener, Failure> {
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(path).is_ok() {
            return Err(format!("{} is in use by another server", path.display()).into());
        }
        std::fs::remove_file(path)?;
    }
    // Whoever waits for the path must never see it with the permissions that `bind` gives.
    let unready = path.with_extension("unready");
    let listener = UnixListener::bind(&unready)?;
    std::fs::set_permissions(&unready, std::fs::Permissions::from_mode(0o600))?;
    std::fs::rename(&unready, path)?;
    Ok(listener)
}

async fn serve_client(server: Arc<Server>, socket: WebSocketStream<UnixStream>) {
    let (sink, stream) = socket.split();
    let (output, outputs) = mpsc::unbounded_channel();
    let connection = server.open(output);
    // whichever side ends first ends the other: a dropped half lets the socket go
    tokio::select! {
        () = read(&server, connection, stream) => {}
        () = write(sink, outputs) => {}
    }
    server.close(connection);
}

async fn read(server: &Arc<Server>, connection: u64, mut stream: SplitStream<WebSocketStream<UnixStream>>) {
    while let Some(Ok(message)) = stream.next().await {
        match message {
            Message::Text(text) => server.receive(connection, text.as_bytes()),
            Message::Binary(bytes) => server.receive(connection, &bytes),
            Message::Close(_) => return,
            _ => {}
        }
    }
}

async fn write(mut sink: Sink, mut outputs: mpsc::UnboundedReceiver<Output>) {
    while let Some(output) = outputs.recv().await {
        let message = match output {
            Output::Message(text) => Message::text(text),
            Output::Raw(bytes) => frame_of(bytes),
            Output::Half(text) => Message::Frame(Frame::message(text, OpCode::Data(Data::Text), false)),
            Output::Flush(written) => {
                let _ = sink.flush().await;
                let _ = written.send(());
                continue;
            }
            Output::Close => {
                let _ = sink.flush().await;
                return;
            }
        };
        let sent = sink.feed(message).await;
        if sent.is_err() || (outputs.is_empty() && sink.flush().await.is_err()) {
            return;
        }
    }
}

/// A line's newline has no place in a frame.
fn frame_of(mut bytes: Vec<u8>) -> Message {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    match String::from_utf8(bytes) {
        Ok(text) => Message::text(text),
        Err(error) => Message::binary(error.into_bytes()),
    }
}
