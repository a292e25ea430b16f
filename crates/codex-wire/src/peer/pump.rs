//! The two tasks of a connection: one reads and routes, one writes.

use futures_util::SinkExt;
use futures_util::StreamExt;

use super::*;
use crate::transport::{Incoming, Outgoing};

/// A server that takes nothing for this long is as good as gone.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Writes what is queued, in order, until the connection ends.
pub(super) async fn write(shared: Arc<Shared>, mut sink: Outgoing, mut queue: mpsc::Receiver<Bytes>) {
    let mut closed = shared.closed.subscribe();
    loop {
        let line = tokio::select! {
            biased;
            _ = closed.wait_for(Option::is_some) => break,
            line = queue.recv() => line,
        };
        let Some(line) = line else { break };
        match tokio::time::timeout(WRITE_LIMIT, sink.send(line)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.close(Closed::Transport(error)),
            Err(_) => {
                shared.close(Closed::Transport(TransportError::Write("the server takes no input".to_owned())))
            }
        }
    }
    queue.close();
    // The end of its input asks a stdio server to go.
    let _ = tokio::time::timeout(WRITE_LIMIT, sink.close()).await;
}

/// Reads and routes until the connection ends, then tells everyone.
pub(super) async fn read(shared: Arc<Shared>, mut incoming: Incoming) {
    let mut closed = shared.closed.subscribe();
    loop {
        let message = tokio::select! {
            biased;
            _ = closed.wait_for(Option::is_some) => break,
            message = incoming.next() => message,
        };
        match message {
            Some(Ok(line)) => receive_line(&shared, line).await,
            Some(Err(error)) => shared.close(Closed::Transport(error)),
            None => shared.close(Closed::ByServer),
        }
    }
    tell_everyone(&shared).await;
}

async fn tell_everyone(shared: &Shared) {
    let reason = shared.reason();
    let (pending, threads) = {
        let mut state = shared.state();
        state.parents.clear();
        (std::mem::take(&mut state.pending), std::mem::take(&mut state.threads))
    };
    for pending in pending.into_values() {
        pending.finish(Err(CallError::Closed(reason.clone()))).await;
    }
    for inbox in threads.into_values() {
        let _ = inbox.send(Delivery::Closed(reason.clone())).await;
    }
}

async fn receive_line(shared: &Arc<Shared>, line: Bytes) {
    let Ok(envelope) = Envelope::parse(&line) else { return keep_stray(shared, &line) };
    let thread = envelope.route.thread_id.as_deref().map(ThreadId::from);
    match (envelope.kind(), envelope.method, envelope.id) {
        (Some(Kind::Notification), Some(method), _) => {
            let turn_id = envelope.route.turn_id.as_deref().map(TurnId::from);
            let method = Box::from(&*method);
            let budget = take_budget(shared, line.len()).await;
            let note =
                Notification { method, thread_id: thread, turn_id, line: line.clone(), _budget: budget };
            deliver_notification(shared, note).await;
        }
        (Some(Kind::Request), Some(method), Some(id)) => {
            let request = ServerRequest::parse(&method, params_of(&line));
            deliver_request(shared, thread, IncomingRequest { id, request }).await;
        }
        (Some(Kind::Reply), _, Some(RequestId::Number(id))) => {
            let result = match (envelope.error, envelope.result) {
                (Some(error), _) => Err(error),
                (None, Some(result)) => Ok(result.to_owned()),
                (None, None) => return keep_stray(shared, &line),
            };
            deliver_reply(shared, id, result).await;
        }
        _ => keep_stray(shared, &line),
    }
}

fn params_of(line: &[u8]) -> Value {
    #[derive(serde::Deserialize)]
    struct WithParams {
        #[serde(default)]
        params: Value,
    }
    serde_json::from_slice::<WithParams>(line).map(|line| line.params).unwrap_or_default()
}

/// A line that is no message costs itself alone.
fn keep_stray(shared: &Shared, line: &[u8]) {
    // Redacted before it is cut: a cut could leave half a secret that no rule knows.
    let head = String::from_utf8_lossy(&line[..line.len().min(8 * STRAY_LINE_CHARS)]);
    let text: String = shared.redactor.redact(&head).chars().take(STRAY_LINE_CHARS).collect();
    let mut state = shared.state();
    state.stray_count += 1;
    if state.stray.len() == STRAY_LINES {
        state.stray.pop_front();
    }
    state.stray.push_back(text);
}

async fn take_budget(shared: &Shared, bytes: usize) -> Option<OwnedSemaphorePermit> {
    let bytes = u32::try_from(bytes.min(INBOUND_BYTES)).unwrap_or(u32::MAX);
    Arc::clone(&shared.budget).acquire_many_owned(bytes).await.ok()
}

async fn deliver_notification(shared: &Shared, note: Notification) {
    if &*note.method == "thread/started" {
        remember_parent(shared, &note);
    }
    match &note.thread_id {
        Some(thread) => {
            if let Some(inbox) = route_of(shared, thread) {
                let _ = inbox.send(Delivery::Notification(note)).await;
            }
        }
        None => tell_all_threads(shared, &note),
    }
}

/// Sub-agents are threads of their own; what they ask is asked of the thread that started them.
fn remember_parent(shared: &Shared, note: &Notification) {
    if let Event::ThreadStarted(thread) = note.event()
        && let (Some(child), Some(parent)) = (thread.any_id(), thread.parent_thread_id)
    {
        shared.state().parents.insert(child, ThreadId(parent));
    }
}

/// What belongs to no thread (the account's limits, warnings) is of interest to all; it is never worth a wait.
fn tell_all_threads(shared: &Shared, note: &Notification) {
    let inboxes: Vec<_> = shared.state().threads.values().cloned().collect();
    for inbox in inboxes {
        let copy = Notification {
            method: note.method.clone(),
            thread_id: None,
            turn_id: note.turn_id.clone(),
            line: note.line.clone(),
            _budget: None,
        };
        let _ = inbox.try_send(Delivery::Notification(copy));
    }
}

/// The inbox of a thread, or of the nearest thread above it that has one.
fn route_of(shared: &Shared, thread: &ThreadId) -> Option<InboxSender> {
    let state = shared.state();
    let mut thread = thread;
    // Bounded: a chain longer than the map has a loop.
    for _ in 0..=state.parents.len() {
        if let Some(inbox) = state.threads.get(thread) {
            return Some(inbox.clone());
        }
        thread = state.parents.get(thread)?;
    }
    None
}

async fn deliver_request(shared: &Shared, thread: Option<ThreadId>, request: IncomingRequest) {
    let inbox = thread.and_then(|thread| route_of(shared, &thread));
    let unclaimed = match inbox {
        Some(inbox) => match inbox.send(Delivery::Request(request)).await {
            Ok(()) => return,
            Err(mpsc::error::SendError(Delivery::Request(request))) => request,
            Err(_) => return,
        },
        None => request,
    };
    // Nobody here can answer it; silence would hang the turn for ever.
    let answer = Answer::fail_closed(&unclaimed.request);
    let _ = shared.respond(&unclaimed.id, answer).await;
}

async fn deliver_reply(shared: &Arc<Shared>, id: i64, result: Result<Box<RawValue>, RpcError>) {
    let Some(mut pending) = shared.state().pending.remove(&id) else { return };
    match result {
        Err(error) if error.code == OVERLOADED && pending.tries < OVERLOAD_TRIES => {
            pending.timer = AbortOnDrop(None);
            tokio::spawn(try_again(Arc::clone(shared), pending, error));
        }
        Err(error) => pending.finish(Err(CallError::Refused(error))).await,
        Ok(result) => {
            if let Some(inbox) = pending.opens.take()
                && let Ok(opened) = serde_json::from_str::<ThreadOpened>(result.get())
                && let Some(thread) = opened.id()
            {
                shared.state().threads.insert(thread, inbox);
            }
            pending.finish(Ok(result)).await;
        }
    }
}

async fn try_again(shared: Arc<Shared>, mut pending: Pending, error: RpcError) {
    let pause = OVERLOAD_PAUSE * 2_u32.pow(pending.tries - 1);
    let pause = pause.mul_f64(0.5 + jitter());
    if Instant::now() + pause >= pending.deadline {
        return pending.finish(Err(CallError::Refused(error))).await;
    }
    tokio::time::sleep(pause).await;
    pending.tries += 1;
    // When the connection has ended meanwhile, dropping the call tells its caller.
    let _ = shared.register_and_send(pending).await;
}

/// Between 0 and 1, from the standard library's own randomness.
fn jitter() -> f64 {
    use std::hash::{BuildHasher, RandomState};
    let bits = RandomState::new().hash_one(0_u8) >> 32;
    f64::from(u32::try_from(bits).unwrap_or_default()) / f64::from(u32::MAX)
}
