//! The two tasks of a connection: one reads and routes, one writes.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::Instant;
use tracing::{debug, warn};

use super::{
    CallError, Closed, Delivery, EARLY_NOTIFICATIONS, INBOUND_BYTES, InboxSender, IncomingRequest,
    Notification, OVERLOAD_PAUSE, OVERLOAD_TRIES, OVERLOADED, Pending, ReplyTo, STRAY_LINE_CHARS,
    STRAY_LINES, Shared,
};
use crate::answer::{Answer, RpcError};
use crate::call::ThreadOpened;
use crate::envelope::{Envelope, Kind};
use crate::event::Event;
use crate::id::{RequestId, ThreadId, TurnId};
use crate::item::SUB_AGENT_CALL;
use crate::request::ServerRequest;
use crate::transport::{Error as TransportError, Incoming, Outgoing};

/// A server that takes nothing for this long is as good as gone.
const WRITE_LIMIT: Duration = Duration::from_secs(30);
/// How long what was handed over before [`Peer::close`] may take to go out.
const FAREWELL_LIMIT: Duration = Duration::from_secs(1);
/// How long a server that takes no more input is still listened to.
const LAST_WORDS_LIMIT: Duration = Duration::from_millis(250);

/// Writes what is queued, in order, until the connection ends.
pub(super) async fn write(shared: Arc<Shared>, mut sink: Outgoing, mut queue: mpsc::Receiver<Bytes>) {
    loop {
        let line = tokio::select! {
            biased;
            _ = shared.wait_closed() => break,
            line = queue.recv() => line,
        };
        let Some(line) = line else { break };
        let sent = tokio::select! {
            biased;
            sent = tokio::time::timeout(WRITE_LIMIT, sink.send(line)) => sent,
            () = farewell_is_over(&shared) => break,
        };
        match sent {
            Ok(Ok(())) => {}
            // A sink that has failed must not be touched again, not even to be closed.
            Ok(Err(error)) => return shared.close(Closed::Transport(error)),
            Err(_) => {
                let error = TransportError::Write("the server takes no input".to_owned());
                shared.close(Closed::Transport(error));
            }
        }
    }
    queue.close();
    let farewell = async {
        while let Ok(line) = queue.try_recv() {
            sink.feed(line).await?;
        }
        // The end of its input asks a stdio server to go.
        sink.close().await
    };
    if let Ok(Err(error)) = tokio::time::timeout(FAREWELL_LIMIT, farewell).await {
        debug!(%error, "the last lines of a connection were not written");
    }
}

async fn farewell_is_over(shared: &Shared) {
    shared.wait_closed().await;
    tokio::time::sleep(FAREWELL_LIMIT).await;
}

/// Reads and routes until the connection ends, then tells everyone.
pub(super) async fn read(shared: Arc<Shared>, mut incoming: Incoming) {
    loop {
        let message = tokio::select! {
            biased;
            _ = shared.wait_closed() => break,
            message = incoming.next() => message,
        };
        match message {
            Some(Ok(line)) => tokio::select! {
                biased;
                () = receive_line(&shared, line) => {}
                // An inbox that nobody reads must not keep the others from being told.
                _ = shared.wait_closed() => break,
            },
            Some(Err(error)) => shared.close(Closed::Transport(error)),
            None => shared.close(Closed::ByServer),
        }
    }
    if matches!(shared.reason(), Closed::Transport(TransportError::Write(_))) {
        hear_last_words(&shared, &mut incoming).await;
    }
    tell_everyone(&shared).await;
}

/// A server that went away while we wrote to it may have said something before: that still counts.
async fn hear_last_words(shared: &Arc<Shared>, incoming: &mut Incoming) {
    let last_words = async {
        while let Some(Ok(line)) = incoming.next().await {
            receive_line(shared, line).await;
        }
    };
    // Silence is as good as an end.
    tokio::time::timeout(LAST_WORDS_LIMIT, last_words).await.ok();
}

/// Fails every pending call, then says goodbye to every inbox; none waits for another.
async fn tell_everyone(shared: &Shared) {
    let reason = shared.reason();
    let (pending, threads) = {
        let mut state = shared.state();
        state.parents.clear();
        (std::mem::take(&mut state.pending), std::mem::take(&mut state.threads))
    };
    let mut pending: Vec<_> = pending.into_iter().collect();
    pending.sort_unstable_by_key(|(id, _)| *id);
    let mut farewells: Vec<(InboxSender, Vec<Delivery>)> = Vec::new();
    for (_, call) in pending {
        let result = Err(CallError::Closed(reason.clone()));
        match call.reply_to {
            ReplyTo::Caller(caller) => drop(caller.send(result)),
            ReplyTo::Inbox { inbox, token } => {
                farewell_of(&mut farewells, inbox).push(Delivery::Reply { token, result });
            }
        }
    }
    for inbox in threads.into_values() {
        farewell_of(&mut farewells, inbox);
    }
    let sayings = farewells.into_iter().map(|(inbox, mut last)| {
        last.push(Delivery::Closed(reason.clone()));
        async move {
            for delivery in last {
                // An owner that is gone needs no goodbye.
                inbox.send(delivery).await.ok();
            }
        }
    });
    join_all(sayings).await;
}

/// What one inbox is still to get. An inbox may be of several threads.
fn farewell_of(farewells: &mut Vec<(InboxSender, Vec<Delivery>)>, inbox: InboxSender) -> &mut Vec<Delivery> {
    let at = farewells.iter().position(|(known, _)| known.same_channel(&inbox)).unwrap_or_else(|| {
        farewells.push((inbox, Vec::new()));
        farewells.len() - 1
    });
    &mut farewells[at].1
}

async fn receive_line(shared: &Arc<Shared>, line: Bytes) {
    let Ok(envelope) = Envelope::parse(&line) else { return keep_stray(shared, &line) };
    let thread = envelope.route.thread_id.as_deref().map(ThreadId::from);
    match (envelope.kind(), envelope.method, envelope.id) {
        (Some(Kind::Notification), Some(method), _) => {
            let note = Notification {
                method: Box::from(&*method),
                thread_id: thread,
                turn_id: envelope.route.turn_id.as_deref().map(TurnId::from),
                line: line.clone(),
                _budget: take_budget(shared, line.len()).await,
            };
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
    warn!(bytes = line.len(), "a line from Codex is no message");
    let mut state = shared.state();
    state.stray_count += 1;
    if state.stray.len() == STRAY_LINES {
        state.stray.pop_front();
    }
    state.stray.push_back(text);
}

async fn take_budget(shared: &Shared, bytes: usize) -> Option<Arc<OwnedSemaphorePermit>> {
    let bytes = u32::try_from(bytes.min(INBOUND_BYTES)).unwrap_or(u32::MAX);
    Arc::clone(&shared.budget).acquire_many_owned(bytes).await.ok().map(Arc::new)
}

async fn deliver_notification(shared: &Shared, note: Notification) {
    if &*note.method == "thread/started" || tells_of_sub_agents(&note) {
        remember_parents(shared, &note);
    }
    match &note.thread_id {
        Some(thread) => match route_of(shared, thread) {
            Some(inbox) => drop(inbox.send(Delivery::Notification(note)).await),
            None => keep_early(shared, note),
        },
        None => tell_all_threads(shared, &note),
    }
}

/// Keeps what may belong to a thread whose opening has no reply yet. The first count: they tell how it begins.
fn keep_early(shared: &Shared, note: Notification) {
    let mut state = shared.state();
    if !state.is_opening() {
        // What was kept for an opening that was refused is nobody's.
        state.early.clear();
    } else if state.early.len() < EARLY_NOTIFICATIONS {
        state.early.push(note);
    } else {
        warn!(method = note.method, "a notification is dropped: too many came before their thread was open");
    }
}

/// Whether an item that ended may have started sub-agents. Most items are long and have not: they are not read for it.
fn tells_of_sub_agents(note: &Notification) -> bool {
    &*note.method == "item/completed"
        && std::str::from_utf8(note.raw()).is_ok_and(|line| line.contains(SUB_AGENT_CALL))
}

/// Sub-agents are threads of their own; what they ask is asked of the thread that started them. A host tells of
/// everyone's threads: those of other clients are none of ours.
fn remember_parents(shared: &Shared, note: &Notification) {
    let families: Vec<(ThreadId, ThreadId)> = match (note.event(), &note.thread_id) {
        (Event::ThreadStarted(thread), _) => {
            thread.any_id().zip(thread.parent_thread_id.map(ThreadId)).into_iter().collect()
        }
        (Event::ItemCompleted(item), Some(parent)) => {
            item.started_agents().into_iter().map(|child| (child, parent.clone())).collect()
        }
        _ => return,
    };
    let mut state = shared.state();
    for (child, parent) in families {
        if child != parent && state.inbox_of(&parent).is_some() {
            state.parents.insert(child, parent);
        }
    }
}

/// What belongs to no thread (the account's limits, warnings) is of interest to all; it is never worth a wait.
fn tell_all_threads(shared: &Shared, note: &Notification) {
    let inboxes: Vec<_> = shared.state().threads.values().cloned().collect();
    for inbox in inboxes {
        if let Err(mpsc::error::TrySendError::Full(_)) = inbox.try_send(Delivery::Notification(note.clone()))
        {
            warn!(method = note.method, "a thread misses a notification: it is too slow to take more");
        }
    }
}

fn route_of(shared: &Shared, thread: &ThreadId) -> Option<InboxSender> {
    shared.state().inbox_of(thread).cloned()
}

async fn deliver_request(shared: &Shared, thread: Option<ThreadId>, request: IncomingRequest) {
    let inbox = thread.and_then(|thread| route_of(shared, &thread));
    let unclaimed = match inbox {
        Some(inbox) => match inbox.send(Delivery::Request(Box::new(request))).await {
            Err(mpsc::error::SendError(Delivery::Request(request))) => *request,
            Ok(()) | Err(_) => return,
        },
        None => request,
    };
    // Nobody here can answer it; silence would hang the turn for ever.
    let answer = Answer::fail_closed(&unclaimed.request);
    warn!(id = ?unclaimed.id, "a request of Codex is declined: no thread of ours is concerned");
    if let Err(error) = shared.respond(&unclaimed.id, answer).await {
        warn!(%error, "the refusal could not be sent");
    }
}

async fn deliver_reply(shared: &Arc<Shared>, id: i64, result: Result<Box<RawValue>, RpcError>) {
    // A late reply, to a call that was given up, is nobody's.
    let Some(mut pending) = shared.state().pending.remove(&id) else { return };
    match result {
        Err(error) if error.code == OVERLOADED && may_try_again(&pending) => try_again(shared, pending),
        Err(error) => pending.finish(Err(CallError::Refused(error))).await,
        Ok(result) => {
            if let Some(inbox) = pending.opens.take()
                && let Ok(opened) = serde_json::from_str::<ThreadOpened>(result.get())
                && let Some(thread) = opened.id()
            {
                let early = shared.state().opened(&thread, &inbox);
                for note in early {
                    // An owner that is gone misses nothing.
                    inbox.send(Delivery::Notification(note)).await.ok();
                }
            }
            pending.finish(Ok(result)).await;
        }
    }
}

fn may_try_again(pending: &Pending) -> bool {
    pending.tries < OVERLOAD_TRIES && Instant::now() + longest_pause(pending.tries) < pending.deadline
}

fn longest_pause(tries: u32) -> Duration {
    OVERLOAD_PAUSE * 2_u32.pow(tries)
}

/// The call goes back on the list at once, so that its deadline and the end of the connection find it there; it is
/// written after a pause.
fn try_again(shared: &Arc<Shared>, mut pending: Pending) {
    let pause = longest_pause(pending.tries).mul_f64(rand::random_range(0.5..1.0));
    pending.tries += 1;
    let (_, line) = shared.register(&mut shared.state(), pending);
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => drop(shared.write(line).await),
            _ = shared.wait_closed() => {}
        }
    });
}
