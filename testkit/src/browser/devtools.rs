//! The DevTools protocol on one WebSocket: calls with their answers, and what each page told by itself.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

/// No call takes longer.
const CALL_LIMIT: Duration = Duration::from_mins(2);

/// A connection to Chromium. Cheap to clone.
#[derive(Clone)]
pub(super) struct DevTools {
    calls: mpsc::UnboundedSender<String>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    next_id: AtomicU64,
    waiting: Mutex<HashMap<u64, oneshot::Sender<Result<Value, String>>>>,
    /// What pages told, by session.
    told: Mutex<HashMap<String, Vec<Value>>>,
}

impl DevTools {
    pub(super) async fn connect(address: &str) -> Self {
        let rest = address.strip_prefix("ws://").expect("a WebSocket address");
        let host = rest.split('/').next().unwrap_or(rest);
        let stream = TcpStream::connect(host).await.expect("chromium listens");
        // A screenshot comes in one message.
        let config = WebSocketConfig::default().max_message_size(None).max_frame_size(None);
        let (socket, _) =
            client_async_with_config(address, stream, Some(config)).await.expect("chromium speaks WebSocket");
        let (calls, queue) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        tokio::spawn(pump(socket, queue, Arc::clone(&shared), calls.clone()));
        Self { calls, shared }
    }

    /// Calls a method and gives its answer; a refusal fails the test.
    pub(super) async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        let answer = self.try_call(session, method, params).await;
        answer.unwrap_or_else(|error| panic!("chromium refused {method}: {error}"))
    }

    /// The same, with a refusal as an answer.
    pub(super) async fn try_call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value, String> {
        let (reply, answer) = oneshot::channel();
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed) + 1;
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).insert(id, reply);
        let mut call = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            call["sessionId"] = session.into();
        }
        let _ = self.calls.send(call.to_string());
        let answer = tokio::time::timeout(CALL_LIMIT, answer).await;
        let answer = answer.unwrap_or_else(|_| panic!("chromium did not answer {method}"));
        answer.unwrap_or_else(|_| panic!("chromium has gone before it answered {method}"))
    }

    /// What a page told so far, of these methods.
    pub(super) fn told(&self, session: &str, methods: &[&str]) -> Vec<Value> {
        let told = self.shared.told.lock().unwrap_or_else(PoisonError::into_inner);
        let all = told.get(session).map(Vec::as_slice).unwrap_or_default();
        let is_wanted = |message: &&Value| message["method"].as_str().is_some_and(|it| methods.contains(&it));
        all.iter().filter(is_wanted).cloned().collect()
    }
}

async fn pump(
    socket: WebSocketStream<TcpStream>,
    mut calls: mpsc::UnboundedReceiver<String>,
    shared: Arc<Shared>,
    own_calls: mpsc::UnboundedSender<String>,
) {
    let (mut sink, mut source) = socket.split();
    loop {
        tokio::select! {
            call = calls.recv() => {
                let Some(call) = call else { return };
                if sink.send(Message::text(call)).await.is_err() {
                    break;
                }
            }
            message = source.next() => match message {
                Some(Ok(Message::Text(text))) => shared.take(&text, &own_calls),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => break,
            },
        }
    }
    // Whoever waits hears that nothing comes any more.
    shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

impl Shared {
    fn take(&self, text: &str, calls: &mpsc::UnboundedSender<String>) {
        let message: Value = serde_json::from_str(text).unwrap_or_default();
        if let Some(id) = message["id"].as_u64() {
            let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
            let answer = match message.get("error") {
                Some(error) => Err(error.to_string()),
                None => Ok(message["result"].clone()),
            };
            if let Some(waiting) = waiting {
                let _ = waiting.send(answer);
            }
            return;
        }
        let Some(session) = message["sessionId"].as_str() else { return };
        if message["method"] == "Page.javascriptDialogOpening" {
            // An open dialog stops the page; it is remembered, and closed.
            let close = json!({ "id": 0, "sessionId": session, "method": "Page.handleJavaScriptDialog", "params": { "accept": false } });
            let _ = calls.send(close.to_string());
        }
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.entry(session.to_owned()).or_default().push(message);
    }
}
